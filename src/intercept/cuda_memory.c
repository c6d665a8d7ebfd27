/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_memory.c -- allocations and frees of GPU memory
 *
 * The first pair is the reference; the others repeat it for other forms. Memory of that pair alone
 * is kept.
 */
#include "intercept/wrappers.h"
#include "registration/registration.h"
#include "report/statistics.h"

/*
 * The allocated event follows the driver's success; the freeing event precedes the driver's free.
 * Once the driver has freed the memory, another thread may allocate the address, so the
 * registration must be removed by then.
 *
 * Tracking never decides forwarding. An untracked, null or wrong address goes to the driver like
 * any other, and the driver's result is the caller's. If the driver refuses a free, memory that the
 * driver still has is recorded again; if a capture causes the refusal, no record ends at all.
 */
WRAP(cuMemAlloc_v2, (address, size), CUdeviceptr *address, size_t size)
{
	const struct keep_request request = { .kind = ALLOCATION_DEVICE, .size = size };

	if (wrapper_reuse(&request, address))
		return CUDA_SUCCESS;
	return wrapper_allocated(WRAPPER_RETRY(KEEP_CURRENT, size, forward(address, size)),
				 ALLOCATION_DEVICE, address, size);
}

WRAP(cuMemFree_v2, (address), CUdeviceptr address)
{
	if (keep_is_on()) {
		if (keep_free(FREE_DEVICE, address))
			return CUDA_SUCCESS;
		address = keep_visible(address);
	}
	return WRAPPER_FREE(FREE_DEVICE, address, forward(0), forward(address));
}

static CUresult cuda_memory_free_kept(CUdeviceptr address)
{
	return WRAPPER_FREEING(entry_next(cuMemFree_v2)(address));
}

static CUresult cuda_memory_free_kept_host(void *address)
{
	return entry_next(cuMemFreeHost)(address);
}

const struct keep_targets keep_targets = {
	.free_device = cuda_memory_free_kept,
	.free_host = cuda_memory_free_kept_host,
};

WRAP(cuMemAlloc, (address, size), CUdeviceptr_v1 *address, unsigned int size)
{
	CUresult result = forward(address, size);
	CUdeviceptr wide = result == CUDA_SUCCESS && address ? *address : 0;

	return wrapper_allocated(result, ALLOCATION_DEVICE, &wide, size);
}

WRAP(cuMemFree, (address), CUdeviceptr_v1 address)
{
	return WRAPPER_FREE(FREE_DEVICE, address, forward(0), forward(address));
}

/* Rows are padded: the size follows from the driver's pitch, not from the requested width. */
WRAP(cuMemAllocPitch_v2, (address, pitch, width, height, element), CUdeviceptr *address,
     size_t *pitch, size_t width, size_t height, unsigned int element)
{
	CUresult result = WRAPPER_RETRY(KEEP_CURRENT, width * height,
					forward(address, pitch, width, height, element));

	return wrapper_allocated(result, ALLOCATION_PITCHED, address,
				 pitch && result == CUDA_SUCCESS ? *pitch * height : 0);
}

WRAP(cuMemAllocPitch, (address, pitch, width, height, element), CUdeviceptr_v1 *address,
     unsigned int *pitch, unsigned int width, unsigned int height, unsigned int element)
{
	CUresult result = forward(address, pitch, width, height, element);
	CUdeviceptr wide = result == CUDA_SUCCESS && address ? *address : 0;

	return wrapper_allocated(result, ALLOCATION_PITCHED, &wide,
				 pitch && result == CUDA_SUCCESS ? (uint64_t)*pitch * height : 0);
}

/* Managed memory must not be registered (GPUDirect RDMA guide 2.8), and the driver reports it as
 * incapable. The record reserves its addresses. */
WRAP(cuMemAllocManaged, (address, size, flags), CUdeviceptr *address, size_t size,
     unsigned int flags)
{
	return wrapper_allocated(WRAPPER_RETRY(KEEP_CURRENT, size, forward(address, size, flags)),
				 ALLOCATION_MANAGED, address, size);
}

/* ---- memory of another process or another interface ----
 *
 * The record reserves the addresses and answers pointer queries. The driver reports this memory as
 * incapable of GPUDirect RDMA (measured): only its owner may pin it (GPUDirect RDMA guide 3.6).
 */

WRAP(cuMemPoolImportPointer, (address, pool, data), CUdeviceptr *address, CUmemoryPool pool,
     CUmemPoolPtrExportData *data)
{
	return wrapper_allocated(forward(address, pool, data), ALLOCATION_SHARED, address, 0);
}

WRAP(cuIpcOpenMemHandle_v2, (address, handle, flags), CUdeviceptr *address, CUipcMemHandle handle,
     unsigned int flags)
{
	return wrapper_allocated(forward(address, handle, flags), ALLOCATION_SHARED, address, 0);
}

WRAP_LIKE(cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, (address, handle, flags), CUdeviceptr *address,
	  CUipcMemHandle handle, unsigned int flags)

/* Memory opened twice has one address, and the second call closes it. So the free is always treated
 * as refused, and memory_free_refused() records the memory again if the driver still has it. */
WRAP(cuIpcCloseMemHandle, (address), CUdeviceptr address)
{
	struct allocation ended;
	bool tracked = false;
	CUresult result = WRAPPER_FREEING(({
		tracked = wrapper_tracked_free(FREE_SHARED, address, &ended);
		forward(address);
	}));

	if (tracked)
		memory_free_refused(&ended);
	return result;
}

WRAP(cuExternalMemoryGetMappedBuffer, (address, memory, buffer), CUdeviceptr *address,
     CUexternalMemory memory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *buffer)
{
	return wrapper_allocated(forward(address, memory, buffer), ALLOCATION_EXTERNAL, address,
				 buffer ? buffer->size : 0);
}

/* ---- exports, and the amount of free memory ---- */

/* The program may register this dma-buf later, when only its descriptor identifies it. One of
 * unknown flags is recorded with size 0, so that no range lies inside it. A ready dma-buf of the
 * range is the answer without a call into the driver (registration/ready_exports.c). */
WRAP(cuMemGetHandleForAddressRange, (handle, address, size, type, flags), void *handle,
     CUdeviceptr address, size_t size, CUmemRangeHandleType type, unsigned long long flags)
{
	const unsigned long long pcie = CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE;
	bool passive = process_is_passive(), known = !(flags & ~pcie);
	struct found_export made = { address, known ? size : 0, passive ? 0 : memory_youngest(),
				     flags & pcie };
	CUdeviceptr visible = keep_exported(address, size);
	CUresult result;
	int ready = -1;

	if (!passive && handle && known && visible == address &&
	    type == CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD)
		ready = registration_export(&made);
	if (ready >= 0) {
		*(int *)handle = ready;
		return CUDA_SUCCESS;
	}
	result = forward(handle, visible, size, type, flags);
	if (result == CUDA_SUCCESS && handle && type == CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD &&
	    !passive)
		memory_exported(*(const int *)handle, &made);
	return result;
}

/* Kept memory is free memory to the program. */
WRAP(cuMemGetInfo_v2, (free, total), size_t *free, size_t *total)
{
	bool keeps = keep_is_on();
	CUresult result;

	if (keeps)
		keep_return_pool();
	result = forward(free, total);
	if (result == CUDA_SUCCESS && free && keeps) {
		*free += keep_free_bytes();
		/* Another thread may have begun to keep memory that was free in the call. */
		if (total && *free > *total)
			*free = *total;
	}
	return result;
}
