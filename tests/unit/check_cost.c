/* SPDX-License-Identifier: BSD-3-Clause */
/* check_cost.c -- the sign of an adapter on which registered memory makes registrations slower, and
 * equal times of a part and the whole
 */
#include "suite.h"

#include "registration/internal.h"

#define MS  1000000ull
#define MIB (1ull << 20)

static struct adapter adapter;

static void set_up(void)
{
	adapter = (struct adapter){ 0 };
}

CASE(cost, .set_up = set_up);

/* Registers `count` ranges of so many MiB, each beside all before it. Returns the number until the
 * sign; 0: no sign. */
static unsigned int until_steep(unsigned int count, uint64_t mib,
				uint64_t (*time)(unsigned int i, uint64_t mib))
{
	for (unsigned int i = 0; i < count; i++) {
		adapter.bytes += mib * MIB;
		if (cost_add(&adapter, mib * MIB, time(i, mib)) == COST_STEEP)
			return i + 1;
	}
	return 0;
}

/* 1 MiB beside so many MiB. */
static enum cost_change add_beside(uint64_t mib, uint64_t nanoseconds)
{
	adapter.bytes = (mib + 1) * MIB;
	return cost_add(&adapter, MIB, nanoseconds);
}

static uint64_t constant(unsigned int i, uint64_t mib)
{
	return 100 * MS + 0 * i + 0 * mib;
}

static uint64_t by_length(unsigned int i, uint64_t mib)
{
	return (mib + 0 * i) * MS;
}

/* A fixed part of 70 ms, and 264 us for each MiB that is registered. */
static uint64_t like_efa(unsigned int i, uint64_t mib)
{
	return 70 * MS + 264000 * i * mib;
}

static uint64_t short_times(unsigned int i, uint64_t mib)
{
	return MS + i * MS / 40 + 0 * mib;
}

static uint64_t often_interrupted(unsigned int i, uint64_t mib)
{
	return (i % 4 ? 900 + 0 * mib : 5) * MS;
}

TEST(cost, the_usual_time_is_the_shortest_known_and_short)
{
	ck_assert_uint_eq(cost_usual(&adapter, MIB), MS);
	add_beside(0, MS / 2);
	add_beside(1, MS / 4);
	add_beside(2, MS / 3);
	ck_assert_uint_eq(cost_usual(&adapter, MIB) & ~1ull, MS / 4);
	ck_assert_uint_le(cost_usual(&adapter, MIB / 2), MS / 4 + 1);
	adapter.bytes = 64 * MIB;
	cost_add(&adapter, 64 * MIB, 9 * MS);
	ck_assert_uint_eq(cost_usual(&adapter, 64 * MIB), MS);
}

TEST(cost, constant_and_proportional_times_are_no_sign)
{
	ck_assert_uint_eq(until_steep(50, 1, constant), 0);
	ck_assert_uint_eq(until_steep(50, 1000, constant), 0);
	set_up();
	for (uint64_t mib = 1; mib <= 65536; mib *= 3)
		ck_assert_uint_eq(until_steep(5, mib, by_length), 0);
	for (uint64_t mib = 65536; mib; mib /= 2)
		ck_assert_uint_eq(until_steep(5, mib, by_length), 0);
}

/* 0.52 ms are less than a ns for each granule of 100 GiB. */
TEST(cost, a_constant_added_time_beside_very_much_is_no_sign)
{
	add_beside(0, MS);
	add_beside(1, MS);
	for (uint64_t gib = 32; gib < 400; gib++)
		ck_assert_int_eq(add_beside(gib << 10, MS + 52 * MS / 100), COST_UNCHANGED);
}

TEST(cost, short_times_and_single_ones_are_no_sign)
{
	ck_assert_uint_eq(until_steep(20, 1, short_times), 0);
	ck_assert_uint_eq(until_steep(50, 64, often_interrupted), 0);
	ck_assert(!adapter.is_steep);
}

/* The next one of a sequence, 0 to 255. */
static unsigned int next_random(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 24;
}

/* Rounds of buffers of five lengths, on a machine whose other work makes registrations up to three
 * times as long, for some of them in a row. */
static bool has_sign_when_busy(uint32_t random)
{
	unsigned int load = 256;
	bool sign = false;

	set_up();
	for (unsigned int i = 0; i < 90; i++) {
		uint64_t bytes = (64ull << 10) << i % 10 / 2 * 2;

		if (i % 10 == 0)
			adapter.bytes = 0; /* all freed */
		if (next_random(&random) < 32)
			load = 256 + 2 * next_random(&random);
		adapter.bytes += bytes;
		sign |= cost_add(&adapter, bytes,
				 load * (MS / 3 + 5 * MS * bytes / MIB) / 256) == COST_STEEP;
	}
	return sign;
}

TEST(cost, a_busy_machine_gives_no_sign)
{
	unsigned int signs = 0;

	for (uint32_t i = 0; i < 1000; i++)
		signs += has_sign_when_busy(i);
	ck_assert_uint_eq(signs, 0);
}

