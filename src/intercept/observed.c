/* SPDX-License-Identifier: BSD-3-Clause */
/* observed.c -- calls of the driver while they are only observed (PEERPIN_OBSERVE)
 *
 * Each body calls `forward` once, with the call's own arguments, and measures it. The library's own
 * calls are a wait before some of the frees, which wait themselves, and a query of the context's
 * flags (observed_verbs.c).
 */
#include <string.h>

#include "base/system.h"
#include "intercept/entry_points.h"
#include "memory/keep.h"
#include "observe/observe.h"

/* ---- allocations ---- */

static CUresult observed_allocation(CUresult result, enum allocation_kind kind, uint64_t address,
				    uint64_t size, uint64_t begun)
{
	/* In a capture the call adds a node of a graph, whose memory is none yet. */
	if (result == CUDA_SUCCESS && address &&
	    (kind != ALLOCATION_POOL || !captures_may_be_open()))
		observe_allocated(kind, address, size, system_clock() - begun);
	return result;
}

/* `address`: an out-parameter, read after success alone. */
#define OBSERVED_ALLOCATION(symbol, kind, arguments, address, size, ...)                           \
	OBSERVED(symbol, __VA_ARGS__)                                                              \
	{                                                                                          \
		uint64_t begun_ = system_clock();                                                  \
		CUresult result_ = forward arguments;                                              \
		bool made_ = result_ == CUDA_SUCCESS;                                              \
                                                                                                   \
		(void)caller;                                                                      \
		return observed_allocation(result_, kind, made_ ? (uint64_t)(address) : 0,         \
					   made_ ? (uint64_t)(size) : 0, begun_);                  \
	}

OBSERVED_ALLOCATION(cuMemAlloc_v2, ALLOCATION_DEVICE, (address, size), address ? *address : 0, size,
		    CUdeviceptr *address, size_t size)
OBSERVED_ALLOCATION(cuMemAlloc, ALLOCATION_DEVICE, (address, size), address ? *address : 0, size,
		    CUdeviceptr_v1 *address, unsigned int size)
OBSERVED_ALLOCATION(cuMemAllocPitch_v2, ALLOCATION_PITCHED,
		    (address, pitch, width, height, element), address ? *address : 0,
		    pitch ? *pitch *height : 0, CUdeviceptr *address, size_t *pitch, size_t width,
		    size_t height, unsigned int element)
OBSERVED_ALLOCATION(cuMemAllocPitch, ALLOCATION_PITCHED, (address, pitch, width, height, element),
		    address ? *address : 0, pitch ? (uint64_t)*pitch *height : 0,
		    CUdeviceptr_v1 *address, unsigned int *pitch, unsigned int width,
		    unsigned int height, unsigned int element)
OBSERVED_ALLOCATION(cuMemAllocManaged, ALLOCATION_MANAGED, (address, size, flags),
		    address ? *address : 0, size, CUdeviceptr *address, size_t size,
		    unsigned int flags)
OBSERVED_ALLOCATION(cuMemAllocAsync, ALLOCATION_POOL, (address, size, stream),
		    address ? *address : 0, size, CUdeviceptr *address, size_t size,
		    CUstream stream)
OBSERVED_ALLOCATION(cuMemAllocAsync_ptsz, ALLOCATION_POOL, (address, size, stream),
		    address ? *address : 0, size, CUdeviceptr *address, size_t size,
		    CUstream stream)
OBSERVED_ALLOCATION(cuMemAllocFromPoolAsync, ALLOCATION_POOL, (address, size, pool, stream),
		    address ? *address : 0, size, CUdeviceptr *address, size_t size,
		    CUmemoryPool pool, CUstream stream)
OBSERVED_ALLOCATION(cuMemAllocFromPoolAsync_ptsz, ALLOCATION_POOL, (address, size, pool, stream),
		    address ? *address : 0, size, CUdeviceptr *address, size_t size,
		    CUmemoryPool pool, CUstream stream)
OBSERVED_ALLOCATION(cuMemPoolImportPointer, ALLOCATION_SHARED, (address, pool, data),
		    address ? *address : 0, 0, CUdeviceptr *address, CUmemoryPool pool,
		    CUmemPoolPtrExportData *data)
OBSERVED_ALLOCATION(cuIpcOpenMemHandle_v2, ALLOCATION_SHARED, (address, handle, flags),
		    address ? *address : 0, 0, CUdeviceptr *address, CUipcMemHandle handle,
		    unsigned int flags)
OBSERVED_ALLOCATION(cuIpcOpenMemHandle, ALLOCATION_SHARED, (address, handle, flags),
		    address ? *address : 0, 0, CUdeviceptr *address, CUipcMemHandle handle,
		    unsigned int flags)
OBSERVED_ALLOCATION(cuExternalMemoryGetMappedBuffer, ALLOCATION_EXTERNAL, (address, memory, buffer),
		    address ? *address : 0, buffer ? buffer->size : 0, CUdeviceptr *address,
		    CUexternalMemory memory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *buffer)
