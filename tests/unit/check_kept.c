/* SPDX-License-Identifier: BSD-3-Clause */
/* check_kept.c -- the list of kept memory: limits, order of releases, ends of contexts */
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "keep_fixture.h"

#define MIB ((uint64_t)1 << 20)

static uint64_t at(unsigned int number)
{
	return HOME + number * 16 * BLOCK;
}

static void keep_one_of(CUcontext context, unsigned int number, uint64_t size)
{
	allocate_in(context, at(number), size);
	require(keeps(at(number)));
}

static void keep_one(unsigned int number, uint64_t size)
{
	keep_one_of(&first, number, size);
}

static void set_up(void)
{
	set_up_with("8M", "2M");
}

CASE(kept, .set_up = set_up);

/* ---- limits ---- */

TEST(kept, beyond_the_limit_the_least_recently_kept_is_released_first)
{
	const uint64_t order[] = { at(1), at(2), at(0) };

	for (unsigned int i = 0; i < 4; i++)
		keep_one(i, 2 * MIB);
	ck_assert_uint_eq(gpu.frees, 0);
	ck_assert_uint_eq(reuse(2 * MIB), at(3));
	ck_assert(keeps(at(3)));
	allocate(at(4), MIB);
	/* The first is the most recent now. */
	enter(&first);
	ck_assert_uint_eq(reuse(2 * MIB), at(3));
	ck_assert_uint_eq(reuse(2 * MIB), at(2));
	ck_assert_uint_eq(reuse(2 * MIB), at(1));
	ck_assert_uint_eq(reuse(2 * MIB), at(0));
	ck_assert(keeps(at(1)));
	ck_assert(keeps(at(2)));
	ck_assert(keeps(at(0)));
	ck_assert(keeps(at(3)));
	keep_one(5, 6 * MIB);
	must_have_freed(3, order);
	ck_assert_uint_eq(statistics_get(kept_released), 3);
	ck_assert_uint_eq(statistics_get(kept_bytes), 8 * MIB);
}

TEST(kept, large_allocations_count_in_blocks_as_the_driver_counts_them)
{
	keep_one(0, MIB);
	ck_assert_uint_eq(statistics_get(kept_bytes), MIB);
	ck_assert_uint_eq(kept_block_bytes(0), 0);
	keep_one(1, MIB + 1);
	ck_assert_uint_eq(statistics_get(kept_bytes), 3 * MIB);
	ck_assert_uint_eq(kept_block_bytes(0), 2 * MIB);
	ck_assert_uint_eq(keep_free_bytes(), 2 * MIB);
	keep_one(2, 2 * MIB + 1);
	ck_assert_uint_eq(statistics_get(kept_bytes), 7 * MIB);
	ck_assert_uint_eq(keep_free_bytes(), 6 * MIB);
	enter(&of_second_gpu);
	ck_assert_uint_eq(keep_free_bytes(), 0);
	enter(NULL);
	ck_assert_uint_eq(keep_free_bytes(), 0);
	ck_assert_uint_eq(kept_block_bytes(-1), 0);
	ck_assert_uint_eq(kept_block_bytes(KEEP_HOST), 0);
}

TEST(kept, memory_larger_than_the_limit_is_not_kept)
{
	keep_one(0, 4096);
	keep_one(1, 8 * MIB);
	allocate(at(2), 8 * MIB + 1);
	ck_assert(!keeps(at(2)));
	allocate_host(at(3), 2 * MIB + 1, 0);
	ck_assert(!keeps_host(at(3)));
	allocate_host(at(4), 2 * MIB, 0);
	ck_assert(keeps_host(at(4)));
	ck_assert_uint_eq(gpu.frees, 1); /* for the second */
}

TEST(kept, each_gpu_and_the_host_have_limits_of_their_own)
{
	const uint64_t order[] = { at(2) };

	keep_one(0, 8 * MIB);
	keep_one_of(&of_second_gpu, 1, 8 * MIB);
	allocate_host(at(2), MIB, 0);
	ck_assert(keeps_host(at(2)));
	allocate_host(at(3), 2 * MIB, 0);
	ck_assert(keeps_host(at(3)));
	must_have_freed(1, order);
	ck_assert_uint_eq(statistics_get(kept_bytes), 16 * MIB);
	ck_assert_uint_eq(statistics_get(kept_host_bytes), 2 * MIB);
}

TEST(kept, high_ordinals_share_the_last_limit)
{
	struct CUctx_st high = { .device = 64, .alive = true }, higher = high;
	const uint64_t order[] = { at(0) };

	higher.device = 1000;
	keep_one_of(&high, 0, 8 * MIB);
	keep_one_of(&higher, 1, 8 * MIB);
	must_have_freed(1, order);
	enter(&higher);
	ck_assert_uint_eq(reuse(8 * MIB), at(1));
}

static void set_up_percentage(void)
{
	set_up_with("10%", "0");
}

