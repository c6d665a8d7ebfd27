/* SPDX-License-Identifier: BSD-3-Clause */
/* check_keep.c -- frees that keep memory, allocations that reuse it, what the program sees of it */
#include <sys/resource.h>

#include "keep_fixture.h"
#include "memory/lookup.h"

static void set_up(void)
{
	set_up_with("inf", "inf");
}

CASE(keep, .set_up = set_up);

static void keep_at(uint64_t base, uint64_t size)
{
	allocate(base, size);
	ck_assert(keeps(base));
}

/* ---- requests ---- */

TEST(keep, freed_memory_serves_the_next_equal_request)
{
	keep_at(HOME, 5000);
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

/* Far more sizes than bins: requests that share a bin with kept memory differ from it in one
 * field. */
TEST(keep, memory_in_the_bin_of_another_request_is_told_apart)
{
	enum { SIZES = 4000 };
	static struct CUctx_st others[8];

	for (uint64_t i = 1; i <= SIZES; i++) {
		allocate_host(HOME + i * 8192, i, 0);
		require(keeps_host(HOME + i * 8192));
	}
	for (unsigned int i = 0; i < 8 * SIZES; i++) {
		enter(&first);
		require(!reuse_request(ALLOCATION_HOST, i / SIZES + 1, i % SIZES + 1));
		require(!reuse_request(ALLOCATION_DEVICE, 0, i % SIZES + 1));
		others[i % 8].alive = true;
		enter(&others[i % 8]);
		require(!reuse_request(ALLOCATION_HOST, 0, i / 8 + 1));
	}
	enter(&first);
	for (uint64_t i = 1; i <= SIZES; i++)
		require(reuse_request(ALLOCATION_HOST, 0, i) == HOME + i * 8192);
}

TEST(keep, a_context_gets_its_own_memory_only)
{
	keep_at(HOME, 4096);
	enter(&second);
	ck_assert_uint_eq(reuse(4096), 0);
	enter(NULL);
	ck_assert_uint_eq(reuse(4096), 0);
	enter(&first);
	ck_assert_uint_eq(reuse(4096), HOME);
}

TEST(keep, host_memory_is_reused_for_equal_sizes_and_flags_only)
{
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
	ck_assert_uint_eq(reuse_request(ALLOCATION_HOST, 7, 4095), 0);
	ck_assert_uint_eq(reuse_request(ALLOCATION_HOST, KEEP_ALLOC_HOST, 4096), HOME + 2 * BLOCK);
	ck_assert_uint_eq(reuse_request(ALLOCATION_HOST, 7, 4096), HOME + BLOCK);
	ck_assert_uint_eq(reuse_request(ALLOCATION_HOST, 1, 4096), 0);
	ck_assert_uint_eq(reuse_request(ALLOCATION_HOST, 0, 4096), HOME);
	ck_assert_uint_eq(statistics_get(host_allocations), 6);
	ck_assert_uint_eq(statistics_get(host_frees), 3);
}

/* Of the record at the address. */
static uint64_t size_at(uint64_t address)
{
	struct allocation found;

	return memory_find(address, &found) ? found.size : 0;
}

static const struct {
	uint64_t kept, wanted;
	bool fits;
} cases[] = {
	{ MIB + 2, MIB + 1, true },
	{ 2 * MIB, MIB + 1, true },
	{ 2 * MIB, MIB, false }, /* it would share a block */
	{ MIB, MIB - 65535, true },
	{ MIB, (640 << 10) + 1, true }, /* half more */
	{ MIB, 640 << 10, false },
	{ 96 << 10, 64 << 10, true },
	{ 96 << 10, (64 << 10) - 4096, false },
	{ 512, 1, true },
	{ 1000, 513, true },
	{ 1000, 1001, false },
	{ 1024, 512, false },
	{ 12288, 8192, true },
	{ 12800, 8192, false },
	{ 2 * MIB + 1, 2 * MIB, false }, /* another block */
	{ 2 * MIB + 2, 2 * MIB + 1, true },
	{ 2 * MIB + 1, 2 * MIB + 2, false },
	{ 32 * MIB, 30 * MIB + 1, true },
	{ 32 * MIB, 30 * MIB, false },
};

/* UCX sees no free of kept memory, and keeps base and length of its first use. */
LOOP_TEST(keep, memory_for_which_the_driver_takes_as_much_is_reused_with_its_whole_length, 0,
	  sizeof(cases) / sizeof(cases[0]))
{
	uint64_t kept = cases[_i].kept;

	keep_at(HOME, kept);
	ck_assert_uint_eq(reuse(cases[_i].wanted), cases[_i].fits ? HOME : 0);
	if (!cases[_i].fits)
		return;
	ck_assert_uint_eq(standin_program_events.last_allocated.size, kept);
	ck_assert_uint_eq(size_at(HOME + kept - 1), kept);
	ck_assert_uint_eq(keep_visible(HOME + kept - 1), HOME + kept - 1);
	ck_assert(keeps(HOME));
	ck_assert_uint_eq(keep_visible(HOME + kept - 1), KEEP_ABSENT);
	ck_assert_uint_eq(reuse(kept), HOME);
	ck_assert_uint_eq(gpu.frees, 0);
}

/* _i: of the same number of blocks, or small memory of half more. */
LOOP_TEST(keep, the_smallest_serves_and_of_these_the_last_freed, 0, 2)
{
	static const uint64_t sizes[][4] = { { 4 * MIB, 3 * MIB + 512, 3 * MIB, 3 * MIB + 512 },
					     { 96 << 10, 80 << 10, 64 << 10, 80 << 10 } };
	static const unsigned int order[] = { 2, 3, 1, 0 };

	for (unsigned int i = 0; i < 4; i++)
		keep_at(HOME + i * 8 * MIB, sizes[_i][i]);
	for (unsigned int i = 0; i < 4; i++)
		ck_assert_uint_eq(reuse(sizes[_i][2]), HOME + order[i] * 8 * MIB);
	ck_assert_uint_eq(reuse(sizes[_i][2]), 0);
}

TEST(keep, a_size_beyond_all_addresses_is_left_to_the_driver)
{
	keep_at(HOME, 4 * MIB);
	for (uint64_t less = 0; less < 8 * MIB; less += MIB / 2)
		ck_assert_uint_eq(reuse(UINT64_MAX - less), 0);
	ck_assert_uint_eq(reuse((uint64_t)1 << ADDRESS_BITS), 0);
	ck_assert_uint_eq(reuse(0), 0);
}

/* ---- frees that are the driver's ---- */

TEST(keep, a_free_that_the_driver_refuses_keeps_nothing)
{
	allocate(HOME, 4096);
	ck_assert(!keeps(HOME + 1) && !keeps(HOME + BLOCK) && !keeps(0) && !keeps_host(HOME));
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

TEST(keep, memory_in_doubt_or_of_another_kind_is_not_kept)
{
	static const struct {
		enum allocation_kind kind;
		CUcontext context;
		bool described;
	} of[] = {
		{ ALLOCATION_DEVICE, &first, false },  { ALLOCATION_DEVICE, NULL, true },
		{ ALLOCATION_MANAGED, &first, true },  { ALLOCATION_POOL, &first, true },
		{ ALLOCATION_MAPPED, &first, true },   { ALLOCATION_SHARED, &first, true },
		{ ALLOCATION_EXTERNAL, &first, true }, { ALLOCATION_PITCHED, &first, true },
		{ ALLOCATION_HOST, &first, true }, /* registered with CUDA */
	};

	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		uint64_t base = HOME + i * BLOCK;

		standin_allocate(base, 4096, of[i].context, true);
		if (of[i].described)
			standin_describe(base, 0, of[i].kind == ALLOCATION_HOST);
		memory_allocated(of[i].kind, base, 4096);
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
	keep_at(HOME + BLOCK, 512);
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

static struct keep_refusal refusal;

static void refuse_another_call(void)
{
	keep_retry(&refusal, 0, 0);
}

/* _i: a kernel failed, or another thread wants the memory by now. */
LOOP_TEST(keep, after_a_wait_in_vain_the_driver_s_free_decides, 0, 2)
{
	struct allocation ended;

	allocate(HOME, 4096);
	if (_i)
		gpu.in_wait = refuse_another_call;
	else
		gpu.wait_result = (CUresult)719;
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
	keep_at(HOME, 4096);
	allocate(HOME + BLOCK, 4096);
	captures_begun(captures_begin(), CUDA_SUCCESS);
	ck_assert_uint_eq(reuse(4096), 0);
	ck_assert(!keeps(HOME + BLOCK));
	captures_ended();
	ck_assert(keeps(HOME + BLOCK));
	ck_assert_uint_eq(reuse(4096), HOME + BLOCK);
	ck_assert_uint_eq(reuse(4096), HOME);
}

TEST(keep, after_the_end_of_keeping_a_free_releases_what_its_context_keeps)
{
	static const uint64_t order[] = { HOME, HOME + 4 * BLOCK, HOME + 2 * BLOCK };

	keep_at(HOME, 4096);
	allocate(HOME + BLOCK, 4096);
	allocate_host(HOME + 4 * BLOCK, 4096, 0);
	ck_assert(keeps_host(HOME + 4 * BLOCK));
	allocate_in(&second, HOME + 2 * BLOCK, 4096);
	allocate_in(&second, HOME + 3 * BLOCK, 4096);
	ck_assert(keeps(HOME + 2 * BLOCK));
	keep_end();
	ck_assert_uint_eq(keep_visible(HOME), KEEP_ABSENT);
	ck_assert_uint_eq(reuse(4096), 0);
	ck_assert(!keeps(HOME + BLOCK));
	must_have_freed(2, order);
	ck_assert(!keeps(HOME + 3 * BLOCK));
	must_have_freed(3, order);
}

/* ---- exports of whole pages ---- */

static const struct {
	uint64_t address, size;
	bool absent;
} exports[] = {
	{ 0, 4096, true },		 /* freed memory alone */
	{ 0, 8192, false },		 /* the program has its second page */
	{ 4096, 4096, false },		 /* bytes in its middle */
	{ 8192, 4096, false },		 /* freed bytes, and no memory */
	{ 4096 + 512, 512, true },	 /* behind the program's memory */
	{ 16384, 4096, false },		 /* no memory: the driver decides */
	{ 0, (uint64_t)1 << 47, false }, /* freed memory and the program's */
	{ 0, 0, true },			 /* the driver refuses it at freed memory, too */
	{ 4096, UINT64_MAX, false },	 /* no range */
	{ 20480, 4096, false },		 /* the program's before freed memory of one bucket */
};

LOOP_TEST(keep, an_export_succeeds_if_the_program_has_any_byte_of_its_range, 0,
	  sizeof(exports) / sizeof(exports[0]))
{
	allocate(HOME, 4096);
	allocate(HOME + 4096, 512);
	allocate(HOME + 4096 + 512, 3584);
	allocate(HOME + 8192, 512);
	allocate(HOME + 20480 + 1024, 512);
	allocate(HOME + 20480 + 512, 512);
	ck_assert(keeps(HOME) && keeps(HOME + 4096 + 512) && keeps(HOME + 20480 + 1024));
	ck_assert_uint_eq(keep_exported(HOME + exports[_i].address, exports[_i].size),
			  exports[_i].absent ? KEEP_ABSENT : HOME + exports[_i].address);
}

TEST(keep, one_small_allocation_among_many_freed_ones_can_be_exported)
{
	for (uint64_t i = 0; i < 4096; i++)
		allocate(HOME + i * 512, 512);
	for (uint64_t i = 0; i < 4096; i++)
		ck_assert(i == 2777 || keeps(HOME + i * 512));
	for (uint64_t page = 0; page < BLOCK; page += 4096)
		ck_assert_uint_eq(keep_exported(HOME + page, 4096),
				  page == 2777 * 512 / 4096 * 4096 ? HOME + page : KEEP_ABSENT);
	ck_assert_uint_eq(keep_exported(HOME, BLOCK), HOME);
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
	ck_assert(!keep_is_on());
}

SUITE("keep")
