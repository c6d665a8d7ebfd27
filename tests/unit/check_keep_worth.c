/* SPDX-License-Identifier: BSD-3-Clause */
/* check_keep_worth.c -- memory is kept while the program allocates again what it frees */
#include "keep_fixture.h"

#include "memory/keep_worth.h"

#define MIB   ((uint64_t)1 << 20)
#define FIRST 16 /* allocations that get none, until none is kept */
#define MOST  64 /* after many that got some */

static void set_up(void)
{
	set_up_with("inf", "inf");
}

CASE(worth, .set_up = set_up);

static uint64_t next = HOME;

/* The driver allocates. */
static uint64_t allocate_next(uint64_t size)
{
	uint64_t base = next;

	next += (size + BLOCK - 1) / BLOCK * BLOCK;
	allocate(base, size);
	return base;
}

static bool free_at(uint64_t base)
{
	struct allocation ended;
	bool kept = keeps(base);

	if (!kept) {
		ck_assert(memory_freeing(FREE_DEVICE, base, &ended));
		standin_free(base);
	}
	return kept;
}

static bool has_credit(unsigned int list, uint64_t bytes)
{
	return keep_worth_has(list, bytes, false);
}

/* Something is kept, an allocation gets none, and is freed. */
static void miss(unsigned int list, uint64_t bytes)
{
	keep_worth_missed(list, bytes, 1);
	keep_worth_has(list, bytes, true);
}

/* Allocations and frees of sizes each above all before: true if the last free kept memory. */
static bool grow(unsigned int pairs, uint64_t *size)
{
	bool kept = false;

	for (unsigned int i = 0; i < pairs; i++) {
		*size += *size < MIB ? 512 : BLOCK;
		ck_assert_uint_eq(reuse(*size), 0);
		kept = free_at(allocate_next(*size));
	}
	return kept;
}

/* The first one finds nothing kept. */
static void keep_no_more(void)
{
	uint64_t size = 4096;

	ck_assert(grow(FIRST, &size));
	ck_assert(!grow(1, &size));
}

/* Each size of `count` once more. */
static void repeat(const uint64_t *bases, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		ck_assert(free_at(bases[i]));
	for (unsigned int i = 0; i < count; i++)
		ck_assert_uint_eq(reuse(65536 + 512 * i), bases[i]);
}

/* Which it spends. */
static unsigned int credit(uint64_t bytes)
{
	unsigned int count = 0;

	for (; has_credit(0, bytes); count++)
		miss(0, bytes);
	return count;
}

TEST(worth, sizes_that_are_never_allocated_again_are_not_kept)
{
	uint64_t size = 4096;

	ck_assert(grow(FIRST, &size));
	ck_assert_uint_eq(gpu.frees, 0);
	/* Each further free releases two. */
	for (unsigned int i = 1; i <= FIRST / 2; i++) {
		ck_assert(!grow(1, &size));
		ck_assert_uint_eq(gpu.frees, 2 * i);
	}
	ck_assert_uint_eq(statistics_get(kept_bytes), 0);
	ck_assert(!grow(2000, &size));
	ck_assert_uint_eq(statistics_get(kept), FIRST);
	ck_assert_uint_eq(gpu.frees, FIRST);
}

TEST(worth, a_size_that_is_allocated_again_is_kept_again)
{
	uint64_t base;

	keep_no_more();
	/* A smaller one of the class would have been served, a larger one not. */
	ck_assert(!free_at(allocate_next(65000)));
	ck_assert_uint_eq(reuse(65001), 0);
	ck_assert(!free_at(allocate_next(65001)));
	ck_assert_uint_eq(reuse(64999), 0);
	base = allocate_next(64999);
	ck_assert(free_at(base));
	ck_assert_uint_eq(reuse(64999), base);
}

TEST(worth, classes_have_bounds)
{
	static const struct {
		uint64_t freed, wanted;
		bool again;
	} cases[] = {
		{ 512, 1, true },
		{ 1024, 1000, true },
		{ 1024, 512, false },
		{ MIB, MIB - 65535, true },
		{ MIB, MIB - 65536, false },
		{ 64 * MIB, 60 * MIB + 1, true },
		{ 64 * MIB, 60 * MIB, false },
	};

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		while (has_credit(i, cases[i].wanted))
			miss(i, cases[i].wanted);
		keep_worth_freed(i, cases[i].freed);
		keep_worth_missed(i, cases[i].wanted, 0);
		ck_assert_msg(has_credit(i, cases[i].wanted) == cases[i].again, "case %u", i);
	}
}

