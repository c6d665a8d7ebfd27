/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.c -- allocations, copies and fills
 *
 * Copies and fills run at once, also in streams: all earlier requests are complete.
 */
#include <string.h>

#include "sim.h"

/* Row alignment of cuMemAllocPitch on current devices. */
#define PITCH ((size_t)512)

/* A failed allocation stores a null address (measured). */
static CUresult memory_allocate(CUdeviceptr *address, size_t size, enum sim_kind kind)
{
	struct sim_allocation *allocation;
	CUcontext context;
	CUresult result;

	if (address)
		*address = 0;
	result = sim_enter_context(&context);
	if (result != CUDA_SUCCESS)
		return result;
	if (context->old)
		return sim_leave(CUDA_ERROR_INVALID_CONTEXT);
	result = sim_check_uncaptured();
	if (result != CUDA_SUCCESS)
		return sim_leave(result);
	if (!address || !size)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	allocation = sim_allocate(context->device, context, kind, size);
	if (!allocation)
		return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
	*address = allocation->base;
	return sim_leave(CUDA_SUCCESS);
}

SIM_FORWARD(cuMemAlloc_v2, memory_allocate, (address, size, SIM_DEVICE), CUdeviceptr *address,
	    size_t size);

CUresult cuMemAllocManaged(CUdeviceptr *address, size_t size, unsigned int flags)
{
	/* Bad flags fail like size 0. */
	return memory_allocate(address, flags == CU_MEM_ATTACH_GLOBAL || flags == 2 ? size : 0,
			       SIM_MANAGED);
}

/* Bad arguments store pitch 0. When memory is short, the pitch is that of a successful call. */
CUresult cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width, size_t height,
			    unsigned int element)
{
	size_t row = (width + PITCH - 1) / PITCH * PITCH, size;

	if (address)
		*address = 0;
	if (pitch)
		*pitch = 0;
	/* Bad arguments fail like size 0: driver and context errors take precedence. */
	if (!pitch || !width || (element != 4 && element != 8 && element != 16) || row < width ||
	    __builtin_mul_overflow(row, height, &size))
		size = 0;
	if (size)
		*pitch = row;
	return cuMemAlloc_v2(address, size);
}

SIM_FREEING_CALL(cuMemFree_v2, (address), CUdeviceptr address)
{
	struct sim_allocation *allocation;
	CUresult result;

	if (!address)
		return CUDA_SUCCESS;
	allocation = sim_find(address);
	if (!allocation || allocation->base != address || sim_is_host(allocation) ||
	    allocation->kind == SIM_MAPPED || allocation->kind == SIM_OPENED ||
	    allocation->kind == SIM_GLOBAL)
		return CUDA_ERROR_INVALID_VALUE;
	result = sim_await_work(allocation->context);
	if (result == CUDA_SUCCESS)
		sim_free_any(allocation);
	return result;
}

SIM_CONTEXT_CALL(cuMemGetInfo_v2, (free, total), size_t *free, size_t *total)
{
	const struct sim_device *device;

	device = &sim_devices[context->device];
	if (free)
		*free = device->memory - device->used_blocks * SIM_BLOCK;
	if (total)
		*total = device->memory;
	return CUDA_SUCCESS;
}

CUresult cuMemGetInfo(unsigned int *free, unsigned int *total)
{
	size_t wide_free, wide_total;
	CUresult result = cuMemGetInfo_v2(&wide_free, &wide_total);

	if (result == CUDA_SUCCESS && free)
		*free = wide_free > UINT32_MAX ? UINT32_MAX : (unsigned int)wide_free;
	if (result == CUDA_SUCCESS && total)
		*total = wide_total > UINT32_MAX ? UINT32_MAX : (unsigned int)wide_total;
	return result;
}

/* Measured: without out-parameters the call succeeds in any state of driver and context. An error
 * stores zeroes. */
CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
	const struct sim_allocation *allocation;
	CUcontext context;
	CUresult result;

	if (!base && !size)
		return CUDA_SUCCESS;
	result = sim_enter_context(&context);
	if (result != CUDA_SUCCESS) {
		if (base)
			*base = 0;
		if (size)
			*size = 0;
		return result;
	}
	if (context->old)
		return sim_leave(CUDA_ERROR_INVALID_CONTEXT);
	allocation = sim_find(address);
	if (allocation && allocation->access == CU_MEM_ACCESS_FLAGS_PROT_NONE)
		allocation = NULL;
	if (base)
		*base = allocation ? allocation->base : 0;
	if (size)
		*size = allocation ? allocation->size : 0;
	return sim_leave(allocation ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND);
}

/* No allocation has a 32-bit address: the query finds none. */
CUresult cuMemGetAddressRange(CUdeviceptr_v1 *base, unsigned int *size, CUdeviceptr_v1 address)
{
	CUdeviceptr wide_base;

	(void)base;
	(void)size;
	return cuMemGetAddressRange_v2(&wide_base, NULL, address);
}

/* Memory accepted by a copy: the driver's only, or also host memory. */
enum side { DEVICE, EITHER };

