/* SPDX-License-Identifier: BSD-3-Clause */
/* mappings.c -- forms in VMM memory: one mapping, several adjacent ones (spans) */
#include "forms.h"

#include "../vmm.h"

/* As PyTorch's expandable segments. */
static const size_t small_large_small[] = { BLOCK, 10 * BLOCK, BLOCK };
/* Begins inside the first mapping, ends inside the last. */
#define INSIDE_FIRST 777
#define INSIDE_LAST  (11 * BLOCK + 5001)
/* Offsets from which that length ends in the last mapping, in whole pages, too. */
#define INSIDE_OFFSETS (BLOCK - 2 * PAGE)

FORM_RUN(vmm)
{
	size_t mapped = round_up(size, BLOCK) + BLOCK;

	exact_rounds(map(&vmm_rdma, &mapped, 1) + 1 + random_below(BLOCK), size, ACCESS);
}

FORM_RUN(span)
{
	CUdeviceptr base = map(&vmm_rdma, small_large_small, 3);

	exact_rounds(base + 1 + random_below(INSIDE_OFFSETS), INSIDE_LAST, ACCESS);
}

FORM_RUN(span_buf)
{
	CUdeviceptr base = map(&vmm_rdma, small_large_small, 3);

	buf_rounds(base + 1 + random_below(INSIDE_OFFSETS), INSIDE_LAST);
}

FORM_RUN(span_pages)
{
	CUdeviceptr base = map(&vmm_rdma, small_large_small, 3), from;

	from = base + round_down(random_below(INSIDE_OFFSETS), PAGE);
	buf_rounds(from, round_up(INSIDE_LAST, PAGE));
}

/* Each request 1 mapping longer, all held. */
FORM_RUN(span_longer)
{
	enum { COUNT = 40 };
	CUdeviceptr base = map_equal(BLOCK, COUNT, false);
	struct ibv_mr *mrs[COUNT];

	for (int round = 0; round < ROUNDS; round++) {
		for (unsigned int i = 2; i < COUNT; i++) {
			size_t length = i * BLOCK - INSIDE_FIRST - random_below(1000);

			mrs[i] = by_address(pd, base + INSIDE_FIRST, length, ACCESS);
			check_bytes(mrs[i], base + INSIDE_FIRST, base + INSIDE_FIRST, length);
		}
		for (unsigned int i = 2; i < COUNT; i++)
			drop(mrs[i]);
	}
}

/* Messages that overlap, and cross into the next mapping or two. */
FORM_RUN(span_overlapping)
{
	CUdeviceptr base = map_equal(BLOCK, 8, false);

	for (int round = 0; round < ROUNDS; round++) {
		for (size_t at = 1; at + 3000001 <= 8 * BLOCK; at += 1000001) {
			message(base + at, 3000001, ACCESS);
		}
	}
}

/* Each crosses one bound of 40. */
FORM_RUN(span_bounds)
{
	enum { COUNT = 41 };
	CUdeviceptr base = map_equal(BLOCK, COUNT, false);

	size = round_up(size % 50000, 16) + 50001;
	for (int round = 0; round < ROUNDS; round++) {
		for (unsigned int i = 1; i < COUNT; i++) {
			CUdeviceptr at = base + i * BLOCK - size / 2;
			message(at, size, ACCESS);
		}
	}
}

/* 40 messages that begin in one mapping of 20 MiB and end in the next. */
static void across_one(size_t length_of_last, size_t length)
{
	CUdeviceptr base = map_equal(10 * BLOCK, 2, false), bound = base + 10 * BLOCK;

	for (int round = 0; round < ROUNDS; round++) {
		for (size_t i = 1; i <= 40; i++) {
			CUdeviceptr at = bound - i * 400001;
			size_t bytes = length ? length : i * 400001 + length_of_last;
			message(at, bytes, ACCESS);
		}
	}
}

FORM_IS(span_nested, across_one(5001 + random_below(5000), 0))
FORM_IS(span_equal, across_one(0, 17000001 + random_below(1000)))

/* ---- handles ---- */

/* The export is older than the last change of access. */
FORM_RUN(vmm_access_again)
{
	CUdeviceptr base;
	int fd;

	size = round_up(size, BLOCK);
	base = map(&vmm_rdma, &size, 1);
	fd = export_range(base, base + size, 0);
	require_cuda(cuMemSetAccess(base, size, &vmm_access, 1));
	fd_rounds(fd, base, size);
}

/* A second mapping joins the first; then both are exported. */
FORM_RUN(vmm_grown)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr base;

	size = round_up(size, BLOCK);
	require_cuda(cuMemAddressReserve(&base, 2 * size, 0, 0, 0));
	for (int half = 0; half < 2; half++) {
		require_cuda(cuMemCreate(&handle, size, &vmm_rdma, 0));
		require_cuda(cuMemMap(base + half * size, size, 0, handle, 0));
		require_cuda(cuMemRelease(handle));
		require_cuda(cuMemSetAccess(base + half * size, size, &vmm_access, 1));
	}
	fd_rounds(export_range(base, base + 2 * size, 0), base, 2 * size);
}

static CUdeviceptr map_imported(size_t size)
{
	CUmemGenericAllocationHandle handle, imported;
	int fd;

	require_cuda(cuMemCreate(&handle, size, &vmm_shared, 0));
	require_cuda(cuMemExportToShareableHandle(&fd, handle,
						  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	require_cuda(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)fd,
						    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(fd);
	return map_handle(imported, size);
}

FORM_IS(vmm_imported, exact_rounds(map_imported(round_up(size, BLOCK)), size, ACCESS))
FORM_IS(vmm_imported_buf, buf_rounds(map_imported(round_up(size, BLOCK)), size))

/* CU_MEM_LOCATION_TYPE_HOST_NUMA: the simulated driver has none. */
FORM_RUN(vmm_host)
{
	CUmemAllocationProp properties = vmm_plain;
	CUmemGenericAllocationHandle handle;

	size = round_up(size, BLOCK);
	properties.location.type = (__typeof__(properties.location.type))3;
	if (!record(!cuMemCreate(&handle, size, &properties, 0), true))
		return;
	exact_rounds(map_handle(handle, size), size, ACCESS);
}
