/* SPDX-License-Identifier: BSD-3-Clause */
/* host.c -- page-locked memory of the host
 *
 * The driver knows it as it knows device memory: it belongs to a context, ends with it, and has a BUFFER_ID.
 */
#include "sim.h"

#define FLAGS (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED)

CUresult cuMemHostAlloc(void **address, size_t size, unsigned int flags)
{
	struct sim_allocation *allocation;
	CUcontext context;
	CUresult result = sim_enter_context(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!address || !size || (flags & ~(unsigned int)FLAGS))
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	allocation = sim_attach(SIM_HOST, context, context->device, 0, -1, 0, size);
	if (!allocation)
		return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
	*address = (void *)(uintptr_t)allocation->base;
	return sim_leave(CUDA_SUCCESS);
}

CUresult cuMemAllocHost_v2(void **address, size_t size)
{
	return cuMemHostAlloc(address, size, 0);
}

CUresult cuMemFreeHost(void *address)
{
	struct sim_allocation *allocation;
	CUresult result = sim_enter();

	if (result != CUDA_SUCCESS)
		return result;
	allocation = sim_find_attached((uintptr_t)address);
	if (!allocation || allocation->kind != SIM_HOST || allocation->base != (uintptr_t)address)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	sim_detach(allocation, false);
	return sim_leave(CUDA_SUCCESS);
}