TEST(cost, growing_times_are_a_sign_once)
{
	/* More than a 32nd of 70 ms beside 16 MiB, and then up to 96. */
	ck_assert_uint_eq(until_steep(20, 16, like_efa), 7);
	ck_assert(adapter.is_steep);
	for (unsigned int i = 7; i < 20; i++) {
		adapter.bytes += 16 * MIB;
		ck_assert_int_eq(cost_add(&adapter, 16 * MIB, like_efa(i, 16)), COST_UNCHANGED);
	}
	ck_assert(adapter.is_steep);
}

TEST(cost, added_times_in_proportion_to_nothing_are_no_sign)
{
	add_beside(0, MS);
	for (uint64_t i = 1; i < 200; i++)
		ck_assert_int_eq(add_beside(i * i, 9 * MS), COST_UNCHANGED);
	for (uint64_t i = 0; i < 200; i++)
		ck_assert_int_eq(add_beside(65536 + i, (i % 2 ? 9 : 90) * MS), COST_UNCHANGED);
}

/* Added times in proportion, of registrations beside `from` MiB and more. Returns the number until
 * the sign; 0: no sign. */
static unsigned int rise(uint64_t from, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		if (add_beside(from + from / 2 * i, MS + (2 + i) * 2 * MS) == COST_STEEP)
			return i + 1;
	}
	return 0;
}

TEST(cost, bytes_beside_a_registration_in_the_usual_time_give_no_sign)
{
	add_beside(0, MS);
	ck_assert_int_eq(add_beside(1024, MS + MS / 4), COST_UNCHANGED);
	ck_assert_uint_eq(rise(256, 7), 0);
	ck_assert_uint_eq(rise(1028, 9), 6);
}

TEST(cost, a_sign_is_revoked_by_the_usual_time_beside_as_much)
{
	add_beside(0, MS);
	ck_assert_uint_eq(rise(500, 6), 6);
	ck_assert_int_eq(add_beside(499, MS), COST_UNCHANGED);
	ck_assert_int_eq(add_beside(900, 9 * MS), COST_UNCHANGED);
	ck_assert(adapter.is_steep);
	ck_assert_int_eq(add_beside(500, MS), COST_FLAT);
	ck_assert(!adapter.is_steep);
	ck_assert_uint_eq(rise(200, 6), 0);
}

TEST(cost, other_lengths_are_compared)
{
	add_beside(0, MS / 2);
	adapter.bytes = 1024 * MIB;
	/* Up to twice as long as in proportion: no sign for 64 MiB, and no proof. */
	ck_assert_int_eq(cost_add(&adapter, 64 * MIB, 60 * MS), COST_UNCHANGED);
	ck_assert_uint_eq(adapter.proven, 0);
	ck_assert_int_eq(cost_add(&adapter, 64 * MIB, 60 * MS), COST_UNCHANGED);
	ck_assert_uint_eq(adapter.proven, 960 * MIB);
	/* And no shorter range takes longer. */
	for (uint64_t i = 10; i < 30; i += 4) {
		adapter.bytes = 100 * i * MIB;
		ck_assert_int_eq(cost_add(&adapter, 2 * MIB, 16 * i * MS), COST_UNCHANGED);
	}
	adapter.bytes = 3100 * MIB;
	ck_assert_int_eq(cost_add(&adapter, 2 * MIB, 500 * MS), COST_STEEP);
}

/* So many registrations for requests. */
static void request(unsigned int count, uint64_t bytes, uint64_t nanoseconds)
{
	for (unsigned int i = 0; i < count; i++)
		cost_add_request(&adapter, 1, bytes, nanoseconds);
}

/* The number of calls, of 80, that return true. */
static unsigned int found_equal(uint64_t bytes, uint64_t more)
{
	unsigned int found = 0;

	for (unsigned int i = 0; i < 80; i++)
		found += cost_is_equal(&adapter, 1, bytes, more);
	return found;
}

#define EQUAL 70 /* the part is registered in one of 8 */

TEST(cost, equal_times_are_known_after_four_registrations_of_each_length)
{
	request(3, MIB, MS);
	request(4, 4 * MIB, MS + MS / 33);
	ck_assert_uint_eq(found_equal(MIB, 4 * MIB), 0);
	request(1, MIB, 9 * MS);
	ck_assert_uint_eq(found_equal(MIB, 4 * MIB), EQUAL);
	ck_assert_uint_eq(found_equal(MIB, 3 * MIB), EQUAL);
	ck_assert_uint_eq(found_equal(MIB, 4 * MIB + 1), 0);
	request(1, MIB, MS - MS / 40);
	ck_assert_uint_eq(found_equal(MIB, 4 * MIB), 0);
	set_up();
	request(4, MIB, MS);
	request(3, 4 * MIB, MS);
	ck_assert_uint_eq(found_equal(MIB, 4 * MIB), 0);
	request(1, 4 * MIB, 9 * MS);
	ck_assert_uint_eq(found_equal(MIB, 4 * MIB), EQUAL);
}

