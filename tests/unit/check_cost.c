/* SPDX-License-Identifier: BSD-3-Clause */
/* check_cost.c -- usual times of registrations */
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

SUITE("cost")
