/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_memory.c -- allocations and frees of GPU memory
 *
 * The first pair is the example to read; the others do the same for other forms.
 */
#include "intercept/wrappers.h"

/*
 * An allocation is told after the driver's success, a free before the driver frees: as soon as it has, the same
 * address may be another thread's new allocation, and the registration must be gone by then.
 *
 * Forwarding never depends on what we know. An address that is not tracked, null, or wrong goes to the
 * driver like any other, and the driver's answer is the caller's. If the driver refuses to free, what it
 * still knows is recorded again; where a capture makes it refuse, nothing ends in the first place.
 */
WRAP(cuMemAlloc_v2, (address, size), CUdeviceptr *address, size_t size)
{
	CUresult result;

	memory_expect(size);
	result = forward(address, size);
	after_allocation(result, ALLOCATION_DEVICE, address, size);
	return result;
}

WRAP(cuMemFree_v2, (address), CUdeviceptr address)
{
	struct pending_free pending;
	CUresult refused = REFUSAL_BY_CAPTURE(address, forward(0));

	if (refused != CUDA_SUCCESS)
		return refused;
	before_free(&pending, address);
	return after_free(&pending, forward(address));
}

WRAP(cuMemAlloc, (address, size), CUdeviceptr_v1 *address, unsigned int size)
{
	CUresult result = forward(address, size);
	CUdeviceptr wide = result == CUDA_SUCCESS && address ? *address : 0;

	after_allocation(result, ALLOCATION_DEVICE, &wide, size);
	return result;
}

WRAP(cuMemFree, (address), CUdeviceptr_v1 address)
{
	struct pending_free pending;
	CUresult refused = REFUSAL_BY_CAPTURE(address, forward(0));

	if (refused != CUDA_SUCCESS)
		return refused;
	before_free(&pending, address);
	return after_free(&pending, forward(address));
}

/* The rows are padded, so the driver's pitch counts, not the width that was asked for. */
WRAP(cuMemAllocPitch_v2, (address, pitch, width, height, element), CUdeviceptr *address, size_t *pitch,
     size_t width, size_t height, unsigned int element)
{
	CUresult result = forward(address, pitch, width, height, element);

	after_allocation(result, ALLOCATION_PITCHED, address,
			 pitch && result == CUDA_SUCCESS ? *pitch * height : 0);
	return result;
}

WRAP(cuMemAllocPitch, (address, pitch, width, height, element), CUdeviceptr_v1 *address, unsigned int *pitch,
     unsigned int width, unsigned int height, unsigned int element)
{
	CUresult result = forward(address, pitch, width, height, element);
	CUdeviceptr wide = result == CUDA_SUCCESS && address ? *address : 0;

	after_allocation(result, ALLOCATION_PITCHED, &wide,
			 pitch && result == CUDA_SUCCESS ? (uint64_t)*pitch * height : 0);
	return result;
}

/* No adapter is to use it (GPUDirect RDMA guide 2.8), and the driver says so; but its addresses are taken. */
WRAP(cuMemAllocManaged, (address, size, flags), CUdeviceptr *address, size_t size, unsigned int flags)
{
	CUresult result = forward(address, size, flags);

	after_allocation(result, ALLOCATION_MANAGED, address, size);
	return result;
}

/* Afterwards the program may have the dma-buf registered; only its descriptor will come by then. One that is asked for
 * with flags maps the memory in another way (over PCIe instead of NVLink-C2C) than our regions: it is known, and no
 * range lies inside it. */
WRAP(cuMemGetHandleForAddressRange, (handle, address, size, type, flags), void *handle, CUdeviceptr address,
     size_t size, CUmemRangeHandleType type, unsigned long long flags)
{
	bool passive = process_is_passive();
	uint64_t youngest = passive ? 0 : memory_youngest();
	CUresult result = forward(handle, address, size, type, flags);

	if (result == CUDA_SUCCESS && handle && type == CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD && !passive)
		memory_exported(*(const int *)handle, address, flags ? 0 : size, youngest);
	return result;
}
