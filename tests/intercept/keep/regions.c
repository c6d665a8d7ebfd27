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

/* As UCX from 1.16 on: base and length of an allocation stay in its cache until it sees a free, and
 * a free of kept memory reaches none of its hooks. It exports the pages of what the driver reports,
 * and registers the length that it knows. */
struct cached {
	CUdeviceptr base;
	size_t length;
};

static void register_cached(struct cached *cached, CUdeviceptr memory, size_t size)
{
	uint64_t from = memory & ~(CUdeviceptr)4095;
	CUdeviceptr base;
	struct ibv_mr *mr;
	size_t whole;
	int fd = -1;

	if (cached->base != memory || size > cached->length)
		*cached = (struct cached){ memory, size };
	require_cuda(cuMemGetAddressRange_v2(&base, &whole, memory));
	require(base == memory);
	require_cuda(cuMemGetHandleForAddressRange(
		&fd, from, ((base + whole + 4095) & ~(CUdeviceptr)4095) - from,
		CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	mr = ibv_reg_dmabuf_mr(pd, memory - from, (cached->length + 15) & ~(size_t)15, memory, fd,
			       ACCESS);
	require(mr && !ibv_dereg_mr(mr) && !close(fd));
}

static void a_client_may_keep_the_length_of_the_first_use(unsigned int small)
{
	static const size_t sizes[] = {
		4019420, 3729520, 5242880, 4200000, 700000, 500000, 4019420
	};
	struct cached cached = { 0 };

	begin_with_adapter();
	/* Pages of small memory begin in a neighbour that is freed. */
	require_cuda(cuMemFree_v2(allocate(512)));
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t size = small ? sizes[i] / 1000 : sizes[i];
		CUdeviceptr memory = allocate(size);

		register_cached(&cached, memory, size);
		require_cuda(cuMemFree_v2(memory));
	}
	require(own("reused") && own("registrations_failed") == 0);
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
	TEST(after_the_first_round_nothing_is_registered, 0, KEEP " PEERPIN_PREREGISTER=eager"),
	TEST(a_client_may_keep_the_length_of_the_first_use, 0, KEEP),
	TEST(a_client_may_keep_the_length_of_the_first_use, 1, KEEP),
	TEST(a_client_may_keep_the_length_of_the_first_use, 0, KEEP_VERIFY),
	TEST(a_bypassing_caller_ends_keeping, 0, KEEP),
	{ .name = NULL },
};
