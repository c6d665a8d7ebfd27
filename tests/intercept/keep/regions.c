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
	/* Idle regions of kept memory do not hold the domain. */
	require(!ibv_dealloc_pd(pd) && !ibv_close_device(device) && own("kept_bytes"));
	require(sim("live") == 0 && own("pinned_bytes") == 0);
	release_all();
	expect_no_kept();
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

const struct test region_tests[] = {
	TEST(after_the_first_round_nothing_is_registered, 0, KEEP),
	TEST(after_the_first_round_nothing_is_registered, 1, KEEP_VERIFY),
	TEST(after_the_first_round_nothing_is_registered, 0, KEEP " PEERPIN_PREREGISTER=off"),
	TEST(after_the_first_round_nothing_is_registered, 0, KEEP " PEERPIN_PREREGISTER=sync"),
	TEST(a_bypassing_caller_ends_keeping, 0, KEEP),
	{ .name = NULL },
};
