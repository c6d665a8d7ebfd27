/* SPDX-License-Identifier: BSD-3-Clause */
/* heap.c -- the driver of random programs: its memory and its answers */
#include <sched.h>
#include <stdlib.h>

#include "memory/driver.h"
#include "memory/kept.h"
#include "random/heap.h"
#include "pointer_attributes.h"

#define MEMORIES 16384
#define ALIGN	 512	     /* of small allocations (measured) */
#define CARVED	 (BLOCK / 2) /* largest small allocation */
#define TRIES	 4	     /* blocks searched for a gap */

static struct memory memories[MEMORIES], *unused;
static size_t ever_used;

/* Allocations of at most a block, in the order of their addresses, or one of more blocks. */
static struct {
	struct memory *carved, *whole;
	uint64_t carved_bytes;
} blocks[BLOCKS];

/* A part of the address space. `recent`: the block of its last free. */
struct window {
	uint32_t first, count, recent;
};

static struct window windows[1 + WORLD_THREADS];

static struct window *window_of(bool own)
{
	uint32_t mine = SHARED_BLOCKS + world_thread * (OWN_BLOCKS + MAPPED_BLOCKS);
	struct window *window = &windows[own ? 1 + world_thread : 0];

	if (!window->count)
		*window = own ? (struct window){ mine, OWN_BLOCKS, mine }
			      : (struct window){ 0, SHARED_BLOCKS, 0 };
	return window;
}

static uint32_t block_of(uint64_t address)
{
	return (uint32_t)((address - HOME) / BLOCK);
}

static uint64_t round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

static struct memory *memory_new(uint64_t base, uint64_t size)
{
	static uint64_t last_buffer_id;
	struct memory *memory = unused;

	if (memory)
		unused = memory->next;
	else if (ever_used < MEMORIES)
		memory = &memories[ever_used++];
	else
		abort();
	*memory = (struct memory){ .base = base, .size = size, .buffer_id = ++last_buffer_id };
	return memory;
}

struct memory *heap_at(uint64_t address)
{
	struct memory *memory;

	if (address < HOME || address >= HOME + BLOCKS * BLOCK)
		return NULL;
	memory = blocks[block_of(address)].whole;
	if (!memory)
		memory = blocks[block_of(address)].carved;
	while (memory && address - memory->base >= memory->size)
		memory = memory->next;
	return memory;
}

static struct memory *carve(uint32_t block, uint64_t size)
{
	struct memory **place = &blocks[block].carved, *memory;
	uint64_t address = HOME + block * BLOCK;

	while (*place && (*place)->base - address < size) {
		address = round_up((*place)->base + (*place)->size, ALIGN);
		place = &(*place)->next;
	}
	if (HOME + (block + 1) * BLOCK - address < size)
		return NULL;
	memory = memory_new(address, size);
	memory->next = *place;
	*place = memory;
	blocks[block].carved_bytes += size;
	return memory;
}

static bool block_is_free(uint32_t block)
{
	return !blocks[block].carved && !blocks[block].whole;
}

/* Small ones may go behind it. */
static struct memory *allocate_at_a_block(const struct window *window, uint64_t size)
{
	for (uint32_t block = window->first; block < window->first + window->count; block++) {
		if (block_is_free(block))
			return carve(block, size);
	}
	return NULL;
}

static struct memory *allocate_carved(const struct window *window, uint64_t size)
{
	unsigned int tries = 0;
	struct memory *memory;

	for (uint32_t i = 0; i < window->count && tries < TRIES; i++) {
		uint32_t block =
			window->first + (window->recent - window->first + i) % window->count;

		if (!blocks[block].carved || blocks[block].carved_bytes + size > BLOCK)
			continue;
		memory = carve(block, size);
		if (memory)
			return memory;
		tries++;
	}
	return allocate_at_a_block(window, size);
}

static struct memory *take_blocks(uint32_t first, uint64_t size)
{
	struct memory *memory = memory_new(HOME + first * BLOCK, size);

	for (uint32_t block = first; block <= block_of(memory->base + size - 1); block++)
		blocks[block].whole = memory;
	return memory;
}

static struct memory *allocate_whole(const struct window *window, uint64_t size)
{
	uint32_t wanted = (uint32_t)(round_up(size, BLOCK) / BLOCK), run = 0;

	for (uint32_t block = window->first; block < window->first + window->count; block++) {
		run = block_is_free(block) ? run + 1 : 0;
		if (run == wanted)
			return take_blocks(block + 1 - wanted, size);
	}
	return NULL;
}

uint64_t world_allocate(bool own, const struct keep_request *request, CUcontext context,
			bool rdma_capable)
{
	unsigned int gpu = context ? context->gpu : 0;
	uint64_t size = request->size, base = 0;
	bool is_host = request->kind == ALLOCATION_HOST;
	struct memory *memory = NULL;

	pthread_mutex_lock(&world_lock);
	if (is_host || gpu_has_room(gpu, size))
		memory = (size <= CARVED  ? allocate_carved
			  : size <= BLOCK ? allocate_at_a_block
					  : allocate_whole)(window_of(own), size);
	if (memory) {
		memory->context = context;
		memory->gpu = gpu;
		memory->rdma_capable = rdma_capable;
		memory->request = *request;
		base = memory->base;
	}
	if (memory && !is_host) {
		memory->accessible = true;
		world_units_begin(base, size);
		gpu_use(gpu, size, true);
	}
	pthread_mutex_unlock(&world_lock);
	return base;
}

