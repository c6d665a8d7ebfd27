/* SPDX-License-Identifier: BSD-3-Clause */
/* old.c -- the interface before CUDA 3.2, with its 32-bit addresses
 *
 * Its calls work in contexts that it made itself, and say INVALID_CONTEXT in others; what it allocates no pointer
 * query knows (measured). Nothing here can reach such memory, so it consists of its address.
 */
#include <stdlib.h>

#include "sim.h"

static struct old_allocation {
	struct old_allocation *next;
	uint32_t address;
	CUcontext context; /* with which it ends */
} * allocations;

static CUresult enter_old(CUcontext *context)
{
	CUresult result = sim_enter_context(context);

	if (result == CUDA_SUCCESS && !(*context)->old)
		return sim_leave(CUDA_ERROR_INVALID_CONTEXT);
	return result;
}

uint32_t sim_old_addresses(uint64_t size)
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
	result = enter_old(&context);
	if (result != CUDA_SUCCESS)
		return result;
	if (!address || !size)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	allocation = calloc(1, sizeof(*allocation));
	if (!allocation)
		return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
	*allocation = (struct old_allocation){ .next = allocations,
					       .address = sim_old_addresses(size),
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
	return cuMemAlloc(address, element == 4 || element == 8 || element == 16 ? row * height : 0);
}

CUresult cuMemFree(CUdeviceptr_v1 address)
{
	struct old_allocation **place = &allocations, *allocation;
	CUcontext context;
	CUresult result = enter_old(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!address)
		return sim_leave(CUDA_SUCCESS);
	while (*place && (*place)->address != address)
		place = &(*place)->next;
	allocation = *place;
	if (!allocation || !allocation->context->alive)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	*place = allocation->next;
	free(allocation);
	return sim_leave(CUDA_SUCCESS);
}

/* Memory of the host has the same addresses in both interfaces, and the same functions that free it. */
CUresult cuMemAllocHost(void **address, unsigned int size)
{
	CUcontext context;
	CUresult result;

	if (address)
		*address = NULL;
	result = enter_old(&context);
	if (result != CUDA_SUCCESS)
		return result;
	sim_leave(CUDA_SUCCESS);
	return cuMemHostAlloc(address, size, 0);
}

/* What this interface does beyond that is not simulated, in any context. */
static CUresult refuse(void)
{
	CUresult result = sim_enter();

	return result != CUDA_SUCCESS ? result : sim_leave(CUDA_ERROR_INVALID_CONTEXT);
}

CUresult cuMemcpyHtoD(CUdeviceptr_v1 to, const void *from, unsigned int size)
{
	(void)to;
	(void)from;
	(void)size;
	return refuse();
}

CUresult cuMemcpyDtoH(void *to, CUdeviceptr_v1 from, unsigned int size)
{
	(void)to;
	(void)from;
	(void)size;
	return refuse();
}

CUresult cuMemcpyDtoD(CUdeviceptr_v1 to, CUdeviceptr_v1 from, unsigned int size)
{
	(void)to;
	(void)from;
	(void)size;
	return refuse();
}