OBSERVED_ALLOCATION(cuMemMap, ALLOCATION_MAPPED, (address, size, offset, handle, flags), address,
		    size, CUdeviceptr address, size_t size, size_t offset,
		    CUmemGenericAllocationHandle handle, unsigned long long flags)
OBSERVED_ALLOCATION(cuMemAllocHost_v2, ALLOCATION_HOST, (address, size),
		    address ? (uintptr_t)*address : 0, size, void **address, size_t size)
OBSERVED_ALLOCATION(cuMemAllocHost, ALLOCATION_HOST, (address, size),
		    address ? (uintptr_t)*address : 0, size, void **address, unsigned int size)
OBSERVED_ALLOCATION(cuMemHostAlloc, ALLOCATION_HOST, (address, size, flags),
		    address ? (uintptr_t)*address : 0, size, void **address, size_t size,
		    unsigned int flags)

/* ---- frees ---- */

/* `address`: 0 where the call may add a node of a graph in place of a free. */
#define OBSERVED_FREE(symbol, samples, arguments, address, ...)                                    \
	OBSERVED(symbol, __VA_ARGS__)                                                              \
	{                                                                                          \
		struct observed_free pending_;                                                     \
		uint64_t begun_ = system_clock(), waited_ = 0;                                     \
		bool sampled_;                                                                     \
		CUresult result_;                                                                  \
                                                                                                   \
		(void)caller;                                                                      \
		observe_freeing((uint64_t)(address), &pending_);                                   \
		sampled_ = (samples) && pending_.memory && observe_samples_free() &&               \
			   keep_await_free((uint64_t)(address));                                   \
		waited_ = system_clock() - begun_;                                                 \
		begun_ += waited_;                                                                 \
		result_ = forward arguments;                                                       \
		observe_freed(&pending_, result_ == CUDA_SUCCESS, system_clock() - begun_,         \
			      sampled_, waited_);                                                  \
		return result_;                                                                    \
	}

OBSERVED_FREE(cuMemFree_v2, true, (address), address, CUdeviceptr address)
OBSERVED_FREE(cuMemFree, false, (address), address, CUdeviceptr_v1 address)
OBSERVED_FREE(cuMemFreeAsync, false, (address, stream), captures_may_be_open() ? 0 : address,
	      CUdeviceptr address, CUstream stream)
OBSERVED_FREE(cuMemFreeAsync_ptsz, false, (address, stream), captures_may_be_open() ? 0 : address,
	      CUdeviceptr address, CUstream stream)
OBSERVED_FREE(cuMemFreeHost, false, (address), (uintptr_t)address, void *address)
OBSERVED_FREE(cuIpcCloseMemHandle, false, (address), address, CUdeviceptr address)

OBSERVED(cuMemUnmap, CUdeviceptr address, size_t size)
{
	uint64_t begun = system_clock();
	CUresult result = forward(address, size);

	(void)caller;
	if (result == CUDA_SUCCESS)
		observe_unmapped(address, size, system_clock() - begun);
	return result;
}

/* ---- ends of contexts ---- */

#define OBSERVED_CONTEXT(symbol, arguments, ...)                                                   \
	OBSERVED(symbol, __VA_ARGS__)                                                              \
	{                                                                                          \
		CUresult result_ = forward arguments;                                              \
                                                                                                   \
		(void)caller;                                                                      \
		if (result_ == CUDA_SUCCESS)                                                       \
			observe_context_ended();                                                   \
		return result_;                                                                    \
	}

OBSERVED_CONTEXT(cuCtxDestroy_v2, (context), CUcontext context)
OBSERVED_CONTEXT(cuCtxDestroy, (context), CUcontext context)
OBSERVED_CONTEXT(cuDevicePrimaryCtxReset_v2, (device), CUdevice device)
OBSERVED_CONTEXT(cuDevicePrimaryCtxReset, (device), CUdevice device)

/* ---- exports and attributes ---- */

OBSERVED(cuMemGetHandleForAddressRange, void *handle, CUdeviceptr address, size_t size,
	 CUmemRangeHandleType type, unsigned long long flags)
{
	uint64_t begun = system_clock();
	CUresult result = forward(handle, address, size, type, flags);

	if (result == CUDA_SUCCESS && handle && type == CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD)
		observe_exported(*(const int *)handle, address, size, system_clock() - begun,
				 caller);
	return result;
}

OBSERVED(cuPointerSetAttribute, const void *value, CUpointer_attribute attribute,
	 CUdeviceptr address)
{
	CUresult result = forward(value, attribute, address);
	unsigned int on;

	(void)caller;
	if (result == CUDA_SUCCESS && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) {
		memcpy(&on, value, sizeof(on));
		if (on)
			observe_synchronized(address);
	}
	return result;
}