TEST(worth, no_more_are_noted_than_there_is_room_for)
{
	credit(MIB);
	for (unsigned int i = 0; i < 100; i++)
		keep_worth_freed(0, MIB);
	for (unsigned int i = 0; i < 32; i++)
		keep_worth_missed(0, MIB, 0);
	ck_assert_uint_eq(credit(MIB - 65536), MOST);
	keep_worth_missed(0, MIB, 0);
	ck_assert(!has_credit(0, MIB));
}

TEST(worth, the_largest_freed_size_of_a_class_counts)
{
	credit(4096);
	keep_worth_freed(0, 65536);
	keep_worth_freed(0, 65000);
	keep_worth_missed(0, 65500, 0);
	ck_assert(has_credit(0, 4096));
}

TEST(worth, each_freed_size_stands_for_one_allocation)
{
	keep_worth_freed(0, 65536);
	for (unsigned int i = 0; i < FIRST; i++)
		miss(0, 4096);
	ck_assert(!has_credit(0, 65536));
	keep_worth_missed(0, 65536, 0);
	ck_assert_uint_eq(credit(65536), 2);
	keep_worth_missed(0, 65536, 0);
	ck_assert(!has_credit(0, 65536));
}

TEST(worth, credit_has_a_bound)
{
	for (unsigned int i = 0; i < 1000; i++)
		keep_worth_matched(0, 4096);
	ck_assert_uint_eq(credit(MIB + 1), FIRST);
	ck_assert_uint_eq(credit(MIB), MOST);
	ck_assert_uint_eq(credit(4096), 0);
}

TEST(worth, what_is_still_kept_is_reused_and_kept_again)
{
	uint64_t base = allocate_next(65536);

	ck_assert(free_at(base));
	credit(65536);
	ck_assert_uint_eq(reuse(65536), base);
	ck_assert(free_at(base));
}

TEST(worth, sizes_of_which_every_second_is_allocated_again_are_kept)
{
	uint64_t fixed = allocate_next(8192), size = 65536;

	for (unsigned int i = 0; i < 10 * FIRST; i++) {
		ck_assert(free_at(fixed));
		ck_assert_uint_eq(reuse(8192), fixed);
		ck_assert(grow(1, &size));
	}
	ck_assert_uint_eq(gpu.frees, 0);
}

TEST(worth, new_sizes_between_those_that_repeat_end_nothing)
{
	uint64_t bases[100], size = 256 << 10;

	for (unsigned int i = 0; i < 100; i++)
		bases[i] = allocate_next(65536 + 512 * i);
	for (unsigned int i = 0; i < 10; i++) {
		repeat(bases, 100);
		ck_assert(free_at(bases[0]));
		ck_assert(grow(MOST - 1, &size));
		ck_assert_uint_eq(reuse(65536), bases[0]);
	}
	ck_assert(free_at(bases[0]));
	ck_assert(!grow(MOST + 2, &size));
}

/* 9 of 10 repeat. */
TEST(worth, after_a_burst_of_new_sizes_those_that_repeat_are_reused_again)
{
	uint64_t size = 256 << 10, bases[10];

	keep_no_more();
	for (unsigned int step = 0; step < 100; step++) {
		size += 512;
		for (unsigned int i = 0; i < 10; i++) {
			bases[i] = reuse(i ? 65536 + 512 * i : size);
			if (!bases[i])
				bases[i] = allocate_next(i ? 65536 + 512 * i : size);
		}
		for (unsigned int i = 0; i < 10; i++)
			free_at(bases[i]);
	}
	ck_assert_uint_ge(statistics_get(reused), 95 * 9);
}

/* Number of allocations of the size, which is freed, and of those that reused memory. */
static unsigned int allocations, reuses;

static void pair(uint64_t size)
{
	uint64_t base = reuse(size);

	allocations++;
	reuses += base != 0;
	free_at(base ? base : allocate_next(size));
}

static void two_of_a_class(unsigned int cycle)
{
	(void)cycle;
	pair(65000);
	pair(65536);
}

static void three_large_ones(unsigned int cycle)
{
	(void)cycle;
	pair(121 * MIB);
	pair(124 * MIB);
	pair(127 * MIB);
}

static void many(unsigned int cycle)
{
	(void)cycle;
	for (unsigned int i = 0; i < 100; i++)
		pair(65536 + 512 * i);
}

static void array_that_grows(unsigned int cycle)
{
	uint64_t array = 0, base;

	(void)cycle;
	for (unsigned int i = 1; i <= 128; i++) {
		base = reuse(4096 * i);
		allocations++;
		reuses += base != 0;
		if (!base)
			base = allocate_next(4096 * i);
		if (array)
			free_at(array);
		array = base;
	}
	free_at(array);
}

static void new_one_between_two(unsigned int cycle)
{
	pair(4096);
	pair(300032 + 512 * cycle);
	allocations--;
	pair(8192);
}