CASE(percentages, .set_up = set_up_percentage);

TEST(percentages, a_percentage_is_of_each_gpu_s_memory)
{
	const uint64_t order[] = { at(0), at(3) };

	gpu.total = 200 * MIB; /* the limits are 20 MiB and 10 MiB */
	keep_one(0, 4 * MIB);
	keep_one(1, 16 * MIB);
	ck_assert_uint_eq(gpu.frees, 0);
	keep_one(2, 4 * MIB);
	ck_assert_uint_eq(gpu.frees, 1);
	keep_one_of(&of_second_gpu, 3, 2 * MIB);
	keep_one_of(&of_second_gpu, 4, 10 * MIB);
	must_have_freed(2, order);
	allocate_in(&of_second_gpu, at(5), 10 * MIB + 1);
	ck_assert(!keeps(at(5)));
}

TEST(percentages, a_percentage_of_unknown_memory_keeps_nothing)
{
	allocate(at(0), 4096);
	gpu.total_result = CUDA_ERROR_INVALID_VALUE;
	ck_assert(!keeps(at(0)));
	gpu.total_result = CUDA_SUCCESS;
	standin_driver.cuDeviceTotalMem_v2 = NULL;
	ck_assert(!keeps(at(0)));
	standin_driver.cuDeviceTotalMem_v2 = get_total;
	ck_assert(keeps(at(0)));
}

/* ---- releases ---- */

TEST(kept, for_want_of_memory_the_largest_are_released_first_until_there_is_enough)
{
	const uint64_t order[] = { at(2), at(1), at(0), at(3), at(4) };

	keep_one(0, MIB);
	keep_one(1, 2 * MIB);
	keep_one(2, 4 * MIB);
	keep_one(3, 4096);
	keep_one_of(&of_second_gpu, 4, 8 * MIB);
	ck_assert(keep_release(KEEP_CURRENT, 4 * MIB + 1));
	must_have_freed(2, order);
	ck_assert(keep_release(KEEP_CURRENT, 100 * MIB));
	must_have_freed(4, order);
	ck_assert(!keep_release(KEEP_CURRENT, 1));
	ck_assert(!keep_release(KEEP_HOST, 1));
	enter(NULL);
	ck_assert(!keep_release(KEEP_CURRENT, 1));
	enter(&of_second_gpu);
	ck_assert(keep_release(KEEP_CURRENT, 0));
	must_have_freed(5, order);
}

/* Of one power of 2. */
TEST(kept, of_similar_sizes_the_largest_is_released_first)
{
	const uint64_t order[] = { at(1), at(3), at(0), at(2) };

	keep_one(0, MIB + 4096);
	keep_one(1, 2 * MIB - 1);
	keep_one(2, MIB);
	keep_one(3, 2 * MIB - 2);
	ck_assert(keep_release(KEEP_CURRENT, 1));
	must_have_freed(1, order);
	ck_assert(keep_release(KEEP_CURRENT, 100 * MIB));
	must_have_freed(4, order);
}

TEST(kept, for_want_of_host_memory_host_memory_is_released)
{
	const uint64_t order[] = { at(1) };

	keep_one(0, 4096);
	allocate_host(at(1), 4096, 0);
	ck_assert(keeps_host(at(1)));
	ck_assert(keep_release(KEEP_HOST, 4096));
	must_have_freed(1, order);
	ck_assert_uint_eq(statistics_get(kept_host_bytes), 0);
	ck_assert_uint_eq(statistics_get(kept_bytes), 4096);
}

TEST(kept, the_memory_of_one_context_is_released_alone)
{
	const uint64_t order[] = { at(1), at(3), at(0), at(2) };

	keep_one(0, 4096);
	keep_one_of(&second, 1, 4096);
	keep_one(2, 4096);
	keep_one_of(&second, 3, 4096);
	keep_release_context(&second);
	must_have_freed(2, order);
	keep_release_context(NULL);
	must_have_freed(4, order);
}

TEST(kept, memory_that_ended_with_its_context_is_forgotten)
{
	keep_one(0, 2 * MIB);
	keep_one_of(&second, 1, 2 * MIB);
	standin_free(at(1));
	memory_end_unreported();
	keep_forget_ended();
	ck_assert_uint_eq(statistics_get(kept_bytes), 2 * MIB);
	ck_assert_uint_eq(kept_block_bytes(0), 2 * MIB);
	keep_release_context(&second);
	ck_assert_uint_eq(gpu.frees, 0);
	ck_assert_uint_eq(reuse(2 * MIB), at(0));
}

/* Its address may hold other memory. */
TEST(kept, memory_that_the_driver_no_longer_has_is_not_freed)
{
	keep_one(0, 4096);
	standin_free(at(0));
	standin_allocate(at(0), 4096, &second, true);
	keep_release_context(NULL);
	ck_assert_uint_eq(gpu.frees, 0);
	ck_assert_uint_eq(standin_events.freeing, 1);
	ck_assert_uint_eq(statistics_get(kept_released), 0);
}

