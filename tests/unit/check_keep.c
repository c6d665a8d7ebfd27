/* SPDX-License-Identifier: BSD-3-Clause */
/* check_keep.c -- frees that keep memory, allocations that reuse it, hidden records */
#include <sys/mman.h>
#include <sys/resource.h>

#include "keep_fixture.h"

static void set_up(void)
{
	set_up_with("inf", "64M");
}

CASE(keep, .set_up = set_up);

/* ---- requests ---- */

TEST(keep, freed_memory_serves_the_next_equal_request)
{
	allocate(HOME, 5000);
	ck_assert(keeps(HOME));
	ck_assert(!is_found(HOME));
	ck_assert_uint_eq(reuse(5000), HOME);
	ck_assert(is_found(HOME));
	ck_assert_uint_eq(reuse(5000), 0);
	ck_assert_uint_eq(gpu.frees, 0);
	ck_assert_uint_eq(statistics_get(kept), 1);
	ck_assert_uint_eq(statistics_get(reused), 1);
	ck_assert_uint_eq(statistics_get(frees), 1);
	ck_assert_uint_eq(statistics_get(allocations), 2);
	ck_assert_uint_eq(statistics_get(kept_bytes), 0);
	ck_assert_uint_eq(statistics_get(kept_bytes_peak), 5000);
}

TEST(keep, the_last_freed_is_reused_first)
{
	for (unsigned int i = 0; i < 4; i++)
		allocate(HOME + i * BLOCK, 4096);
	for (unsigned int i = 0; i < 4; i++)
		ck_assert(keeps(HOME + (i ^ 1) * BLOCK));
	for (unsigned int i = 4; i--;)
		ck_assert_uint_eq(reuse(4096), HOME + (i ^ 1) * BLOCK);
}

TEST(keep, memory_of_thousands_of_sizes_is_told_apart)
{
	enum { SIZES = 6000 };

	for (uint64_t i = 0; i < SIZES; i++)
		allocate(HOME + i * BLOCK, BLOCK / 2 + 1 + i);
	for (uint64_t i = 0; i < SIZES; i++)
		ck_assert(keeps(HOME + i * BLOCK));
	for (uint64_t i = 0; i < SIZES; i++)
		require(reuse(BLOCK / 2 + 1 + i) == HOME + i * BLOCK);
}

/* Requests that share a bucket with kept memory differ from it in one field. */
TEST(keep, memory_in_the_bucket_of_another_request_is_told_apart)
{
	enum { SIZES = 4000, OTHERS = 64 };
	static struct CUctx_st others[OTHERS];
	struct kept taken;

	for (uint64_t i = 1; i <= SIZES; i++) {
		allocate_host(HOME + i * 8192, i, 0);
		require(keeps_host(HOME + i * 8192));
	}
	for (unsigned int i = 1; i <= SIZES * OTHERS; i++) {
		struct keep_request request = { ALLOCATION_HOST, 0, i % SIZES + 1, 0 };

		require(!kept_take(&others[i / SIZES % OTHERS], &request, &taken));
		request.detail = i / SIZES + 1;
		require(!kept_take(&first, &request, &taken));
		request.detail = 0;
		request.height = i;
		require(!kept_take(&first, &request, &taken));
		request.height = 0;
		request.kind = (enum allocation_kind)(ALLOCATION_HOST + 1 + i / SIZES);
		require(!kept_take(&first, &request, &taken));
	}
}

TEST(keep, a_context_gets_its_own_memory_only)
{
	allocate(HOME, 4096);
	ck_assert(keeps(HOME));
	enter(&second);
	ck_assert_uint_eq(reuse(4096), 0);
	enter(NULL);
	ck_assert_uint_eq(reuse(4096), 0);
	enter(&first);
	ck_assert_uint_eq(reuse(4096), HOME);
}