TEST(cost, a_whole_that_takes_longer_lately_is_not_equal)
{
	request(4, MIB, MS);
	request(31, 4 * MIB, 9 * MS);
	ck_assert_uint_eq(found_equal(MIB, 4 * MIB), 0);
	request(1, 4 * MIB, MS);
	ck_assert_uint_eq(found_equal(MIB, 4 * MIB), EQUAL);
	request(16, 4 * MIB, MS + MS / 30);
	ck_assert_uint_eq(found_equal(MIB, 4 * MIB), EQUAL);
	request(1, 4 * MIB, MS + MS / 30);
	ck_assert_uint_eq(found_equal(MIB, 4 * MIB), 0);
	/* Longer times of the part are other work on the machine. */
	request(40, MIB, 9 * MS);
	ck_assert_uint_eq(found_equal(MIB, 4 * MIB), 0);
	request(1, 4 * MIB, MS);
	ck_assert_uint_eq(found_equal(MIB, 4 * MIB), EQUAL);
}

TEST(cost, only_longer_ranges_show_the_time_of_the_whole)
{
	request(4, MIB, MS);
	request(4, 8 * MIB, MS);
	ck_assert_uint_eq(found_equal(MIB, 4 * MIB + 1), EQUAL);
	ck_assert_uint_eq(found_equal(MIB, 8 * MIB + 1), 0);
	ck_assert_uint_eq(found_equal(MIB, 3 * MIB), 0);
	ck_assert_uint_eq(found_equal(MIB, UINT64_MAX), 0);
	/* Nearer lengths decide. */
	request(3, 4 * MIB, MS);
	ck_assert_uint_eq(found_equal(MIB, 4 * MIB + 1), EQUAL);
	request(1, 4 * MIB, MS);
	ck_assert_uint_eq(found_equal(MIB, 4 * MIB + 1), 0);
	request(12 + 16, 5 * MIB, MS);
	ck_assert_uint_eq(found_equal(MIB, 4 * MIB + 1), 0);
	request(1, 5 * MIB, MS);
	ck_assert_uint_eq(found_equal(MIB, 4 * MIB + 1), EQUAL);
}

TEST(cost, times_of_other_gpus_are_not_compared)
{
	request(4, MIB, MS);
	request(4, 4 * MIB, MS);
	ck_assert(!cost_is_equal(&adapter, 0, MIB, 4 * MIB));
	for (unsigned int i = 0; i < 40; i++) {
		cost_add_request(&adapter, 0, MIB, MS / 2);
		cost_add_request(&adapter, 0, 8 * MIB, MS / 2);
	}
	ck_assert_uint_eq(found_equal(MIB, 4 * MIB), EQUAL);
	ck_assert_uint_eq(found_equal(MIB, 8 * MIB), 0);
	ck_assert(!cost_is_equal(&adapter, 0, MIB, 8 * MIB));
}

TEST(cost, a_whole_of_another_gpu_hides_no_longer_one)
{
	request(4, MIB, MS);
	for (unsigned int i = 0; i < 4; i++)
		cost_add_request(&adapter, 0, 4 * MIB, MS);
	ck_assert_uint_eq(found_equal(MIB, 4 * MIB), 0);
	request(4, 8 * MIB, MS);
	ck_assert_uint_eq(found_equal(MIB, 4 * MIB), EQUAL);
}

TEST(cost, each_length_of_parts_is_checked)
{
	request(4, MIB, MS);
	request(4, 4 * MIB, MS);
	request(4, 16 * MIB, MS);
	for (unsigned int i = 1; i <= 16; i++) {
		ck_assert(cost_is_equal(&adapter, 1, MIB, 16 * MIB) != (i % 8 == 0));
		ck_assert(cost_is_equal(&adapter, 1, 4 * MIB, 16 * MIB) != (i % 8 == 0));
	}
}

TEST(cost, forgotten_times_are_not_equal)
{
	request(4, MIB, MS);
	request(4, 8 * MIB, MS);
	cost_forget(&adapter, 5 * MIB);
	ck_assert_uint_eq(found_equal(MIB, 5 * MIB), 0);
	request(4, 8 * MIB, MS);
	ck_assert_uint_eq(found_equal(MIB, 5 * MIB), EQUAL);
}

TEST(cost, only_shorter_ranges_show_the_time_of_the_part)
{
	request(4, 3 * MIB, MS);
	request(4, 8 * MIB, MS);
	ck_assert_uint_eq(found_equal(2 * MIB, 8 * MIB), 0);
	ck_assert_uint_eq(found_equal(3 * MIB, 8 * MIB), EQUAL);
	request(4, MIB, MS);
	ck_assert_uint_eq(found_equal(2 * MIB, 8 * MIB), EQUAL);
	ck_assert_uint_eq(found_equal(1, 8 * MIB), 0);
}

TEST(cost, short_times_and_those_of_steep_adapters_are_never_equal)
{
	request(9, MIB, 99000);
	request(9, 2 * MIB, 99000);
	ck_assert_uint_eq(found_equal(MIB, 2 * MIB), 0);
	set_up();
	request(9, MIB, MS);
	request(9, 2 * MIB, MS);
	ck_assert_uint_eq(found_equal(MIB, 2 * MIB), EQUAL);
	adapter.is_steep = true;
	ck_assert_uint_eq(found_equal(MIB, 2 * MIB), 0);
}

SUITE("cost")
