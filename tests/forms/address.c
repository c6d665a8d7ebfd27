/* SPDX-License-Identifier: BSD-3-Clause */
/* address.c -- forms by address: exact, rounded, with another iova, with special access flags */
#include "forms.h"

#include <errno.h>
#include <pthread.h>

#include "../vmm.h"

FORM_IS(exact, exact_rounds(allocate(size), size, ACCESS))

FORM_RUN(exact_inner)
{
	size_t offset = 8 * (1 + random_below(size / 32));

	exact_rounds(allocate(size) + offset, size / 3, ACCESS);
}

/* ---- rounded ---- */

static void rounded(CUdeviceptr address, size_t size, uint64_t unit, int access)
{
	rounds(round_down(address, unit), round_up(address + size, unit), address, size, access);
}

FORM_IS(ucx_16, rounded(allocate(size), size, 16, ACCESS))
FORM_IS(pages_large, rounded(allocate(size), size, PAGE, ACCESS | RELAXED))

/* Ends in a page that the driver may use for a neighbour. */
FORM_RUN(pages_small)
{
	size = round_down(size, PAGE) + 1 + random_below(PAGE - 256);
	rounded(allocate_small(size), size, PAGE, ACCESS | RELAXED);
}

/* Whole granules: the memory fills its pages. */
FORM_RUN(pages_aligned)
{
	size = round_up(size, 65536);
	allocate(3 * 65536);
	rounded(allocate(size), size, PAGE, ACCESS | RELAXED);
}

FORM_RUN(pages_64k)
{
	size = round_down(size, 65536) + 1 + random_below(65536 - PAGE);
	rounded(allocate(size), size, 65536, ACCESS);
}

/* ---- iova ---- */

static void shifted(CUdeviceptr address, size_t size, uint64_t iova, int access)
{
	for (int i = 0; i < ROUNDS; i++) {
		struct ibv_mr *mr = by_iova(address, size, iova, access);

		check_bytes(mr, iova, address, size);
		drop(mr);
	}
}

FORM_RUN(iova_0)
{
	size = round_up(size, PAGE);
	shifted(allocate(size), size, 0, ACCESS | RELAXED);
}

/* Physical memory at two addresses: registered at one, named by the other. */
FORM_RUN(iova_alias)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;

	size = round_up(size, BLOCK);
	require_cuda(cuMemCreate(&handle, size, &vmm_rdma, 0));
	address = map_handle(handle, size);
	shifted(address, size, map_handle(handle, size), ACCESS);
}

/* ---- access flags ---- */

FORM_IS(on_demand, exact_rounds(allocate(size), size, ACCESS | IBV_ACCESS_ON_DEMAND))
FORM_IS(window_binding, exact_rounds(allocate(size), size, ACCESS | IBV_ACCESS_MW_BIND))

/* IBV_ACCESS_FLUSH_GLOBAL, which adapter_verbs.h lacks. */
FORM_IS(flush, exact_rounds(allocate(size), size, ACCESS | 1 << 8))

/* Of the optional range, unknown so far: kernels ignore these. */
FORM_IS(optional_flag, exact_rounds(allocate(size), size, ACCESS | 1 << 25))
FORM_IS(read_only, exact_rounds(allocate(size), size, 0))
FORM_IS(local_write, exact_rounds(allocate(size), size, IBV_ACCESS_LOCAL_WRITE))

/* Both at once. */
FORM_RUN(two_flags)
{
	CUdeviceptr address = allocate(size);

	for (int i = 0; i < ROUNDS; i++) {
		struct ibv_mr *relaxed = by_address(pd, address, size, ACCESS | RELAXED);
		struct ibv_mr *strict = by_address(pd, address, size, ACCESS);

		check_bytes(strict, address, address, size);
		check_bytes(relaxed, address, address, size);
		drop(strict);
		drop(relaxed);
	}
}

FORM_RUN(pretouch)
{
	CUdeviceptr address = allocate(size);

	for (int i = 0; i < ROUNDS; i++) {
		drop(by_address(pd, address, size, IBV_ACCESS_LOCAL_WRITE));
		drop(by_address(pd, address, size, ACCESS));
	}
}

