/* SPDX-License-Identifier: BSD-3-Clause */
/* check_kept_room.c -- how much is kept beside the memory of the program */
#include "keep_fixture.h"

#include "memory/keep_worth.h"

#define MIB ((uint64_t)1 << 20)

static void set_up_without_limit(void)
{
	set_up_with("inf", "0");
}

CASE(room, .set_up = set_up_without_limit);

static uint64_t far(uint64_t number)
{
	return HOME + (number << 30);
}

static void keep_far(unsigned int number, uint64_t size)
{
	ck_assert_uint_eq(reuse(size), 0);
	allocate(far(number), size);
	ck_assert(keeps(far(number)));
}

TEST(room, buffers_of_which_one_is_live_at_a_time_are_reused)
{
	keep_far(0, 64 * MIB);
	keep_far(1, 66 * MIB);
	for (int round = 0; round < 3; round++) {
		ck_assert_uint_eq(reuse(64 * MIB), far(0));
		ck_assert(keeps(far(0)));
		ck_assert_uint_eq(reuse(66 * MIB), far(1));
		ck_assert(keeps(far(1)));
	}
	ck_assert_uint_eq(gpu.frees, 0);
}

/* 1.5 times 160 MiB are held at most. */
TEST(room, memory_that_is_not_reused_goes_by_its_bytes_and_those_allocated_since)
{
	const uint64_t order[] = { far(0), far(1) };

	keep_far(0, 64 * MIB);
	keep_far(1, 66 * MIB);
	keep_far(2, 160 * MIB);
	must_have_freed(1, order);
	ck_assert_uint_eq(statistics_get(kept_bytes), 226 * MIB);
	/* Before the driver allocates. */
	ck_assert_uint_eq(reuse(100 * MIB), 0);
	must_have_freed(2, order);
	ck_assert_uint_eq(reuse(160 * MIB), far(2));
}

TEST(room, larger_memory_goes_before_older_memory)
{
	const uint64_t order[] = { far(1), far(0) };

	keep_far(0, 10 * MIB);
	keep_far(1, 66 * MIB);
	keep_far(2, 160 * MIB);
	ck_assert_uint_eq(gpu.frees, 0);
	ck_assert_uint_eq(reuse(100 * MIB), 0);
	must_have_freed(2, order);
}

TEST(room, so_little_stays_that_no_program_lacks_it)
{
	const uint64_t order[] = { far(0) };

	for (unsigned int i = 0; i < 16; i++)
		keep_worth_matched(0, 2 * MIB);
	for (unsigned int i = 0; i < 8; i++)
		keep_far(i, 2 * MIB - 16 + i);
	ck_assert_uint_eq(statistics_get(kept_bytes), 16 * MIB);
	for (unsigned int i = 8; i < 16; i++)
		keep_far(i, 2 * MIB - 16 + i);
	ck_assert_uint_eq(gpu.frees, 0);
	keep_far(16, 2 * MIB);
	must_have_freed(1, order);
}

TEST(room, it_follows_each_allocation_and_each_end)
{
	struct allocation ended;

	allocate(far(0), 64 * MIB);
	allocate(far(1), 64 * MIB);
	ck_assert_uint_eq(kept_room(0, 0), 64 * MIB);
	ck_assert_uint_eq(kept_room(0, 64 * MIB), 96 * MIB);
	ck_assert(keeps(far(0)));
	ck_assert_uint_eq(kept_room(0, 0), 128 * MIB);
	ck_assert_uint_eq(reuse(64 * MIB), far(0));
	ck_assert_uint_eq(kept_room(0, 0), 64 * MIB);
	ck_assert(memory_freeing(FREE_DEVICE, far(0), &ended));
	ck_assert_uint_eq(kept_room(0, 0), 128 * MIB);
	ck_assert(keeps(far(1)));
	ck_assert(keep_release(KEEP_CURRENT, 1));
	ck_assert_uint_eq(kept_room(0, 0), 192 * MIB);
	ck_assert_uint_eq(kept_room(1, 0), 32 * MIB);
	allocate_host(far(2), 64 * MIB, 0);
	ck_assert_uint_eq(kept_room(0, 0), 192 * MIB);
	ck_assert_uint_eq(kept_room(KEPT_HOST, 0), UINT64_MAX);
}

SUITE("room")
