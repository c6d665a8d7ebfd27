/* SPDX-License-Identifier: BSD-3-Clause */
/* spans.c -- requests for several adjacent mappings, as PyTorch's expandable segments make them,
 * and how their regions end
 */
#include "ends.h"

#include "../../vmm.h"

#define PIECES 4u
#define PIECE  (10 * UNIT) /* as PyTorch's large ones */

static CUdeviceptr reserved;

static CUdeviceptr at(unsigned int piece)
{
	return reserved + piece * PIECE;
}

static void map(unsigned int piece)
{
	CUmemGenericAllocationHandle memory;

	require_cuda(cuMemCreate(&memory, PIECE, &vmm_rdma, 0));
	require_cuda(cuMemMap(at(piece), PIECE, 0, memory, 0));
	require_cuda(cuMemRelease(memory));
	require_cuda(cuMemSetAccess(at(piece), PIECE, &vmm_access, 1));
}

static void unmap(unsigned int piece)
{
	require_cuda(cuMemUnmap(at(piece), PIECE));
}

static void set_access(unsigned int piece, bool accessible)
{
	CUmemAccessDesc access = vmm_access;

	access.flags =
		accessible ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	require_cuda(cuMemSetAccess(at(piece), PIECE, &access, 1));
}

static void set_up_mapped(unsigned int pieces)
{
	set_up();
	require_cuda(cuMemAddressReserve(&reserved, PIECES * PIECE, 0, 0, 0));
	for (unsigned int i = 0; i < pieces; i++)
		map(i);
}

/* All of the pieces; by address, or by the client's own dma-buf. */
static struct ibv_mr *span_of(unsigned int first, unsigned int count, unsigned int dma_buf)
{
	struct ibv_mr *mr;
	int fd = -1;

