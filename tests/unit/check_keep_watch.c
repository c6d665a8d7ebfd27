/* SPDX-License-Identifier: BSD-3-Clause */
/* check_keep_watch.c -- what PEERPIN_KEEP would serve, measured without it */
#include "keep_fixture.h"

#include "memory/keep_watch.h"

#define MIB ((uint64_t)1 << 20)

static void set_up_watch(void)
{
	setenv("PEERPIN_STATS_FILE", "/dev/null", 1);
	set_up_settings("0", "0");
	ck_assert(keep_is_concerned());
	ck_assert_uint_ne(keep_watch_begin(), 0);
}

CASE(watch, .set_up = set_up_watch);

/* 1 ms each; frees too. */
static void watch_allocated(uint64_t base, uint64_t size)
{
	allocate(base, size);
	keep_watch_allocated(base, keep_watch_begin() - 1000000);
}

static void watch_freed(uint64_t base)
{
	uint64_t size = keep_watch_size(base);
	struct allocation ended;

	ck_assert_uint_ne(size, 0);
	ck_assert(memory_freeing(FREE_DEVICE, base, &ended));
	standin_free(base);
	keep_watch_freed(size, keep_watch_begin() - 1000000);
}

TEST(watch, a_size_that_was_freed_is_repeated_once_for_each_free)
{
	watch_allocated(HOME, MIB);
	watch_freed(HOME);
	ck_assert_uint_eq(statistics_get(repeated), 0);
	watch_allocated(HOME, MIB - 100);
	watch_allocated(HOME + MIB, MIB - 100);
	ck_assert_uint_eq(statistics_get(repeated), 1);
	ck_assert_uint_eq(statistics_get(repeated_bytes), MIB);
	ck_assert_uint_ge(statistics_get(repeated_ns), 2000000);
}

TEST(watch, one_of_fewer_blocks_is_not)
{
	watch_allocated(HOME, 96 * MIB);
	watch_freed(HOME);
	watch_allocated(HOME, 94 * MIB);
	ck_assert_uint_eq(statistics_get(repeated), 0);
	watch_allocated(HOME + 128 * MIB, 94 * MIB + 1);
	ck_assert_uint_eq(statistics_get(repeated), 1);
	ck_assert_uint_eq(statistics_get(repeated_bytes), 96 * MIB);
}

TEST(watch, one_that_drifts_alone_is_not)
{
	for (uint64_t size = 30 * MIB; size >= 20 * MIB; size -= 2 * MIB) {
		watch_allocated(HOME, size);
		watch_freed(HOME);
	}
	ck_assert_uint_eq(statistics_get(repeated), 0);
}

SUITE("keep_watch")
