/* SPDX-License-Identifier: BSD-3-Clause */
/* fresh.c -- forms with new buffers: allocated, computed on, registered, freed
 *
 * The computation lasts until the worker has registered the buffer: what the test measures is
 * whether peerpin registers such memory ahead, not how fast.
 */
#include "forms.h"

#include "../vmm.h"

#define BUFFERS 24

struct fresh {
	CUdeviceptr (*allocate)(size_t size);
	void (*request)(CUdeviceptr address, size_t size);
	void (*free)(CUdeviceptr address, size_t size);
	unsigned int domains; /* in which the worker registers each buffer */
};

static void fresh_run(const struct fresh *fresh, size_t (*size)(size_t), size_t given)
{
	for (unsigned int i = 0; i < BUFFERS; i++) {
		size_t bytes = size ? size(given) : given;
		uint64_t before = own("registrations_background");
		CUdeviceptr address = fresh->allocate(bytes);

		if (i)
			await_registrations(before + fresh->domains);
		fresh->request(address, bytes);
		fresh->free(address, bytes);
	}
}

/* ---- memory ---- */

static CUdeviceptr device_allocate(size_t size)
{
	CUdeviceptr address;

	require_cuda(cuMemAlloc_v2(&address, size));
	return address;
}

static void device_free(CUdeviceptr address, size_t size)
{
	(void)size;
	require_cuda(cuMemFree_v2(address));
}

static CUdeviceptr pool_allocate(size_t size)
{
	CUdeviceptr address;

	require_cuda(cuMemAllocAsync(&address, size, NULL));
	return address;
}

static void pool_free(CUdeviceptr address, size_t size)
{
	(void)size;
	require_cuda(cuMemFreeAsync(address, NULL));
	require_cuda(cuCtxSynchronize());
}

static CUdeviceptr vmm_allocate(size_t size)
{
	size_t mapped = round_up(size, BLOCK);

	return map(&vmm_rdma, &mapped, 1);
}

static CUdeviceptr vmm_allocate_plain(size_t size)
{
	size_t mapped = round_up(size, BLOCK);

	return map(&vmm_plain, &mapped, 1);
}

static void vmm_free(CUdeviceptr address, size_t size)
{
	unmap(address, round_up(size, BLOCK));
}

static CUdeviceptr span_allocate(size_t size)
{
	(void)size;
	return map_equal(BLOCK, 2, false);
}

static void span_free(CUdeviceptr address, size_t size)
{
	(void)size;
	unmap(address, BLOCK);
	unmap(address + BLOCK, BLOCK);
}

static size_t pitched_rows;

static CUdeviceptr pitched_allocate(size_t size)
{
	CUdeviceptr address;
	size_t pitch;

	(void)size;
	require_cuda(cuMemAllocPitch_v2(&address, &pitch, 4001, pitched_rows, 4));
	return address;
}

/* ---- requests ---- */

static void request_exact(CUdeviceptr address, size_t size)
{
	message(address, size, ACCESS);
}

static void request_16(CUdeviceptr address, size_t size)
{
	check_and_drop(by_address(pd, address, round_up(size, 16), ACCESS), address, size);
}

static void request_inside(CUdeviceptr address, size_t size)
{
	message(address + size / 7, size / 2, ACCESS);
}

static void request_repeated(CUdeviceptr address, size_t size)
{
	exact_rounds(address, size, ACCESS);
}

static void request_both(CUdeviceptr address, size_t size)
{
	message(address, size, ACCESS | RELAXED);
	message(address, size, ACCESS);
}

static void request_iova_0(CUdeviceptr address, size_t size)
{
	struct ibv_mr *mr = by_iova(address, size, 0, ACCESS);

	check_bytes(mr, 0, address, size);
	drop(mr);
}

static void request_buf_inside(CUdeviceptr address, size_t size)
{
	buf_message(address + size / 7, size / 2);
}

static void request_span(CUdeviceptr address, size_t size)
{
	(void)size;
	buf_message(address + 777, 3000001);
}

/* ---- forms ---- */

#define FRESH(name, ...)                                                                           \
	FORM_RUN(name)                                                                             \
	{                                                                                          \
		fresh_run(&(struct fresh){ __VA_ARGS__ }, NULL, size);                             \
	}

FRESH(new_exact, device_allocate, request_exact, device_free, 1)
FRESH(new_repeated, device_allocate, request_repeated, device_free, 1)
FRESH(new_16, device_allocate, request_16, device_free, 1)
FRESH(new_inside, device_allocate, request_inside, device_free, 1)
FRESH(new_two_flags, device_allocate, request_both, device_free, 2)
FRESH(new_iova_0, device_allocate, request_iova_0, device_free, 0)
FRESH(new_buf, device_allocate, buf_message, device_free, 1)
FRESH(new_pool, pool_allocate, buf_message, pool_free, 1)
FRESH(new_pool_8, pool_allocate, buf_rounds, pool_free, 0)
FRESH(new_vmm, vmm_allocate, request_inside, vmm_free, 1)
FRESH(new_vmm_buf, vmm_allocate, request_buf_inside, vmm_free, 1)
FRESH(new_vmm_no_flag, vmm_allocate_plain, request_buf_inside, vmm_free, 1)
FRESH(new_span, span_allocate, request_span, span_free, 0)

FORM_RUN(new_pitched)
{
	pitched_rows = 1 + size / 4096;
	fresh_run(&(struct fresh){ pitched_allocate, request_exact, device_free, 1 }, NULL,
		  pitched_rows * 4001);
}

static size_t any_size(size_t given)
{
	return given / 2 + random_below(given);
}

FORM_IS(new_sizes, fresh_run(&(struct fresh){ device_allocate, request_exact, device_free, 1 },
			     any_size, size))
