/* SPDX-License-Identifier: BSD-3-Clause */
/* check_keep_small.c -- small memory is kept while the program allocates again what it frees */
#include "keep_fixture.h"

#define MIB   ((uint64_t)1 << 20)
#define PAIRS 16 /* of an allocation and a free, after which none is kept */

static void set_up(void)
{
	set_up_with("inf", "inf");
}

CASE(small, .set_up = set_up);

static uint64_t next = HOME;

/* The driver allocates. */
static uint64_t allocate_next(uint64_t size)
{
	uint64_t base = next;

	next += BLOCK;
	allocate(base, size);
	return base;
}

static bool free_at(uint64_t base)
{
	bool kept = keeps(base);

	if (!kept) {
		struct allocation ended;

		ck_assert(memory_freeing(FREE_DEVICE, base, &ended));
		standin_free(base);
	}
	return kept;
}

/* Allocations and frees of sizes each above all before: true if the last free kept memory. */
static bool grow(unsigned int pairs, uint64_t *size)
{
	bool kept = false;

	for (unsigned int i = 0; i < pairs; i++) {
		*size += 512;
		ck_assert_uint_eq(reuse(*size), 0);
		kept = free_at(allocate_next(*size));
	}
	return kept;
}

static void keep_no_more(void)
{
	uint64_t size = 4096;

	ck_assert(grow(PAIRS, &size));
	ck_assert(!grow(1, &size));
}

TEST(small, sizes_that_are_never_allocated_again_are_not_kept)
{
	uint64_t size = 4096;

	ck_assert(grow(PAIRS, &size));
	ck_assert_uint_eq(gpu.frees, 0);
	ck_assert(!grow(1, &size));
	/* All that was kept is released. */
	ck_assert_uint_eq(gpu.frees, PAIRS);
	ck_assert_uint_eq(statistics_get(kept_bytes), 0);
	ck_assert(!grow(2000, &size));
	ck_assert_uint_eq(statistics_get(kept), PAIRS);
}

TEST(small, a_size_that_is_allocated_again_is_kept_again)
{
	uint64_t base;

	keep_no_more();
	ck_assert_uint_eq(reuse(65536), 0);
	base = allocate_next(65536);
	ck_assert(!free_at(base));
	/* A smaller one of the class would have been served, a larger one not. */
	ck_assert_uint_eq(reuse(65537), 0);
	ck_assert(!free_at(allocate_next(65000)));
	ck_assert_uint_eq(reuse(65001), 0);
	ck_assert(!free_at(allocate_next(65000)));
	ck_assert_uint_eq(reuse(64999), 0);
	base = allocate_next(64999);
	ck_assert(free_at(base));
	ck_assert_uint_eq(reuse(64999), base);
}

TEST(small, each_freed_size_stands_for_one_allocation)
{
	keep_no_more();
	ck_assert(!free_at(allocate_next(65536)));
	ck_assert_uint_eq(reuse(65536), 0);
	ck_assert(free_at(allocate_next(8192)));
	ck_assert_uint_eq(reuse(65536), 0);
	ck_assert(!free_at(allocate_next(8192)));
}

TEST(small, sizes_of_which_every_second_is_allocated_again_are_kept)
{
	uint64_t fixed = allocate_next(8192), size = 65536;

	for (unsigned int i = 0; i < 10 * PAIRS; i++) {
		ck_assert(free_at(fixed));
		ck_assert_uint_eq(reuse(8192), fixed);
		ck_assert(grow(1, &size));
	}
	ck_assert_uint_eq(gpu.frees, 0);
}

TEST(small, allocations_count_while_small_memory_is_kept)
{
	uint64_t base = allocate_next(8192);

	ck_assert(free_at(base));
	ck_assert_uint_eq(reuse(8192), base);
	ck_assert(free_at(allocate_next(3 * MIB)));
	for (unsigned int i = 0; i < 10 * PAIRS; i++)
		ck_assert_uint_eq(reuse(512 + 512 * i), 0);
	ck_assert(free_at(base));
}

TEST(small, larger_memory_stays)
{
	uint64_t small = allocate_next(MIB), larger = allocate_next(MIB + 1);
	uint64_t host = HOME + ((uint64_t)1 << 33), size = 4096;

	allocate_host(host, 4096, 0);
	ck_assert(keeps_host(host));
	ck_assert(free_at(small));
	ck_assert(free_at(larger));
	ck_assert(!grow(PAIRS + 1, &size));
	ck_assert_uint_eq(gpu.frees, PAIRS);
	ck_assert_uint_eq(reuse(MIB), 0);
	ck_assert_uint_eq(reuse(MIB + 1), larger);
	ck_assert(free_at(larger));
	ck_assert_uint_eq(
		reuse_request(&(struct keep_request){ ALLOCATION_HOST, 0, 4096, 0 }, NULL), host);
}

TEST(small, pitched_memory_counts_by_its_request)
{
	const struct keep_request request = { ALLOCATION_PITCHED, 4, 100, 10 };
	const struct keep_request larger = { ALLOCATION_PITCHED, 4, 65000, 40 };
	uint64_t base = HOME + ((uint64_t)1 << 33);
	size_t pitch;

	keep_no_more();
	allocate_pitched(base + 4 * BLOCK, &larger, 65536);
	ck_assert(free_at(base + 4 * BLOCK));
	ck_assert_uint_eq(reuse_request(&larger, &pitch), base + 4 * BLOCK);
	allocate_pitched(base, &request, 512);
	ck_assert(!free_at(base));
	ck_assert_uint_eq(reuse_request(&request, &pitch), 0);
	allocate_pitched(base, &request, 512);
	ck_assert(free_at(base));
	ck_assert_uint_eq(reuse_request(&request, &pitch), base);
}

SUITE("keep_small")