/* Allow a copy across adjacent mappings: frameworks' pools map pieces one after another. */
static bool memory_is_accessible(enum side side, uint64_t address, size_t size)
{
	const struct sim_allocation *allocation = sim_find(address);
	uint64_t here;

	if (!allocation)
		return side == EITHER && !sim_is_device_address(address);
	while ((here = allocation->base + allocation->size - address) < size) {
		address += here;
		size -= here;
		if (allocation->kind != SIM_MAPPED)
			return false;
		allocation = sim_find(address);
		if (!allocation || allocation->kind != SIM_MAPPED)
			return false;
	}
	return true;
}

static struct {
	void *to;
	const void *from;
	size_t size;
} memory_pending;

void sim_end_copy(void)
{
	if (memory_pending.size)
		memmove(memory_pending.to, memory_pending.from, memory_pending.size);
	memory_pending.size = 0;
}

static bool memory_is_sync(uint64_t address)
{
	return sim_find(address)->sync_memops;
}

static CUresult memory_copy(enum side to_side, uint64_t to, enum side from_side, uint64_t from,
			    size_t size)
{
	CUcontext context;
	CUresult result = sim_enter_context(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!size)
		return sim_leave(CUDA_SUCCESS);
	if (!memory_is_accessible(to_side, to, size) ||
	    !memory_is_accessible(from_side, from, size))
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	if (sim_async && to_side == DEVICE && from_side == DEVICE && !memory_is_sync(to) &&
	    !memory_is_sync(from)) {
		memory_pending.to = (void *)(uintptr_t)to;
		memory_pending.from = (const void *)(uintptr_t)from;
		memory_pending.size = size;
		return sim_leave(CUDA_SUCCESS);
	}
	/* Copy without the lock: a concurrent free faults the copy, as on hardware. */
	sim_leave(CUDA_SUCCESS);
	memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, size);
	return CUDA_SUCCESS;
}

SIM_FORWARD(cuMemcpyHtoD_v2, memory_copy, (DEVICE, to, EITHER, (uintptr_t)from, size),
	    CUdeviceptr to, const void *from, size_t size);
SIM_FORWARD(cuMemcpyDtoH_v2, memory_copy, (EITHER, (uintptr_t)to, DEVICE, from, size), void *to,
	    CUdeviceptr from, size_t size);
SIM_FORWARD(cuMemcpyDtoD_v2, memory_copy, (DEVICE, to, DEVICE, from, size), CUdeviceptr to,
	    CUdeviceptr from, size_t size);
SIM_FORWARD(cuMemcpy, memory_copy, (EITHER, to, EITHER, from, size), CUdeviceptr to,
	    CUdeviceptr from, size_t size);
/* Stream work runs after the host functions ahead of it. */
static void memory_await_stream(void)
{
	if (sim_enter() != CUDA_SUCCESS)
		return;
	sim_await_callbacks(sim_enqueued_callbacks());
	sim_leave(CUDA_SUCCESS);
}

/* Define the form of `target` that runs in stream order. */
#define MEMORY_ASYNC(symbol, target, arguments, ...)                                               \
	CUresult symbol(__VA_ARGS__)                                                               \
	{                                                                                          \
		(void)stream;                                                                      \
		memory_await_stream();                                                             \
		return target arguments;                                                           \
	}

MEMORY_ASYNC(cuMemcpyHtoDAsync_v2, cuMemcpyHtoD_v2, (to, from, size), CUdeviceptr to,
	     const void *from, size_t size, CUstream stream)
MEMORY_ASYNC(cuMemcpyDtoHAsync_v2, cuMemcpyDtoH_v2, (to, from, size), void *to, CUdeviceptr from,
	     size_t size, CUstream stream)
MEMORY_ASYNC(cuMemcpyDtoDAsync_v2, cuMemcpyDtoD_v2, (to, from, size), CUdeviceptr to,
	     CUdeviceptr from, size_t size, CUstream stream)
MEMORY_ASYNC(cuMemcpyAsync, cuMemcpy, (to, from, size), CUdeviceptr to, CUdeviceptr from,
	     size_t size, CUstream stream)

/* Require that `count` units of `unit` bytes at `to` are writable. */
static CUresult memory_check_fill(CUdeviceptr to, size_t unit, size_t count)
{
	CUcontext context;
	CUresult result = sim_enter_context(&context);
	size_t size;

	if (result != CUDA_SUCCESS)
		return result;
	if (__builtin_mul_overflow(unit, count, &size) || to % unit ||
	    (count && !memory_is_accessible(DEVICE, to, size)))
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	return sim_leave(CUDA_SUCCESS);
}

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count)
{
	CUresult result = memory_check_fill(to, 1, count);

	if (result == CUDA_SUCCESS && count)
		memset((void *)(uintptr_t)to, value, count);
	return result;
}

CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count)
{
	CUresult result = memory_check_fill(to, sizeof(value), count);
	unsigned int *words = (unsigned int *)(uintptr_t)to;

	for (size_t i = 0; result == CUDA_SUCCESS && i < count; i++)
		words[i] = value;
	return result;
}

MEMORY_ASYNC(cuMemsetD8Async, cuMemsetD8_v2, (to, value, count), CUdeviceptr to,
	     unsigned char value, size_t count, CUstream stream)
MEMORY_ASYNC(cuMemsetD32Async, cuMemsetD32_v2, (to, value, count), CUdeviceptr to,
	     unsigned int value, size_t count, CUstream stream)