/* All that a kernel accepts. */
FORM_RUN(all_flags)
{
	CUdeviceptr address = allocate(size);

	for (int i = 0; i < ROUNDS; i++) {
		for (int flags = 0; flags < 32; flags++) {
			int access = (flags & 15) | (flags & 16 ? RELAXED : 0);
			if (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) &&
			    !(access & IBV_ACCESS_LOCAL_WRITE))
				continue;
			message(address, size, access);
		}
	}
}

/* ---- kinds of memory and of protection domains ---- */

FORM_RUN(zero_length)
{
	CUdeviceptr address = allocate(size);

	for (int i = 0; i < ROUNDS; i++)
		drop(by_address(pd, address, 0, ACCESS));
}

FORM_RUN(implicit)
{
	for (int i = 0; i < ROUNDS; i++)
		drop(by_address(pd, 0, SIZE_MAX, ACCESS | IBV_ACCESS_ON_DEMAND));
}

FORM_RUN(managed)
{
	CUdeviceptr address;

	require_cuda(cuMemAllocManaged(&address, size, 1));
	exact_rounds(address, size, ACCESS);
}

FORM_RUN(pinned_host)
{
	void *address;

	require_cuda(cuMemHostAlloc(&address, size, 0));
	for (int i = 0; i < ROUNDS; i++)
		drop(by_address(pd, (CUdeviceptr)address, size, ACCESS));
}

FORM_IS(pool_address, exact_rounds(allocate_from_pool(size), size, ACCESS))

FORM_RUN(pitched)
{
	size_t pitch, rows = 1 + size / 4096;
	CUdeviceptr address;

	require_cuda(cuMemAllocPitch_v2(&address, &pitch, 1 + random_below(4000), rows, 4));
	exact_rounds(address, pitch * rows, ACCESS);
}

FORM_RUN(parent_domain)
{
	struct ibv_pd *parent = sim_adapter_parent_domain(pd);
	CUdeviceptr address = allocate(size);

	for (int i = 0; i < ROUNDS; i++)
		check_and_drop(by_address(parent, address, size, ACCESS), address, size);
	errno = ibv_dealloc_pd(parent);
	record(!errno, false);
}

/* ---- held, changed, dropped elsewhere ---- */

FORM_RUN(twice_held)
{
	CUdeviceptr address = allocate(size);

	for (int i = 0; i < ROUNDS; i++) {
		struct ibv_mr *first = by_address(pd, address, size, ACCESS);
		struct ibv_mr *second = by_address(pd, address, size, ACCESS);

		check_bytes(first, address, address, size);
		check_bytes(second, address, address, size);
		drop(second);
		check_bytes(first, address, address, size);
		drop(first);
	}
}

FORM_RUN(neighbours)
{
	CUdeviceptr address = allocate(size);
	size_t piece = 1 + random_below(16000) + sizeof(uint64_t);

	piece = piece < size / 2 ? piece : size / 2;
	for (int i = 0; i < ROUNDS; i++) {
		struct ibv_mr *first = by_address(pd, address, piece, ACCESS);
		struct ibv_mr *second = by_address(pd, address + piece, piece, ACCESS);

		check_bytes(first, address, address, piece);
		check_bytes(second, address + piece, address + piece, piece);
		drop(second);
		drop(first);
	}
}

FORM_RUN(rereg)
{
	CUdeviceptr address = allocate(size);
	struct ibv_mr *mr = by_address(pd, address, size / 16, ACCESS);

	/* Between two places. */
	for (uint64_t i = 0; i < 2 * ROUNDS; i++) {
		CUdeviceptr next = address + i % 2 * (size / 2);

		errno = 0;
		record(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, (void *)next,
				     size / 8, 0),
		       true);
		check_bytes(mr, next, next, size / 8);
	}
	drop(mr);
}

static void *drop_elsewhere(void *mr)
{
	drop(mr);
	return NULL;
}

FORM_RUN(thread_dereg)
{
	CUdeviceptr address = allocate(size);

	for (int i = 0; i < ROUNDS; i++) {
		struct ibv_mr *mr = by_address(pd, address, size, ACCESS);
		pthread_t thread;

		check_bytes(mr, address, address, size);
		require(!pthread_create(&thread, NULL, drop_elsewhere, mr));
		pthread_join(thread, NULL);
	}
}