	if (!dma_buf)
		return registered_in(pd, at(first), count * PIECE, ACCESS);
	require_cuda(cuMemGetHandleForAddressRange(&fd, at(first), count * PIECE,
						   CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	mr = ibv_reg_dmabuf_mr(pd, 0, count * PIECE, at(first), fd, ACCESS);
	require(mr);
	close(fd);
	return mr;
}

static bool reaches(uint32_t key, unsigned int first, unsigned int count)
{
	for (unsigned int i = first; i < first + count; i++) {
		if (!can_read(key, at(i)) || !can_read(key, at(i) + PIECE - 8))
			return false;
	}
	return can_read(key, at(first + 1) - 1);
}

static void a_span_is_one_registration(unsigned int dma_buf)
{
	struct ibv_mr *first, *again;

	set_up_mapped(3);
	first = span_of(0, 3, dma_buf);
	again = span_of(0, 3, !dma_buf);
	require(first->rkey == again->rkey && own("hits") == 1 && own("bypassed") == 0);
	require(sim("live") == 1 && sim("live_bytes") == 3 * PIECE);
	require(reaches(first->rkey, 0, 3));
	require(!ibv_dereg_mr(first) && !ibv_dereg_mr(again) && sim("live") == 1);
	require_cuda(cuMemUnmap(at(0), 3 * PIECE));
	require(sim("live") == 0 && own("internal_errors") == 0);
}

/* variant % 3: the piece; from 3 on: by dma-buf. */
static void the_unmap_of_one_piece_ends_it(unsigned int variant)
{
	struct ibv_mr *mr;
	uint32_t key;

	set_up_mapped(3);
	mr = span_of(0, 3, variant / 3);
	key = mr->rkey;
	require(reaches(key, 0, 3));
	unmap(variant % 3);
	require(sim("live") == 0 && own("revoked") == 1);
	for (unsigned int i = 0; i < 3; i++)
		require(i == variant % 3 || cannot_read(key, at(i)));
	/* Other memory at the address: another registration. */
	map(variant % 3);
	require(!ibv_dereg_mr(mr) && own("late_deregistrations") == 1);
	mr = span_of(0, 3, variant / 3);
	require(reaches(mr->rkey, 0, 3) && own("bypassed") == 0);
	require(own("registrations") == 2);
}

static void a_loss_of_access_to_one_piece_ends_it(unsigned int variant)
{
	struct ibv_mr *mr;
	uint32_t key;

	set_up_mapped(3);
	mr = span_of(0, 3, variant / 3);
	key = mr->rkey;
	set_access(variant % 3, false);
	require(sim("live") == 0 && own("revoked") == 1 && cannot_read(key, at(0)));
	require(!ibv_dereg_mr(mr));
	set_access(variant % 3, true);
	mr = span_of(0, 3, variant / 3);
	require(reaches(mr->rkey, 0, 3) && own("bypassed") == 0);
}

static void growth_keeps_the_shorter_one(unsigned int dma_buf)
{
	struct ibv_mr *shorter, *longer;

	set_up_mapped(2);
	shorter = span_of(0, 2, dma_buf);
	map(2);
	longer = span_of(0, 3, dma_buf);
	require(shorter->rkey != longer->rkey && reaches(shorter->rkey, 0, 2));
	unmap(2);
	require(sim("live") == 1 && reaches(shorter->rkey, 0, 2) && own("revoked") == 1);
	require(!ibv_dereg_mr(longer) && !ibv_dereg_mr(shorter));
	shorter = span_of(0, 2, dma_buf);
	require(own("hits") == 1 && own("bypassed") == 0 && reaches(shorter->rkey, 0, 2));
}

static void adjacent_allocations_are_no_span(unsigned int variant)
{
	CUdeviceptr first, second;
	struct ibv_mr *mr;

	(void)variant;
	set_up();
	first = allocate(UNIT);
	second = allocate(UNIT);
	if (first > second)
		second = first - UNIT == second ? first : 0;
	require(second);
	/* The client's own registration, as far as the adapter can make one. */
	mr = ibv_reg_mr(pd, (void *)(second - UNIT), 2 * UNIT, ACCESS);
	require(own("bypassed_range") == 1 && own("hits") == 0);
	require(!mr || !ibv_dereg_mr(mr));
}

/* ---- threads ---- */

#define ROUNDS 300u

static _Atomic bool over;

static void *register_spans(void *unused)
{
	struct ibv_mr *mr;

	require_cuda(cuCtxSetCurrent(context));
	for (unsigned int i = 0; !over; i++) {
		mr = ibv_reg_mr(pd, (void *)at(i % 2), 2 * PIECE, ACCESS);
		require(!mr || !ibv_dereg_mr(mr));
	}
	return unused;
}

static void access_comes_and_goes_beside_requests(unsigned int variant)
{
	pthread_t threads[2];
	struct ibv_mr *mr;

	(void)variant;
	set_up_mapped(3);
	for (unsigned int i = 0; i < 2; i++)
		require(!pthread_create(&threads[i], NULL, register_spans, NULL));
	until(own("hits") > 0);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		set_access(i % 3, false);
		/* Both spans need the second one. The program's own registrations fail. */
		require(i % 3 != 1 || sim("live") == 0);
		set_access(i % 3, true);
	}
	over = true;
	for (unsigned int i = 0; i < 2; i++)
		require(!pthread_join(threads[i], NULL));
	mr = span_of(0, 3, 0);
	require(reaches(mr->rkey, 0, 3) && !ibv_dereg_mr(mr));
	require_cuda(cuMemUnmap(at(0), 3 * PIECE));
	require(sim("live") == 0 && own("internal_errors") == 0);
}

#define ALONE "PEERPIN_PREREGISTER=off"
#define BUSY  ALONE " PEERPIN_SIM_ADAPTER_PEER=0"

const struct test span_tests[] = {
	TEST(a_span_is_one_registration, 0, ALONE),
	TEST(a_span_is_one_registration, 1, ALONE),
	TEST(the_unmap_of_one_piece_ends_it, 0, ALONE),
	TEST(the_unmap_of_one_piece_ends_it, 1, ALONE),
	TEST(the_unmap_of_one_piece_ends_it, 2, ALONE),
	TEST(the_unmap_of_one_piece_ends_it, 3, ALONE),
	TEST(the_unmap_of_one_piece_ends_it, 5, ALONE),
	TEST(a_loss_of_access_to_one_piece_ends_it, 0, ALONE),
	TEST(a_loss_of_access_to_one_piece_ends_it, 1, ALONE),
	TEST(a_loss_of_access_to_one_piece_ends_it, 5, ALONE),
	TEST(growth_keeps_the_shorter_one, 0, ALONE),
	TEST(growth_keeps_the_shorter_one, 1, ALONE),
	TEST(adjacent_allocations_are_no_span, 0, ALONE),
	TEST(access_comes_and_goes_beside_requests, 0, BUSY),
	{ .name = NULL },
};