static void each_size_twice(unsigned int cycle)
{
	pair(300032 + 512 * cycle);
	allocations--;
	pair(300032 + 512 * cycle);
}

static void (*const patterns[])(unsigned int) = {
	two_of_a_class,	  three_large_ones,    many,
	array_that_grows, new_one_between_two, each_size_twice
};

/* Without credit, and much is live. */
LOOP_TEST(worth, sizes_that_repeat_are_reused_again, 0, sizeof(patterns) / sizeof(patterns[0]))
{
	allocate_next(4096 * MIB);
	pair(512);
	credit(4096);
	credit(2 * MIB);
	allocations = reuses = 0;
	for (unsigned int i = 0; i < 100; i++)
		patterns[_i](i);
	ck_assert_msg(reuses > allocations * 95 / 100, "pattern %u: %u of %u", _i, reuses,
		      allocations);
}

TEST(worth, allocations_count_when_they_are_freed_and_other_memory_is_kept)
{
	uint64_t bases[10 * FIRST], kept = allocate_next(8192);

	/* Nothing is kept but larger memory, or no memory is allocated. */
	ck_assert(free_at(kept));
	ck_assert_uint_eq(reuse(8192), kept);
	ck_assert(free_at(allocate_next(3 * MIB)));
	for (unsigned int i = 0; i < 10 * FIRST; i++) {
		ck_assert_uint_eq(reuse(512 + 512 * i), 0);
		bases[i] = allocate_next(512 + 512 * i);
	}
	ck_assert(free_at(kept));
	for (unsigned int i = 0; i < 10 * FIRST; i++)
		ck_assert_uint_eq(reuse(0), 0);
	for (unsigned int i = 0; i < 10 * FIRST; i++)
		ck_assert(free_at(bases[i]));
	/* One is kept: no more than one is a miss. */
	ck_assert(keep_release(KEEP_CURRENT, UINT64_MAX));
	kept = allocate_next(8192);
	ck_assert(free_at(kept));
	for (unsigned int i = 0; i < 10 * FIRST; i++) {
		ck_assert_uint_eq(reuse(512 << 10 | 512 * i), 0);
		bases[i] = allocate_next(512 << 10 | 512 * i);
	}
	for (unsigned int i = 0; i < 10 * FIRST; i++)
		ck_assert(free_at(bases[i]));
	ck_assert_uint_ge(credit(4096), FIRST - 1);
}

/* A program that allocates much, and keeps it, between phases. */
TEST(worth, allocations_that_stay_cost_nothing)
{
	uint64_t bases[4 * MOST];

	for (unsigned int i = 0; i < 4 * MOST; i++)
		bases[i] = allocate_next(8192);
	for (unsigned int i = 0; i < 4 * MOST; i++)
		ck_assert(free_at(bases[i]));
	for (unsigned int i = 0; i < 4 * MOST; i++) {
		ck_assert_uint_eq(reuse(65536), 0);
		bases[i] = allocate_next(65536);
	}
	for (unsigned int i = 0; i < 4 * MOST; i++) {
		ck_assert(free_at(bases[i]));
		ck_assert_uint_eq(reuse(65536), bases[i]);
	}
}

TEST(worth, a_free_of_reused_memory_pays_for_no_miss)
{
	uint64_t fixed = allocate_next(8192), other = allocate_next(65536);

	ck_assert(free_at(fixed));
	ck_assert(free_at(other));
	ck_assert_uint_eq(reuse(256 << 10), 0);
	allocate_next(256 << 10);
	ck_assert_uint_eq(reuse(8192), fixed);
	ck_assert(free_at(fixed));
	ck_assert_uint_eq(credit(4096), FIRST + 1);
}

/* Until nothing like it is kept. */
static void grow_in_vain(uint64_t *size)
{
	while (has_credit(0, *size) || kept_number_like(0, *size))
		grow(1, size);
	ck_assert(!grow(4, size));
}

TEST(worth, small_and_larger_memory_are_judged_apart)
{
	uint64_t small = allocate_next(MIB), larger = allocate_next(MIB + 1), size = 4096;

	allocate_next(4096 * MIB); /* there is room beside it */
	ck_assert(free_at(small));
	ck_assert(free_at(larger));
	grow_in_vain(&size);
	ck_assert_uint_eq(statistics_get(kept_bytes), BLOCK);
	ck_assert_uint_eq(reuse(MIB), 0);
	ck_assert_uint_eq(reuse(MIB + 1), larger);
	ck_assert(free_at(larger));
	keep_worth_matched(0, MIB);
	small = allocate_next(MIB);
	ck_assert(free_at(small));
	size = 2 * MIB;
	grow_in_vain(&size);
	ck_assert_uint_eq(statistics_get(kept_bytes), MIB);
	ck_assert_uint_eq(reuse(MIB), small);
}

