/* SPDX-License-Identifier: BSD-3-Clause */
/* regions.c -- registrations carry over from a free to the next equal allocation */
#include "keep.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 20

static void begin_with_adapter(void)
{
	set_up();
	require_cuda(cuCtxDestroy_v2(context));
	begin();
}

/* Allocate, register, use, deregister, free: the patterns of programs without a pool. */
static void after_the_first_round_nothing_is_registered(unsigned int small)
{
	static const size_t sizes[] = { UNIT, 5 * UNIT, 3 * MIB };
	size_t divisor = small ? 4096 : 1;
	uint64_t registrations = 0, deregistrations = 0, own_registrations = 0;
	char text[16], read[16] = "";

	begin_with_adapter();
	for (unsigned int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < 3; i++) {
			CUdeviceptr memory = allocate(sizes[i] / divisor);
			struct ibv_mr *mr = registered_in(pd, memory, sizes[i] / divisor, ACCESS);

			snprintf(text, sizeof(text), "round %u", round);
			require_cuda(cuMemcpyHtoD_v2(memory, text, sizeof(text)));
			require(!sim_adapter_read(device, mr->rkey, memory, read, sizeof(read)));
			require(!strcmp(text, read) && !ibv_dereg_mr(mr));
			require_cuda(cuMemFree_v2(memory));
		}
		if (round == 0) {
			/* The worker has nothing left to do. */
			registrations = sim("registrations");
			deregistrations = sim("dereg_mr");
			own_registrations = own("registrations");
		}
	}
	require(sim("registrations") == registrations && sim("dereg_mr") == deregistrations);
	require(own("registrations") == own_registrations && own("revoked") == 0);
	require(own("hits") >= 3 * (ROUNDS - 1) && own("reused") == 3 * (ROUNDS - 1));
	release_all();
	require(sim("live") == 0 && own("pinned_bytes") == 0);
	require(!ibv_dealloc_pd(pd) && !ibv_close_device(device));
	expect_no_kept();
}

/* A cache that sees no frees holds client MRs across them. */
static void a_held_client_mr_is_valid_across_free_and_reuse(unsigned int unused)
{
	struct ibv_mr *mr, *second;
	CUdeviceptr memory;
	uint32_t key;

	(void)unused;
	begin_with_adapter();
	memory = allocate(UNIT);
	mr = registered(memory);
	key = mr->rkey;
	for (int round = 0; round < 5; round++) {
		require_cuda(cuMemFree_v2(memory));
		require(can_read(key, memory) && own("revoked") == 0);
		require(allocate(UNIT) == memory && can_read(key, memory));
		second = registered(memory);
		require(second->rkey == key && !ibv_dereg_mr(second));
	}
	require(sim("registrations") == 1 && sim("dereg_mr") == 0);
	require_cuda(cuMemFree_v2(memory));
	release_all();
	require(cannot_read(key, memory) && own("revoked") == 1 && sim("live") == 0);
	require(!ibv_dereg_mr(mr) && own("late_deregistrations") == 1);
	expect_no_kept();
}

/* What the client deregisters while the memory is kept. */
static void a_client_mr_is_deregistered_while_its_memory_is_kept(unsigned int unused)
{
	CUdeviceptr memory;
	struct ibv_mr *mr;

	(void)unused;
	begin_with_adapter();
	memory = allocate(UNIT);
	mr = registered(memory);
	require_cuda(cuMemFree_v2(memory));
	require(!ibv_dereg_mr(mr) && sim("live") == 1 && own("late_deregistrations") == 0);
	require(allocate(UNIT) == memory);
	mr = registered(memory);
	require(own("hits") == 1 && sim("registrations") == 1 && !ibv_dereg_mr(mr));
	require_cuda(cuMemFree_v2(memory));
	require(!ibv_dealloc_pd(pd) && sim("live") == 0);
	require(allocate(UNIT) == memory && own("reused") == 2);
	expect_no_errors();
}

/* A request at kept memory is forwarded: a mistake of the program, as without peerpin. */
static void a_request_on_kept_memory_is_not_served(unsigned int unused)
{
	CUdeviceptr memory;
	uint64_t hits;

	(void)unused;
	begin_with_adapter();
	memory = allocate(UNIT);
	require(!ibv_dereg_mr(registered(memory)));
	require_cuda(cuMemFree_v2(memory));
	hits = own("hits");
	ibv_reg_mr(pd, pointer_to(memory), UNIT, ACCESS);
	require(own("hits") == hits && own("registrations") == 1);
}

/* The limit, want of memory and the end of the context end regions before the memory. */
static void a_release_ends_regions_first(unsigned int way)
{
	CUdeviceptr memory, other;
	struct ibv_mr *mr;
	uint64_t id;
	uint32_t key;

	begin_with_adapter();
	memory = allocate(8 * MIB);
	id = tag(memory);
	mr = registered_in(pd, memory, 8 * MIB, ACCESS);
	key = mr->rkey;
	require_cuda(cuMemFree_v2(memory));
	require(can_read(key, memory) && own("kept") == 1);
	if (way == 0) {
		other = allocate(60 * MIB);
		require_cuda(cuMemFree_v2(other));
	} else if (way == 1) {
		allocate(120 * MIB);
	} else {
		require_cuda(cuCtxDestroy_v2(context));
	}
	require(own("kept_released") == 1 && own("revoked") == 1 && tag(memory) != id);
	require(cannot_read(key, memory));
	require(!ibv_dereg_mr(mr) && own("late_deregistrations") == 1);
	require(own("internal_errors") == 0);
}

