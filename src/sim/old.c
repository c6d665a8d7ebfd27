/* SPDX-License-Identifier: BSD-3-Clause */
/* old.c -- the interface before CUDA 3.2, with 32-bit addresses
 *
 * Calls work in contexts created by the old interface and return INVALID_CONTEXT in others. Pointer
 * queries do not find its allocations (measured). The simulated driver cannot access such memory:
 * an allocation is an address only.
 */
#include <stdlib.h>

#include "sim.h"

static struct old_allocation {
	struct old_allocation *next;
	uint32_t address;
	CUcontext context; /* its end frees the allocation */
} * allocations;

static CUresult old_enter(CUcontext *context)
{
	CUresult result = sim_enter_context(context);

	if (result == CUDA_SUCCESS && !(*context)->old)
		return sim_leave(CUDA_ERROR_INVALID_CONTEXT);
	return result;
}

/* Addresses are never reused. */
static uint32_t old_addresses(uint64_t size)
{
	static uint32_t next = 0xc400000;
	uint32_t address = next;

	next += (uint32_t)((size + 511) / 512 * 512);
	return address;
}

CUresult cuMemAlloc(CUdeviceptr_v1 *address, unsigned int size)
{
	struct old_allocation *allocation;
	CUcontext context;
	CUresult result;

	if (address)
		*address = 0;
	result = old_enter(&context);
	if (result != CUDA_SUCCESS)
		return result;
	if (!address || !size)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	allocation = calloc(1, sizeof(*allocation));
	if (!allocation)
		return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
	*allocation = (struct old_allocation){ .next = allocations,
					       .address = old_addresses(size),
					       .context = context };
	allocations = allocation;
	*address = allocation->address;
	return sim_leave(CUDA_SUCCESS);
}

CUresult cuMemAllocPitch(CUdeviceptr_v1 *address, unsigned int *pitch, unsigned int width,
			 unsigned int height, unsigned int element)
{
	unsigned int row = (width + 511) / 512 * 512;

	if (pitch)
		*pitch = row;
	return cuMemAlloc(address,
			  element == 4 || element == 8 || element == 16 ? row * height : 0);
}

CUresult cuMemFree(CUdeviceptr_v1 address)
{
	struct old_allocation **link = &allocations, *allocation;
	CUcontext context;
	CUresult result = old_enter(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!address)
		return sim_leave(CUDA_SUCCESS);
	while (*link && (*link)->address != address)
		link = &(*link)->next;
	allocation = *link;
	if (!allocation || !allocation->context->object.live)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	*link = allocation->next;
	free(allocation);
	return sim_leave(CUDA_SUCCESS);
}

/* Host memory has equal addresses in both interfaces, and the free functions are shared. */
CUresult cuMemAllocHost(void **address, unsigned int size)
{
	CUcontext context;
	CUresult result;

	if (address)
		*address = NULL;
	result = old_enter(&context);
	if (result != CUDA_SUCCESS)
		return result;
	sim_leave(CUDA_SUCCESS);
	return cuMemHostAlloc(address, size, 0);
}

/* Fail in every context: the old interface's copies are not simulated. */
static CUresult old_refuse(void)
{
	CUresult result = sim_enter();

	return result != CUDA_SUCCESS ? result : sim_leave(CUDA_ERROR_INVALID_CONTEXT);
}

SIM_FORWARD(cuMemcpyHtoD, old_refuse, (), CUdeviceptr_v1 to, const void *from, unsigned int size);
SIM_FORWARD(cuMemcpyDtoH, old_refuse, (), void *to, CUdeviceptr_v1 from, unsigned int size);
SIM_FORWARD(cuMemcpyDtoD, old_refuse, (), CUdeviceptr_v1 to, CUdeviceptr_v1 from,
	    unsigned int size);