TEST(keep, a_request_gets_memory_of_an_equal_request_only)
{
	static const struct keep_request of = { ALLOCATION_PITCHED, 4, 100, 8 };
	static const struct keep_request others[] = {
		{ ALLOCATION_PITCHED, 8, 100, 8 }, { ALLOCATION_PITCHED, 4, 101, 8 },
		{ ALLOCATION_PITCHED, 4, 100, 7 }, { ALLOCATION_DEVICE, 4, 100, 8 },
		{ ALLOCATION_DEVICE, 0, 4096, 0 }, { ALLOCATION_HOST, 4, 100, 8 },
	};
	size_t pitch = 0;

	allocate_pitched(HOME, &of, 512);
	ck_assert(keeps(HOME));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		ck_assert_uint_eq(reuse_request(&others[i], &pitch), 0);
	ck_assert_uint_eq(reuse_request(&of, &pitch), HOME);
	ck_assert_uint_eq(pitch, 512);
}

TEST(keep, pitched_memory_is_kept_up_to_the_limits_of_its_key)
{
	static const struct {
		struct keep_request request;
		uint64_t pitch;
		bool keeps;
	} cases[] = {
		{ { ALLOCATION_PITCHED, 4, 512, 3 }, 512, true },
		{ { ALLOCATION_PITCHED, 8, 1, 1 }, 512, true },
		{ { ALLOCATION_PITCHED, 16, 1, 2 }, ((uint64_t)1 << 31) - 1, true },
		{ { ALLOCATION_PITCHED, 16, ((uint64_t)1 << 31) - 512, 1 },
		  ((uint64_t)1 << 31) - 512,
		  true },
		{ { ALLOCATION_PITCHED, 4, 512, 1 }, (uint64_t)1 << 31, false },
		{ { ALLOCATION_PITCHED, 4, 513, 1 }, 512, false },
		{ { ALLOCATION_PITCHED, 3, 512, 1 }, 512, false },
		{ { ALLOCATION_PITCHED, 2, 512, 1 }, 512, false },
		{ { ALLOCATION_PITCHED, 32, 512, 1 }, 512, false },
		{ { ALLOCATION_PITCHED, 0, 512, 1 }, 512, false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t base = HOME + i * (1024 * 4 * BLOCK);
		size_t pitch = 0;

		allocate_pitched(base, &cases[i].request, cases[i].pitch);
		ck_assert_msg(keeps(base) == cases[i].keeps, "case %zu", i);
		if (!cases[i].keeps)
			continue;
		ck_assert_uint_eq(reuse_request(&cases[i].request, &pitch), base);
		ck_assert_uint_eq(pitch, cases[i].pitch);
	}
}

TEST(keep, host_memory_is_reused_for_equal_flags_only)
{
	struct keep_request request = { ALLOCATION_HOST, KEEP_ALLOC_HOST, 4096, 0 };

	allocate_host(HOME, 4096, 0);
	allocate_host(HOME + BLOCK, 4096, 7);
	allocate_host(HOME + 2 * BLOCK, 4096, KEEP_ALLOC_HOST);
	for (unsigned int i = 0; i < 3; i++) {
		ck_assert(!keeps(HOME + i * BLOCK));
		ck_assert(keeps_host(HOME + i * BLOCK));
	}
	ck_assert_uint_eq(statistics_get(kept_host_bytes), 3 * 4096);
	ck_assert_uint_eq(statistics_get(kept_bytes), 0);
	ck_assert_uint_eq(reuse(4096), 0);
	ck_assert_uint_eq(reuse_request(&request, NULL), HOME + 2 * BLOCK);
	request.detail = 7;
	ck_assert_uint_eq(reuse_request(&request, NULL), HOME + BLOCK);
	request.detail = 1;
	ck_assert_uint_eq(reuse_request(&request, NULL), 0);
	request.detail = 0;
	ck_assert_uint_eq(reuse_request(&request, NULL), HOME);
	ck_assert_uint_eq(statistics_get(host_allocations), 6);
	ck_assert_uint_eq(statistics_get(host_frees), 3);
}

/* ---- frees that are the driver's ---- */

TEST(keep, a_free_that_the_driver_refuses_keeps_nothing)
{
	allocate(HOME, 4096);
	ck_assert(!keeps(HOME + 1));
	ck_assert(!keeps(HOME + BLOCK));
	ck_assert(!keeps(0));
	ck_assert(!keeps_host(HOME));
	ck_assert_uint_eq(first.waits, 0);
	ck_assert(keeps(HOME));
	ck_assert(!keeps(HOME));
	ck_assert_uint_eq(first.waits, 1);
	ck_assert_uint_eq(statistics_get(kept), 1);
}

static bool inner_keeps;

static void free_beside(void)
{
	inner_keeps = keeps(HOME);
}

/* _i: the second begins before the first has hidden the memory, or while it waits. */
LOOP_TEST(keep, of_two_frees_of_an_address_one_succeeds, 0, 2)
{
	allocate(HOME, 4096);
	if (_i)
		gpu.in_wait = free_beside;
	else
		gpu.in_version = free_beside;
	ck_assert(keeps(HOME) == (_i == 1));
	ck_assert(inner_keeps == (_i == 0));
	ck_assert_uint_eq(statistics_get(kept), 1);
	ck_assert_uint_eq(reuse(4096), HOME);
	ck_assert_uint_eq(reuse(4096), 0);
}

TEST(keep, memory_in_doubt_is_not_kept)
{
	static const struct {
		enum allocation_kind kind;
		CUcontext context;
		bool described;
	} cases[] = {
		{ ALLOCATION_DEVICE, &first, false },  { ALLOCATION_DEVICE, NULL, true },
		{ ALLOCATION_MANAGED, &first, true },  { ALLOCATION_POOL, &first, true },
		{ ALLOCATION_MAPPED, &first, true },   { ALLOCATION_SHARED, &first, true },
		{ ALLOCATION_EXTERNAL, &first, true }, { ALLOCATION_PITCHED, &first, true },
		{ ALLOCATION_HOST, &first, true }, /* registered with CUDA */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t base = HOME + i * BLOCK;

		standin_allocate(base, 4096, cases[i].context, true);
		if (cases[i].described)
			standin_describe(base, 0, cases[i].kind == ALLOCATION_HOST);
		memory_allocated(cases[i].kind, base, 4096);
		ck_assert(is_found(base) && !keeps(base) && !keeps_host(base));
	}
	ck_assert_uint_eq(standin_program_events.freeing, 0);
}

static void set_up_verify(void)
{
	setenv("PEERPIN_VERIFY", "1", 1);
	set_up();
}

CASE(verify, .set_up = set_up_verify);

TEST(verify, memory_with_a_missed_free_is_not_kept)
{
	allocate(HOME, 4096);
	standin_free(HOME);
	standin_allocate(HOME, 4096, &first, true);
	standin_describe(HOME, 0, false);
	ck_assert(!keeps(HOME));
}

TEST(keep, a_context_that_cannot_free_keeps_nothing)
{
	allocate(HOME + BLOCK, 512);
	ck_assert(keeps(HOME + BLOCK));
	allocate(HOME, 4096);
	gpu.version = 3010; /* today's calls are refused there */
	ck_assert(!keeps(HOME));
	ck_assert_uint_eq(reuse(512), 0);
	gpu.version = 3020;
	first.alive = false;
	ck_assert_uint_eq(reuse(512), 0);
	first.alive = true;
	second.alive = false;
	enter(&second);
	ck_assert(!keeps(HOME));
	standin_driver.cuCtxGetApiVersion = NULL;
	enter(&first);
	ck_assert(!keeps(HOME));
	standin_driver.cuCtxGetApiVersion = get_version;
	enter(NULL);
	ck_assert(keeps(HOME));
	ck_assert_uint_eq(depth, 0);
}

static void must_be_the_program_s_again(void)
{
	struct allocation *freed = &standin_program_events.last_freeing;
	struct allocation *again = &standin_program_events.last_allocated;

	ck_assert(is_found(HOME));
	ck_assert_uint_eq(reuse(4096), 0);
	ck_assert_uint_eq(statistics_get(kept) + statistics_get(frees), 0);
	ck_assert_uint_eq(statistics_get(kept_bytes), 0);
	ck_assert_uint_eq(standin_program_events.freeing, 1);
	ck_assert_uint_eq(standin_program_events.allocated, 2);
	ck_assert_uint_eq(freed->event_id, freed->id);
	ck_assert_uint_gt(again->event_id, freed->event_id);
	ck_assert_uint_eq(again->id, freed->id);
	ck_assert_uint_eq(standin_events.freeing, 0);
	ck_assert_uint_eq(standin_events.allocated, 1);
}

TEST(keep, after_a_failed_wait_the_driver_s_free_decides)
{
	struct allocation ended;

	allocate(HOME, 4096);
	gpu.wait_result = (CUresult)719; /* a kernel failed */
	ck_assert(!keeps(HOME));
	must_be_the_program_s_again();
	ck_assert_uint_eq(keep_visible(HOME), HOME);
	ck_assert(memory_freeing(FREE_DEVICE, HOME, &ended));
	ck_assert_uint_eq(standin_events.freeing, 1);
	ck_assert_uint_eq(standin_program_events.freeing, 2);
	ck_assert_uint_eq(standin_program_events.last_freeing.event_id,
			  standin_program_events.last_allocated.event_id);
	ck_assert_uint_eq(statistics_get(frees), 1);
}

TEST(keep, without_memory_for_an_entry_the_driver_s_free_decides)
{
	struct rlimit limit, little = { .rlim_cur = 1 };
	bool kept;

	allocate(HOME, 4096);
	ck_assert_int_eq(getrlimit(RLIMIT_DATA, &limit), 0);
	little.rlim_max = limit.rlim_max;
	ck_assert_int_eq(setrlimit(RLIMIT_DATA, &little), 0);
	if (standin_more_memory())
		return;
	kept = keeps(HOME);
	setrlimit(RLIMIT_DATA, &limit);
	ck_assert(!kept);
	must_be_the_program_s_again();
}

TEST(keep, a_capture_keeps_nothing_and_reuses_nothing)
{
	static const uint64_t order[] = { HOME };
	bool counted;

	allocate(HOME, 4096);
	allocate(HOME + BLOCK, 4096);
	ck_assert(keeps(HOME));
	counted = captures_begin();
	captures_begun(counted, CUDA_SUCCESS);
	ck_assert_uint_eq(reuse(4096), 0);
	ck_assert(!keeps(HOME + BLOCK));
	captures_ended();
	ck_assert(keeps(HOME + BLOCK));
	ck_assert_uint_eq(reuse(4096), HOME + BLOCK);
	ck_assert_uint_le(gpu.frees, 1);
	must_have_freed(gpu.frees, order);
}

TEST(keep, after_the_end_of_keeping_all_is_released)
{
	static const uint64_t order[] = { HOME };

	allocate(HOME, 4096);
	allocate(HOME + BLOCK, 4096);
	ck_assert(keeps(HOME));
	keep_end();
	ck_assert_uint_eq(keep_visible(HOME), KEEP_ABSENT);
	ck_assert(!keeps(HOME + BLOCK));
	must_have_freed(1, order);
	ck_assert_uint_eq(reuse(4096), 0);
}

/* ---- settings ---- */

CASE(settings);

/* _i, a bit each: memory of the GPU, of the host. */
LOOP_TEST(settings, each_limit_keeps_its_own_memory_alone, 1, 3)
{
	set_up_with(_i & 1 ? "64M" : "0", _i & 2 ? "64M" : "0");
	allocate(HOME, 4096);
	allocate_host(HOME + BLOCK, 4096, 0);
	ck_assert(keeps(HOME) == (_i & 1));
	ck_assert(keeps_host(HOME + BLOCK) == (_i >> 1));
}

/* _i: nothing is to be kept; a bypassing caller is found first. */
LOOP_TEST(settings, nothing_is_kept, 0, 2)
{
	setenv("PEERPIN_KEEP", _i ? "64M" : "0", 1);
	if (_i)
		keep_end();
	ck_assert(!keep_is_on() && !keep_is_concerned());
}

SUITE("keep")