/* ---- bypassing callers ---- */

static void a_bypassing_caller_ends_keeping(unsigned int unused)
{
	CUdeviceptr kept, kept_host, memory, other;
	uint64_t id;

	(void)unused;
	begin_with_adapter();
	memory = allocate(3 * UNIT);
	require(!ibv_dereg_mr(registered(memory)));
	kept = keep(UNIT);
	kept_host = keep_host(UNIT);
	require(dlopen(getenv("KEEP_DEEPBIND"), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND));
	/* Found at the next allocation or free; no later one is kept. */
	id = tag(memory);
	other = allocate(5 * UNIT);
	require_cuda(cuMemFree_v2(memory));
	require(own("bypasses") > 0 && tag(memory) != id && own("kept") == 2);
	require(!tag(kept) && !tag(kept_host) && own("kept_released") == 2);
	memory = allocate(UNIT);
	require(own("reused") == 0);
	require_cuda(cuMemFree_v2(memory));
	require_cuda(cuMemFree_v2(other));
	require(!tag(memory) && !tag(other) && sim("live") == 0);
	expect_no_kept();
}

/* Managed memory is never kept: its allocation finds the caller before any memory could be kept. */
static void a_bypassing_caller_found_first_keeps_all_memory_from_being_kept(unsigned int unused)
{
	CUdeviceptr managed, memory;

	(void)unused;
	begin();
	require(dlopen(getenv("KEEP_DEEPBIND"), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND));
	require_cuda(cuMemAllocManaged(&managed, UNIT, CU_MEM_ATTACH_GLOBAL));
	require(own("bypasses") > 0);
	memory = allocate(UNIT);
	require_cuda(cuMemFree_v2(memory));
	require(!tag(memory) && own("kept") == 0);
	expect_no_kept();
}

/* A bypassing free of memory that the program has in use again, found at the reuse under VERIFY. */
static void memory_that_was_freed_past_peerpin_is_not_kept(unsigned int unused)
{
	CUdeviceptr memory, again;
	uint64_t id;

	(void)unused;
	begin_with_adapter();
	memory = allocate(UNIT);
	require_cuda(raw.cuMemFree_v2(memory));
	require_cuda(raw.cuMemAlloc_v2(&again, UNIT));
	require(again == memory);
	id = tag(again);
	require_cuda(cuMemFree_v2(memory));
	require(own("kept") == 0 && !tag(memory));
	require(allocate(UNIT) == memory && tag(memory) != id && own("reused") == 0);
	require(own("verify_disagreements") > 0);
}

/* Kept memory that ends past peerpin is not handed out. */
static void kept_memory_that_was_freed_past_peerpin_is_not_handed_out(unsigned int host)
{
	CUdeviceptr memory, again;
	uint64_t id;

	begin();
	memory = host ? keep_host(UNIT) : keep(UNIT);
	id = tag(memory);
	require_cuda(host ? raw.cuMemFreeHost(pointer_to(memory)) : raw.cuMemFree_v2(memory));
	again = obtain(host, UNIT);
	require(tag(again) && tag(again) != id && own("reused") == 0);
	require(query_tag(again) == tag(again));
}

#define BOTH(test, variant) TEST(test, variant, KEEP), TEST(test, variant, KEEP_VERIFY)

const struct test region_tests[] = {
	BOTH(after_the_first_round_nothing_is_registered, 0),
	BOTH(after_the_first_round_nothing_is_registered, 1),
	TEST(after_the_first_round_nothing_is_registered, 0, KEEP " PEERPIN_PREREGISTER=all"),
	TEST(after_the_first_round_nothing_is_registered, 0, KEEP " PEERPIN_PREREGISTER=off"),
	TEST(after_the_first_round_nothing_is_registered, 0, KEEP " PEERPIN_PREREGISTER=sync"),
	TEST(after_the_first_round_nothing_is_registered, 0, KEEP " PEERPIN_SIM_ADAPTER_DMABUF=0"),
	BOTH(a_held_client_mr_is_valid_across_free_and_reuse, 0),
	BOTH(a_client_mr_is_deregistered_while_its_memory_is_kept, 0),
	TEST(a_request_on_kept_memory_is_not_served, 0,
	     KEEP " PEERPIN_SIM_ADAPTER_OUTLIVE=1 PEERPIN_SIM_ADAPTER_BUSY=1"),
	TEST(a_release_ends_regions_first, 0, KEEP),
	TEST(a_release_ends_regions_first, 1, KEEP " PEERPIN_SIM_MEMORY=126M"),
	TEST(a_release_ends_regions_first, 2, KEEP),
	TEST(a_bypassing_caller_ends_keeping, 0, KEEP),
	TEST(a_bypassing_caller_ends_keeping, 0, KEEP_PLAIN),
	TEST(a_bypassing_caller_found_first_keeps_all_memory_from_being_kept, 0, KEEP),
	TEST(memory_that_was_freed_past_peerpin_is_not_kept, 0, KEEP_VERIFY),
	TEST(kept_memory_that_was_freed_past_peerpin_is_not_handed_out, 0, KEEP),
	TEST(kept_memory_that_was_freed_past_peerpin_is_not_handed_out, 1, KEEP),
	{ .name = NULL },
};
