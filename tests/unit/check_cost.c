/* SPDX-License-Identifier: BSD-3-Clause */
/* check_cost.c -- usual times of registrations, and equal times of a part and the whole */
#include "suite.h"

#include "registration/cost.h"

#define MS  1000000ull
#define MIB (1ull << 20)

static struct adapter adapter;

static void set_up(void)
{
	adapter = (struct adapter){ 0 };
}

CASE(cost, .set_up = set_up);

TEST(cost, the_usual_time_is_the_shortest_known_and_short)
{
	ck_assert_uint_eq(cost_usual(&adapter, MIB), MS);
	cost_add(&adapter, MIB, MS / 8);
	cost_add(&adapter, MIB, MS / 16);
	cost_add(&adapter, MIB, MS / 12);
	ck_assert_uint_eq(cost_usual(&adapter, MIB) & ~1ull, MS / 16);
	ck_assert_uint_eq(cost_usual(&adapter, MIB / 2), cost_usual(&adapter, MIB));
	ck_assert_uint_eq(cost_usual(&adapter, 2 * MIB), 4 * cost_usual(&adapter, MIB));
	cost_add(&adapter, 64 * MIB, 9 * MS);
	ck_assert_uint_eq(cost_usual(&adapter, 64 * MIB), MS);
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

TEST(cost, short_times_are_never_equal)
{
	request(9, MIB, 99000);
	request(9, 2 * MIB, 99000);
	ck_assert_uint_eq(found_equal(MIB, 2 * MIB), 0);
	set_up();
	request(9, MIB, MS);
	request(9, 2 * MIB, MS);
	ck_assert_uint_eq(found_equal(MIB, 2 * MIB), EQUAL);
}

SUITE("cost")
