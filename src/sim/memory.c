/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.c -- allocations, copies and fills, as the program calls them
 *
 * Copies and fills are done at once, streams or not: whatever was asked for before has happened.
 */
#include <string.h>

#include "sim.h"

/* What cuMemAllocPitch pads rows to on current devices. */
#define PITCH ((size_t)512)

/* A failed allocation leaves a null address behind (measured). */
static CUresult allocate(CUdeviceptr *address, size_t size, enum sim_kind kind)
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

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t size)
{
	return allocate(address, size, SIM_DEVICE);
}

CUresult cuMemAllocManaged(CUdeviceptr *address, size_t size, unsigned int flags)
{
	/* Bad flags are refused as a size of nothing is. */
	return allocate(address, flags == CU_MEM_ATTACH_GLOBAL || flags == 2 ? size : 0, SIM_MANAGED);
}

/* Of bad arguments the pitch is null as well; where memory is short, it tells what would have been. */
CUresult cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width, size_t height,
			    unsigned int element)
{
	size_t row = (width + PITCH - 1) / PITCH * PITCH, size;

	if (address)
		*address = 0;
	if (pitch)
		*pitch = 0;
	/* Bad arguments are refused as nothing is, after the state of driver and context. */
	if (!pitch || !width || (element != 4 && element != 8 && element != 16) || row < width ||
	    __builtin_mul_overflow(row, height, &size))
		size = 0;
	if (size)
		*pitch = row;
	return cuMemAlloc_v2(address, size);
}

CUresult cuMemFree_v2(CUdeviceptr address)
{
	struct sim_allocation *allocation;
	/* Whatever the address is (measured). */
	CUresult result = sim_uncaptured(sim_enter());

	if (result != CUDA_SUCCESS)
		return result;
	if (!address)
		return sim_leave(CUDA_SUCCESS);
	allocation = sim_find(address);
	if (!allocation || allocation->base != address || sim_is_host(allocation) ||
	    allocation->kind == SIM_MAPPED || allocation->kind == SIM_OPENED ||
	    allocation->kind == SIM_GLOBAL)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	sim_end(allocation);
	return sim_leave(CUDA_SUCCESS);
}

CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
	CUcontext context;
	CUresult result = sim_enter_context(&context);
	const struct sim_device *device;

	if (result != CUDA_SUCCESS)
		return result;
	device = &sim_devices[context->device];
	if (free)
		*free = device->memory - device->used_blocks * SIM_BLOCK;
	if (total)
		*total = device->memory;
	return sim_leave(CUDA_SUCCESS);
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

/* As measured: who wants to know nothing has it at once, whatever the state of driver and context; an error leaves
 * zeroes. */
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

/* No allocation has an address that this form could ask about. */
CUresult cuMemGetAddressRange(CUdeviceptr_v1 *base, unsigned int *size, CUdeviceptr_v1 address)
{
	CUdeviceptr wide_base;

	(void)base;
	(void)size;
	return cuMemGetAddressRange_v2(&wide_base, NULL, address);
}

/* What an argument of a copy has to be: memory of the driver's, or else of the host. */
enum side { DEVICE, EITHER };

/* Frameworks' pools map piece behind piece, and copy what reaches over several. */
static bool may_touch(enum side side, uint64_t address, size_t size)
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

static CUresult copy(enum side to_side, uint64_t to, enum side from_side, uint64_t from, size_t size)
{
	CUcontext context;
	CUresult result = sim_enter_context(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!size)
		return sim_leave(CUDA_SUCCESS);
	if (!may_touch(to_side, to, size) || !may_touch(from_side, from, size))
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	/* Not under the lock: who frees what is being copied has the fault that hardware would give. */
	sim_leave(CUDA_SUCCESS);
	memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, size);
	return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t size)
{
	return copy(DEVICE, to, EITHER, (uintptr_t)from, size);
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size)
{
	return copy(EITHER, (uintptr_t)to, DEVICE, from, size);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t size)
{
	return copy(DEVICE, to, DEVICE, from, size);
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t size)
{
	return copy(EITHER, to, EITHER, from, size);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t size, CUstream stream)
{
	(void)stream;
	return cuMemcpyHtoD_v2(to, from, size);
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size, CUstream stream)
{
	(void)stream;
	return cuMemcpyDtoH_v2(to, from, size);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
	(void)stream;
	return cuMemcpyDtoD_v2(to, from, size);
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
	(void)stream;
	return cuMemcpy(to, from, size);
}

/* Whether `count` units of `unit` bytes at `to` may be written. */
static CUresult check_fill(CUdeviceptr to, size_t unit, size_t count)
{
	CUcontext context;
	CUresult result = sim_enter_context(&context);
	size_t size;

	if (result != CUDA_SUCCESS)
		return result;
	if (__builtin_mul_overflow(unit, count, &size) || to % unit ||
	    (count && !may_touch(DEVICE, to, size)))
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	return sim_leave(CUDA_SUCCESS);
}

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count)
{
	CUresult result = check_fill(to, 1, count);

	if (result == CUDA_SUCCESS && count)
		memset((void *)(uintptr_t)to, value, count);
	return result;
}

CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count)
{
	CUresult result = check_fill(to, sizeof(value), count);
	unsigned int *words = (unsigned int *)(uintptr_t)to;

	for (size_t i = 0; result == CUDA_SUCCESS && i < count; i++)
		words[i] = value;
	return result;
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream)
{
	(void)stream;
	return cuMemsetD8_v2(to, value, count);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream stream)
{
	(void)stream;
	return cuMemsetD32_v2(to, value, count);
}