/* Then two of three allocations may get none. */
TEST(worth, larger_memory_is_worth_more)
{
	uint64_t fixed = allocate_next(2 * MIB), size = 4 * MIB;

	allocate_next(8192 * MIB);
	for (unsigned int i = 0; i < 4 * FIRST; i++) {
		ck_assert(free_at(fixed));
		ck_assert_uint_eq(reuse(2 * MIB), fixed);
		ck_assert(grow(2, &size));
	}
}

TEST(worth, pitched_and_host_memory_are_kept_always)
{
	const struct keep_request request = { ALLOCATION_PITCHED, 4, 100, 10 };
	uint64_t pitched = HOME + ((uint64_t)1 << 33), host = HOME + ((uint64_t)2 << 33);
	uint64_t size = 65536;
	size_t pitch;

	allocate_host(host, 4096, 0);
	allocate_pitched(pitched, &request, 512);
	keep_no_more();
	ck_assert(free_at(pitched));
	ck_assert(keeps_host(host));
	ck_assert(!grow(10 * FIRST, &size));
	ck_assert(!has_credit(0, 4096));
	ck_assert_uint_eq(reuse_request(&request, &pitch), pitched);
	ck_assert(!has_credit(0, 4096));
	ck_assert_uint_eq(
		reuse_request(&(struct keep_request){ ALLOCATION_HOST, 0, 4096, 0 }, NULL), host);
}

/* The driver's free waits for the context of its memory, and for no other. */
TEST(worth, a_free_releases_memory_of_its_own_context)
{
	uint64_t foreign = HOME + ((uint64_t)1 << 33), own = allocate_next(8192);
	struct allocation ended;

	for (unsigned int i = 0; i < 7; i++) {
		allocate_in(&second, foreign + i * BLOCK, 8000);
		ck_assert(keeps(foreign + i * BLOCK));
	}
	ck_assert(free_at(own));
	credit(4096);
	ck_assert(!free_at(allocate_next(4096)));
	must_have_freed(1, &own);
	allocate_in(&second, foreign + 7 * BLOCK, 8000);
	ck_assert(!keeps(foreign + 7 * BLOCK));
	ck_assert(memory_freeing(FREE_DEVICE, foreign + 7 * BLOCK, &ended));
	must_have_freed(3, (uint64_t[]){ own, foreign, foreign + BLOCK });
}

TEST(worth, the_stalest_go_first_and_those_of_that_gpu)
{
	uint64_t other = HOME + ((uint64_t)1 << 33), larger, small, last;

	allocate_in(&of_second_gpu, other, 4096);
	ck_assert(keeps(other));
	larger = allocate_next(3 * MIB);
	ck_assert(free_at(larger));
	small = allocate_next(500000);
	ck_assert(free_at(small));
	last = allocate_next(8192);
	ck_assert(free_at(last));
	allocate_next(4096 * MIB);
	credit(4096);
	ck_assert(!free_at(allocate_next(4096)));
	must_have_freed(2, (uint64_t[]){ small, last });
	ck_assert(!free_at(allocate_next(4096)));
	ck_assert_uint_eq(gpu.frees, 2);
}

TEST(worth, old_small_memory_is_not_like_larger_memory)
{
	uint64_t small = allocate_next(MIB), larger;

	ck_assert(free_at(small));
	allocate_next(4096 * MIB);
	larger = allocate_next(3 * MIB);
	ck_assert(free_at(larger));
	credit(3 * MIB);
	ck_assert(!free_at(allocate_next(2 * MIB)));
	must_have_freed(1, &larger);
}

TEST(worth, gpus_are_judged_apart)
{
	uint64_t base = HOME + ((uint64_t)1 << 33), own = allocate_next(8192);
	struct allocation ended;

	ck_assert(free_at(own));
	allocate_in(&of_second_gpu, base, 4096);
	ck_assert(keeps(base));
	enter(&of_second_gpu);
	ck_assert_uint_eq(reuse(4096), base);
	ck_assert(keeps(base));
	while (has_credit(1, 4096))
		miss(1, 4096);
	ck_assert(has_credit(0, 4096));
	allocate_in(&of_second_gpu, base + BLOCK, 8192);
	ck_assert(!keeps(base + BLOCK));
	ck_assert(memory_freeing(FREE_DEVICE, base + BLOCK, &ended));
	must_have_freed(1, &base);
	/* A release counts as a free. */
	miss(1, 4096);
	while (has_credit(1, 4096))
		miss(1, 4096);
	keep_worth_freed(0, 4096);
	miss(1, 4096);
	ck_assert(!has_credit(1, 4096));
}

SUITE("keep_worth")
