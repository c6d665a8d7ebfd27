/* SPDX-License-Identifier: BSD-3-Clause */
/* host.c -- page-locked memory of the host
 *
 * The driver knows it as it knows device memory: it belongs to a context, ends with it, and has a BUFFER_ID.
 * Pages are the process's own, got and given back by libc's mmap and munmap.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "sim.h"

#define FLAGS (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED)

static struct sim_allocation *allocations;

struct sim_allocation *sim_find_host(uint64_t address)
{
	struct sim_allocation *allocation = allocations;

	while (allocation && address - allocation->base >= allocation->size)
		allocation = allocation->next;
	return allocation;
}

static struct sim_allocation *make(CUcontext context, size_t size)
{
	struct sim_allocation *allocation = calloc(1, sizeof(*allocation));
	void *pages;

	if (!allocation)
		return NULL;
	pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED) {
		free(allocation);
		return NULL;
	}
	*allocation = (struct sim_allocation){ .next = allocations,
					       .base = (uintptr_t)pages,
					       .size = size,
					       .buffer_id = sim_next_buffer_id(),
					       .context = context,
					       .device = context->device,
					       .host = true };
	allocations = allocation;
	return allocation;
}

static void end(struct sim_allocation **place)
{
	struct sim_allocation *allocation = *place;

	*place = allocation->next;
	munmap((void *)(uintptr_t)allocation->base, allocation->size);
	free(allocation);
}

void sim_free_host_of(CUcontext context)
{
	struct sim_allocation **place = &allocations;

	while (*place) {
		if ((*place)->context == context)
			end(place);
		else
			place = &(*place)->next;
	}
}

CUresult cuMemHostAlloc(void **address, size_t size, unsigned int flags)
{
	struct sim_allocation *allocation;
	CUcontext context;
	CUresult result = sim_enter_context(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!address || !size || (flags & ~(unsigned int)FLAGS))
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	allocation = make(context, size);
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
	struct sim_allocation **place = &allocations;
	CUresult result = sim_enter();

	if (result != CUDA_SUCCESS)
		return result;
	while (*place && (*place)->base != (uintptr_t)address)
		place = &(*place)->next;
	if (!*place)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	end(place);
	return sim_leave(CUDA_SUCCESS);
}
