/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_shared.c -- memory of another process or another interface
 *
 * The record reserves the addresses and answers pointer queries. The driver reports this memory as
 * incapable of GPUDirect RDMA (measured): only its owner may pin it (GPUDirect RDMA guide 3.6).
 */
#include "intercept/wrappers.h"

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
	struct pending_free pending;
	CUresult result;

	wrapper_before_free_by(FREE_SHARED, &pending, address);
	result = forward(address);
	if (pending.tracked)
		memory_free_refused(&pending.allocation);
	return result;
}

WRAP(cuExternalMemoryGetMappedBuffer, (address, memory, buffer), CUdeviceptr *address,
     CUexternalMemory memory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *buffer)
{
	return wrapper_allocated(forward(address, memory, buffer), ALLOCATION_EXTERNAL, address,
				 buffer ? buffer->size : 0);
}
