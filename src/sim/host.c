/* SPDX-License-Identifier: BSD-3-Clause */
/* host.c -- page-locked host memory: allocated, or registered by the program
 *
 * The driver records host memory to the byte, like device memory. Host memory belongs to a context,
 * ends with that context, and has a BUFFER_ID.
 *
 * Measured: small allocations share pages, split from a 2 MiB block. Registered memory may start
 * anywhere in a page, and share the page with registered or unregistered memory.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "sim.h"

#define FLAGS	  (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED)
#define ALIGNMENT ((uint64_t)512)

static struct host_block {
	struct host_block *next;
	uint64_t base, size, id;
	unsigned int allocations;
} * blocks;

/* Free address for `size` bytes in the block; 0: none. */
static uint64_t host_find_gap(const struct host_block *block, uint64_t size)
{
	const struct sim_allocation *taken;
	uint64_t at = block->base;

	while (at + size <= block->base + block->size) {
		taken = sim_find_attached_in(at, size);
		if (!taken)
			return at;
		at = sim_round_up(taken->base + taken->size, ALIGNMENT);
	}
	return 0;
}

static struct host_block *host_make_block(uint64_t size)
{
	struct host_block *block = calloc(1, sizeof(*block));

	if (!block)
		return NULL;
	block->size = sim_round_up(size, SIM_BLOCK);
	block->base = sim_reserve_addresses(block->size);
	if (!block->base ||
	    mprotect(sim_pointer(block->base), block->size, PROT_READ | PROT_WRITE)) {
		free(block);
		return NULL;
	}
	block->id = sim_next_id();
	block->next = blocks;
	blocks = block;
	return block;
}

static struct sim_allocation *host_allocate(CUcontext context, uint64_t size)
{
	struct sim_allocation *allocation;
	struct host_block *block = blocks;
	uint64_t base = 0;

	while (block && !(base = host_find_gap(block, size)))
		block = block->next;
	if (!base) {
		block = host_make_block(size);
		if (!block)
			return NULL;
		base = block->base;
	}
	allocation = sim_attach_pages(SIM_HOST, context, base, size);
	if (!allocation)
		return NULL;
	block->allocations++;
	allocation->block_base = block->base;
	allocation->block_size = block->size;
	allocation->block_id = block->id;
	return allocation;
}

void sim_free_host(uint64_t base)
{
	struct host_block **link = &blocks, *block;

	while (base - (*link)->base >= (*link)->size)
		link = &(*link)->next;
	block = *link;
	if (--block->allocations)
		return;
	*link = block->next;
	munmap(sim_pointer(block->base), block->size);
	free(block);
}

/* Failure, and size 0 (success without memory), store a null address (measured). */
CUresult cuMemHostAlloc(void **address, size_t size, unsigned int flags)
{
	struct sim_allocation *allocation;
	CUcontext context;
	CUresult result;

	if (address)
		*address = NULL;
	result = sim_uncaptured(sim_enter_context(&context));
	if (result != CUDA_SUCCESS)
		return result;
	if (!address || (flags & ~(unsigned int)FLAGS))
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	if (!size)
		return sim_leave(CUDA_SUCCESS);
	allocation = size <= INT64_MAX ? host_allocate(context, size) : NULL;
	if (!allocation)
		return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
	*address = sim_pointer(allocation->base);
	return sim_leave(CUDA_SUCCESS);
}

SIM_FORWARD(cuMemAllocHost_v2, cuMemHostAlloc, (address, size, 0), void **address, size_t size);

/* Frees of host memory need no current context, but a destroyed one fails them (measured). */
SIM_FREEING_CALL(cuMemFreeHost, (address), void *address)
{
	struct sim_allocation *allocation;
	CUresult result;

	if (!address)
		return CUDA_SUCCESS;
	allocation = sim_find_attached((uintptr_t)address);
	if (!allocation || allocation->kind != SIM_HOST || allocation->base != (uintptr_t)address)
		return CUDA_ERROR_INVALID_VALUE;
	result = sim_await_work(allocation->context);
	if (result == CUDA_SUCCESS)
		sim_detach(allocation, false);
	return result;
}

SIM_CONTEXT_CALL_AFTER(sim_uncaptured(sim_enter_context(&context)), cuMemHostRegister_v2,
		       (address, size, flags), void *address, size_t size, unsigned int flags)
{
	const struct sim_allocation *taken;
	uint64_t base = (uintptr_t)address, end;

	if (!base || !size || __builtin_add_overflow(base, size, &end) ||
	    (flags & ~(unsigned int)(CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP)))
		return CUDA_ERROR_INVALID_VALUE;
	taken = sim_find_attached_in(base, size);
	if (taken && taken->kind == SIM_REGISTERED)
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	if (taken || sim_is_device_address(base) || sim_is_device_address(end - 1))
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_attach_pages(SIM_REGISTERED, context, base, size))
		return CUDA_ERROR_OUT_OF_MEMORY;
	return CUDA_SUCCESS;
}

SIM_FORWARD(cuMemHostRegister, cuMemHostRegister_v2, (address, size, flags), void *address,
	    size_t size, unsigned int flags);

SIM_FREEING_CALL(cuMemHostUnregister, (address), void *address)
{
	struct sim_allocation *allocation;

	if (!address)
		return CUDA_ERROR_INVALID_VALUE;
	allocation = sim_find((uintptr_t)address);
	if (!allocation)
		return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	if (allocation->kind != SIM_REGISTERED || allocation->base != (uintptr_t)address)
		return CUDA_ERROR_INVALID_VALUE;
	sim_detach(allocation, false);
	return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device_pointer, void *address,
				      unsigned int flags)
{
	const struct sim_allocation *allocation;
	CUcontext context;
	CUresult result;

	if (device_pointer)
		*device_pointer = 0;
	result = sim_enter_context(&context);
	if (result != CUDA_SUCCESS)
		return result;
	allocation = sim_find_attached((uintptr_t)address);
	if (!device_pointer || flags || !allocation || !sim_is_host(allocation))
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	*device_pointer = (uintptr_t)address;
	return sim_leave(CUDA_SUCCESS);
}
