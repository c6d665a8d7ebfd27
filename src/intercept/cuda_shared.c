/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_shared.c -- memory that belongs to another process or another interface
 *
 * It is recorded because its addresses are taken, and because who has it is asked about it; the driver calls it
 * incapable of GPUDirect RDMA (measured), since only its owner may pin it (GPUDirect RDMA guide 3.6).
 */
#include "intercept/wrappers.h"

WRAP(cuMemPoolImportPointer, (address, pool, data), CUdeviceptr *address, CUmemoryPool pool,
     CUmemPoolPtrExportData *data)
{
	CUresult result = forward(address, pool, data);

	after_allocation(result, ALLOCATION_SHARED, address, 0);
	return result;
}

WRAP(cuIpcOpenMemHandle_v2, (address, handle, flags), CUdeviceptr *address, CUipcMemHandle handle,
     unsigned int flags)
{
	CUresult result = forward(address, handle, flags);

	after_allocation(result, ALLOCATION_SHARED, address, 0);
	return result;
}

WRAP(cuIpcOpenMemHandle, (address, handle, flags), CUdeviceptr *address, CUipcMemHandle handle,
     unsigned int flags)
{
	CUresult result = forward(address, handle, flags);

	after_allocation(result, ALLOCATION_SHARED, address, 0);
	return result;
}

/* Opened twice, it has one address and is closed by the second call: only the driver knows. */
WRAP(cuIpcCloseMemHandle, (address), CUdeviceptr address)
{
	struct pending_free pending;
	CUresult result;

	before_free_by(FREE_SHARED, &pending, address);
	result = forward(address);
	if (pending.tracked)
		memory_free_refused(&pending.allocation);
	return result;
}

WRAP(cuExternalMemoryGetMappedBuffer, (address, memory, buffer), CUdeviceptr *address,
     CUexternalMemory memory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *buffer)
{
	CUresult result = forward(address, memory, buffer);

	after_allocation(result, ALLOCATION_EXTERNAL, address, buffer ? buffer->size : 0);
	return result;
}
