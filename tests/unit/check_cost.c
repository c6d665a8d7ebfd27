/* SPDX-License-Identifier: BSD-3-Clause */
/* check_cost.c -- the sign of an adapter on which registered memory makes registrations slower */
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

/* Registers `count` ranges of so many MiB. Returns the number until the sign; 0: no sign. */
static unsigned int until_steep(unsigned int count, uint64_t mib,
				uint64_t (*time)(unsigned int i, uint64_t mib))
{
	for (unsigned int i = 0; i < count; i++) {
		if (cost_add(&adapter, mib * MIB, time(i, mib)))
			return i + 1;
	}
	return 0;
}

static uint64_t constant(unsigned int i, uint64_t mib)
{
	return 100 * MS + 0 * i + 0 * mib;
}

static uint64_t by_length(unsigned int i, uint64_t mib)
{
	return (mib + 0 * i) * MS;
}

/* A fixed part of 70 ms, and 260 ms for each GiB of 256 MiB pieces. */
static uint64_t like_efa(unsigned int i, uint64_t mib)
{
	return (70 + 65ull * i + 0 * mib) * MS;
}

static uint64_t short_times(unsigned int i, uint64_t mib)
{
	return (1 + i + 0 * mib) * MS;
}

static uint64_t often_interrupted(unsigned int i, uint64_t mib)
{
	return (i % 3 ? 900 + 0 * mib : 5) * MS;
}

TEST(cost, the_usual_time_is_the_shortest_known_and_short)
{
	ck_assert_uint_eq(cost_usual(&adapter, MIB), MS);
	cost_add(&adapter, MIB, MS / 2);
	cost_add(&adapter, MIB, MS / 4);
	cost_add(&adapter, MIB, MS / 3);
	ck_assert_uint_eq(cost_usual(&adapter, MIB) & ~1ull, MS / 4);
	ck_assert_uint_le(cost_usual(&adapter, MIB / 2), MS / 4 + 1);
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

TEST(cost, times_below_20_ms_and_single_ones_are_no_sign)
{
	ck_assert_uint_eq(until_steep(20, 1, short_times), 0);
	ck_assert_uint_eq(until_steep(50, 64, often_interrupted), 0);
}

TEST(cost, growing_times_are_a_sign_once)
{
	/* More than 4 * 70 + 20 ms: from the 5th on. */
	ck_assert_uint_eq(until_steep(20, 256, like_efa), 7);
	ck_assert(adapter.is_steep);
	ck_assert_uint_eq(until_steep(20, 256, like_efa), 0);
}

TEST(cost, other_lengths_are_compared)
{
	ck_assert(!cost_add(&adapter, 2 * MIB, 1 * MS));
	/* Up to twice as long as in proportion, times 4, and 20 ms: no sign for 64 MiB. */
	for (int i = 0; i < 5; i++)
		ck_assert(!cost_add(&adapter, 64 * MIB, 270 * MS));
	/* And no shorter range takes longer. */
	for (int i = 0; i < 2; i++)
		ck_assert(!cost_add(&adapter, 1 * MIB, 30 * MS));
	ck_assert(cost_add(&adapter, 1 * MIB, 30 * MS));
}

SUITE("cost")