static void *look(void *released)
{
	uint64_t address = *(uint64_t *)released;

	require(keep_visible(address) == KEEP_ABSENT);
	require(keep_visible(address + 4095) == KEEP_ABSENT);
	require(keep_visible(address + 4096) == address + 4096);
	require(keep_visible(address - 1) == address - 1);
	return NULL;
}

/* A hook in the driver's free sees the memory. */
static void look_while_releasing(uint64_t address)
{
	pthread_t other;

	require(address == at(0));
	require(standin_events.freeing == 1);
	require(!table_is_address_hidden(address));
	require(keep_visible(address) == address && keep_visible(address + 4095) == address + 4095);
	require(!pthread_create(&other, NULL, look, &address) && !pthread_join(other, NULL));
}

TEST(kept, an_address_stays_hidden_until_the_driver_has_freed_it)
{
	keep_one(0, 4096);
	ck_assert_uint_eq(keep_visible(at(0)), KEEP_ABSENT);
	ck_assert_uint_eq(keep_visible(at(0) + 4096), at(0) + 4096);
	gpu.during = look_while_releasing;
	keep_release_context(NULL);
	ck_assert_uint_eq(gpu.frees, 1);
	ck_assert_uint_eq(keep_visible(at(0)), at(0));
}

static void must_be_entered(uint64_t address)
{
	require(stack[depth - 1] == (address == at(0) ? &first : &of_second_gpu));
}

/* _i: no context is current; another one; a destroyed one. */
LOOP_TEST(kept, memory_is_released_in_its_context, 0, 3)
{
	CUcontext current[] = { NULL, &first, &second };

	keep_one(0, 4096);
	keep_one_of(&of_second_gpu, 1, 4096);
	second.alive = false;
	enter(current[_i]);
	gpu.during = must_be_entered;
	keep_release_context(NULL);
	ck_assert_uint_eq(gpu.frees, 2);
	ck_assert_uint_eq(depth, _i > 0);
	ck_assert(!_i || stack[0] == current[_i]);
}

TEST(kept, failed_frees_are_counted_and_logged_once)
{
	int log = memfd_create("log", 0);
	char text[4096] = "", *line;

	ck_assert(dup2(log, 1) == 1 && dup2(log, 2) == 2);
	gpu.free_result = CUDA_ERROR_INVALID_VALUE;
	keep_one(0, 4096);
	keep_one(1, 4096);
	keep_release_context(NULL);
	ck_assert_uint_eq(gpu.frees, 2);
	ck_assert_uint_eq(statistics_get(kept_released), 2);
	ck_assert_uint_eq(statistics_get(kept_bytes), 0);
	ck_assert_int_gt(pread(log, text, sizeof(text) - 1, 0), 0);
	line = strstr(text, "could not be freed");
	ck_assert_ptr_nonnull(line);
	ck_assert_ptr_null(strstr(line + 1, "could not be freed"));
	ck_assert_uint_eq(reuse(4096), 0);
}

/* ---- releases by two threads ---- */

static _Atomic pid_t other_thread;
static _Atomic bool release_begins, other_returned;
static unsigned int frees_seen;
static bool other_result;

/* In the release: until the other thread waits for it, or has not. */
static void let_other_wait(uint64_t address)
{
	(void)address;
	release_begins = true;
	for (unsigned int seen = 0; seen < 1000 && !other_returned; usleep(0))
		seen += other_thread && is_asleep(other_thread);
}

static void await_release(void)
{
	while (!release_begins)
		usleep(0);
	other_thread = gettid();
}

static void *release_context(void *nothing)
{
	await_release();
	keep_release_context(&first);
	frees_seen = gpu.frees;
	other_returned = true;
	return nothing;
}

static void *release_bytes(void *nothing)
{
	enter(&first);
	await_release();
	other_result = keep_release(KEEP_CURRENT, 1) || keep_await_release(0);
	frees_seen = gpu.frees;
	other_returned = true;
	return nothing;
}

static void release_beside(void *(*other)(void *nothing))
{
	pthread_t thread;

	keep_one(0, 8 * MIB);
	gpu.during = let_other_wait;
	ck_assert_int_eq(pthread_create(&thread, NULL, other, NULL), 0);
	keep_release_context(NULL);
	pthread_join(thread, NULL);
	ck_assert_uint_eq(frees_seen, 1);
	ck_assert_uint_eq(gpu.frees, 1);
}

TEST(kept, a_context_ends_after_releases_of_its_memory_by_other_threads)
{
	release_beside(release_context);
}

TEST(kept, an_allocation_without_memory_waits_for_a_release_by_another_thread)
{
	release_beside(release_bytes);
	ck_assert(other_result);
}

SUITE("kept")