static void leave_blocks(struct memory *memory)
{
	uint32_t first = block_of(memory->base), last = block_of(memory->base + memory->size - 1);
	struct memory **place = &blocks[first].carved;

	if (blocks[first].whole) {
		for (uint32_t block = first; block <= last; block++)
			blocks[block].whole = NULL;
		return;
	}
	while (*place != memory)
		place = &(*place)->next;
	*place = memory->next;
	blocks[first].carved_bytes -= memory->size;
}

/* Blocks whose frees go to the window of a thread. */
static void remember_block(uint32_t block, bool mapped)
{
	if (block < SHARED_BLOCKS)
		windows[0].recent = block;
	else if (!mapped)
		windows[1 + (block - SHARED_BLOCKS) / (OWN_BLOCKS + MAPPED_BLOCKS)].recent = block;
}

void heap_end(struct memory *memory)
{
	if (memory->accessible)
		world_units_end(memory->base, memory->size);
	if (memory->accessible && !memory->mapped)
		gpu_use(memory->gpu, memory->size, false);
	kept_ended(memory);
	leave_blocks(memory);
	remember_block(block_of(memory->base), memory->mapped);
	*memory = (struct memory){ .next = unused };
	unused = memory;
}

void world_free(uint64_t base)
{
	struct memory *memory;

	pthread_mutex_lock(&world_lock);
	memory = heap_at(base);
	if (!memory || memory->base != base)
		broken("the test frees what it has not allocated: 0x%llx",
		       (unsigned long long)base);
	if (memory->kept.given_up)
		broken("kept memory at 0x%llx is freed by the program's own call",
		       (unsigned long long)base);
	heap_end(memory);
	pthread_mutex_unlock(&world_lock);
}

struct memory *heap_next(const struct memory *memory)
{
	struct memory *next = memory ? memories + (memory - memories) + 1 : memories;

	while (next < memories + ever_used && !next->size)
		next++;
	return next < memories + ever_used ? next : NULL;
}

uint64_t world_reserved(void)
{
	return HOME +
	       (SHARED_BLOCKS + world_thread * (OWN_BLOCKS + MAPPED_BLOCKS) + OWN_BLOCKS) * BLOCK;
}

void world_map(uint64_t base, uint64_t size, bool rdma_capable)
{
	struct memory *memory;

	pthread_mutex_lock(&world_lock);
	memory = take_blocks(block_of(base), size);
	memory->mapped = true;
	memory->rdma_capable = rdma_capable;
	pthread_mutex_unlock(&world_lock);
}

void world_set_access(uint64_t base, bool accessible)
{
	struct memory *memory;

	pthread_mutex_lock(&world_lock);
	memory = heap_at(base);
	if (accessible && !memory->accessible)
		world_units_begin(base, memory->size);
	/* An adapter cannot reach memory without its device's access. */
	if (!accessible && memory->accessible)
		world_units_end(base, memory->size);
	memory->accessible = accessible;
	pthread_mutex_unlock(&world_lock);
}

/* ---- answers to queries ---- */

static CUresult get_attributes(unsigned int count, CUpointer_attribute *attributes, void **data,
			       CUdeviceptr address)
{
	const struct memory *memory;
	struct pointer_attributes answer = { .memory_type = CU_MEMORYTYPE_DEVICE };

	pthread_mutex_lock(&world_lock);
	memory = heap_at(address);
	if (memory && memory->gone)
		memory = NULL;
	if (memory) {
		if (memory->request.kind == ALLOCATION_HOST)
			answer.memory_type = CU_MEMORYTYPE_HOST;
		answer.device = (int)memory->gpu;
		answer.context = memory->context;
		answer.buffer_id = memory->buffer_id;
		answer.base = memory->base;
		answer.size = memory->size;
		answer.rdma_capable = memory->rdma_capable;
		for (unsigned int i = 0; i < count; i++)
			pointer_attributes_read(&answer, attributes[i], data[i]);
	}
	pthread_mutex_unlock(&world_lock);
	/* The answer may be stale before its use. */
	if (count == 1)
		sched_yield();
	return memory ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult set_attribute(const void *value, CUpointer_attribute attribute, CUdeviceptr address)
{
	(void)value;
	(void)attribute;
	(void)address;
	return CUDA_SUCCESS;
}

static CUresult get_access(unsigned long long *flags, const CUmemLocation *location,
			   CUdeviceptr address)
{
	const struct memory *memory;

	(void)location;
	pthread_mutex_lock(&world_lock);
	memory = heap_at(address);
	*flags = memory && memory->accessible ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : 0;
	pthread_mutex_unlock(&world_lock);
	return memory ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

const struct driver_calls world_driver = {
	.cuPointerGetAttributes = get_attributes,
	.cuPointerSetAttribute = set_attribute,
	.cuMemGetAccess = get_access,
	.cuCtxGetCurrent = context_get_current,
	.cuCtxGetDevice = context_get_device,
	.cuCtxGetApiVersion = context_get_version,
	.cuCtxPushCurrent_v2 = context_push,
	.cuCtxPopCurrent_v2 = context_pop,
	.cuEventCreate = context_create_event,
	.cuCtxRecordEvent = context_record_event,
	.cuEventSynchronize = context_synchronize_event,
	.cuEventQuery = context_query_event,
	.cuEventDestroy_v2 = context_destroy_event,
	.cuMemAlloc_v2 = context_allocate,
	.cuMemFree_v2 = context_free,
	.cuThreadExchangeStreamCaptureMode = context_exchange_mode,
	.cuMemGetInfo_v2 = context_memory,
};
