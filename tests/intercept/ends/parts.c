/* SPDX-License-Identifier: BSD-3-Clause */
/* parts.c -- requests in large allocations, and how their regions end */
#include "ends.h"

#define LARGE	((size_t)128 << 20)
#define LARGEST ((size_t)100 << 30)
#define PART	((size_t)1 << 16)
#define PARTS	8 /* have the worker register the whole */

/* By address, or by the client's own dma-buf. */
static struct ibv_mr *part_of(CUdeviceptr memory, size_t size, size_t offset, unsigned int dma_buf)
{
	struct ibv_mr *mr;
	int fd = -1;

	if (!dma_buf)
		return registered_in(pd, memory + offset, PART, ACCESS);
	require_cuda(cuMemGetHandleForAddressRange(&fd, memory, size,
						   CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	mr = ibv_reg_dmabuf_mr(pd, offset, PART, memory + offset, fd, ACCESS);
	require(mr);
	close(fd);
	return mr;
}

static void a_client_waits_for_its_own_bytes(unsigned int dma_buf)
{
	CUdeviceptr memory;
	struct ibv_mr *first, *again;

	set_up();
	memory = allocate(LARGE);
	first = part_of(memory, LARGE, 5 * UNIT, dma_buf);
	require(own("registered_bytes") == PART && sim("live_bytes") == PART);
	require(can_read(first->rkey, memory + 5 * UNIT));
	again = part_of(memory, LARGE, 5 * UNIT, dma_buf);
	require(again->rkey == first->rkey && own("hits") == 1);
	require(!ibv_dereg_mr(again) && !ibv_dereg_mr(first) && sim("live") == 1);
	require_cuda(cuMemFree_v2(memory));
	require(sim("live") == 0 && own("bypassed") == 0);
}

static void the_whole_follows_eight_parts(unsigned int dma_buf)
{
	struct ibv_mr *held, *other;
	CUdeviceptr memory;
	uint32_t key, whole;

	set_up();
	memory = allocate(LARGE);
	for (size_t i = 1; i < PARTS; i++)
		require(!ibv_dereg_mr(part_of(memory, LARGE, i * UNIT, dma_buf)));
	held = part_of(memory, LARGE, 0, dma_buf);
	/* The idle parts end, the held one stays beside the whole. */
	until(own("registrations_background") == 1 && sim("live") == 2);
	require(own("registered_bytes") == LARGE + PARTS * PART);
	other = part_of(memory, LARGE, 30 * UNIT, dma_buf);
	require(own("hits") == 1 && own("registrations") == PARTS + 1);
	key = held->rkey;
	whole = other->rkey;
	require(can_read(key, memory) && can_read(whole, memory + LARGE - 8));
	require_cuda(cuMemFree_v2(memory));
	require(sim("live") == 0 && own("revoked") == 2);
	require(cannot_read(key, memory) && cannot_read(whole, memory));
	require(!ibv_dereg_mr(held) && !ibv_dereg_mr(other));
	require(own("late_deregistrations") == 2 && own("internal_errors") == 0);
}

static void an_allocation_beyond_the_limit_has_parts(unsigned int dma_buf)
{
	CUdeviceptr memory;

	set_up();
	memory = allocate(LARGEST);
	for (size_t i = 0; i < 50; i++)
		require(!ibv_dereg_mr(part_of(memory, LARGEST, i * (LARGEST / 50), dma_buf)));
	require(own("registered_bytes") == 50 * PART && own("bypassed") == 0);
	require(own("registrations_background") == 0);
	require_cuda(cuMemFree_v2(memory));
	require(sim("live") == 0 && own("internal_errors") == 0);
}

#define LIMITED "PEERPIN_PIN_LIMIT=64M PEERPIN_SIM_MEMORY=200G"

const struct test part_tests[] = {
	TEST(a_client_waits_for_its_own_bytes, 0, ""),
	TEST(a_client_waits_for_its_own_bytes, 1, ""),
	TEST(the_whole_follows_eight_parts, 0, ""),
	TEST(the_whole_follows_eight_parts, 1, ""),
	TEST(an_allocation_beyond_the_limit_has_parts, 0, LIMITED),
	TEST(an_allocation_beyond_the_limit_has_parts, 1, LIMITED),
	{ .name = NULL },
};
