/* SPDX-License-Identifier: BSD-3-Clause */
/* allocator.c -- device memory: 2 MiB blocks of a memory file, split for small allocations
 *
 * Measured: allocations of less than 1.5 MiB take the lowest free multiple of 512 bytes in a block,
 * larger ones begin a block. Those larger than a block own all of theirs; smaller ones go behind
 * the end of the others. A freed address is reused at once with a new BUFFER_ID.
 *
 * A free releases pages: whole blocks when unused, and inside a block the 64 KiB granules without
 * live allocations. As on hardware, a registration that outlives its memory holds pages that belong
 * to nothing.
 *
 * Memory hooks of an MPI library intercept each free, unless PEERPIN_SIM_HOOKS is 0: libc's madvise
 * is called for the whole range. Pages shared with neighbours get MADV_DONTNEED, which on a shared
 * file mapping changes only page tables.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sim.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define ALIGNMENT ((uint64_t)512)
#define GRANULE	  ((uint64_t)64 << 10)
/* Size from which an allocation begins a block. */
#define LARGE ((uint64_t)3 << 19)

int sim_reserve(struct sim_device *device)
{
	uint64_t size = device->memory + SIM_BLOCK; /* room for alignment to a block */
	char name[32];
	void *range;
	int error;

	range = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (range == MAP_FAILED)
		return -errno;
	snprintf(name, sizeof(name), "peerpin-sim-gpu%d", (int)(device - sim_devices));
	device->file = memfd_create(name, MFD_CLOEXEC);
	if (device->file < 0) {
		error = -errno;
		goto unmap_range;
	}
	if (ftruncate(device->file, (off_t)device->memory)) {
		error = -errno;
		goto close_file;
	}
	device->blocks = calloc(device->memory / SIM_BLOCK, sizeof(*device->blocks));
	if (!device->blocks) {
		error = -ENOMEM;
		goto close_file;
	}
	device->base = sim_round_up((uintptr_t)range, SIM_BLOCK);
	return 0;

close_file:
	close(device->file);
unmap_range:
	munmap(range, size);
	return error;
}

static struct sim_block *allocator_block(struct sim_device *device, uint64_t address)
{
	return &device->blocks[(address - device->base) / SIM_BLOCK];
}

static void allocator_advise(uint64_t from, uint64_t size, int advice)
{
	if (sim_hooks)
		madvise(sim_pointer(from), size, advice);
	else
		syscall(SYS_madvise, from, size, advice);
}

static bool allocator_map(uint64_t at, uint64_t size, int access, int flags, int file, off_t offset)
{
	if (sim_hooks)
		return mmap(sim_pointer(at), size, access, flags, file, offset) != MAP_FAILED;
	return syscall(SYS_mmap, at, size, access, flags, file, offset) != -1;
}

/* Map file memory at `count` blocks. */
static bool allocator_back(struct sim_device *device, uint64_t base, uint64_t count)
{
	/* Pools hold blocks without an address. */
	if (device->used_blocks + count > device->memory / SIM_BLOCK ||
	    !allocator_map(base, count * SIM_BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			   device->file, (off_t)(base - device->base)))
		return false;
	for (uint64_t i = 0; i < count; i++)
		allocator_block(device, base + i * SIM_BLOCK)->id = sim_next_id();
	device->used_blocks += count;
	return true;
}

/* Release pages first: memory hooks run while the range is still mapped. */
static void allocator_unback(struct sim_device *device, uint64_t base, uint64_t count)
{
	allocator_advise(base, count * SIM_BLOCK, MADV_REMOVE);
	allocator_map(base, count * SIM_BLOCK, PROT_NONE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	device->used_blocks -= count;
}

/* The lowest run of `count` free blocks; 0: none. */
static uint64_t allocator_find_run(struct sim_device *device, uint64_t count)
{
	uint64_t blocks = device->memory / SIM_BLOCK, run = 0;

	for (uint64_t i = 0; i < blocks; i++) {
		run = device->blocks[i].used ? 0 : run + 1;
		if (run == count)
			return device->base + (i + 1 - count) * SIM_BLOCK;
	}
	return 0;
}

/* Link of the block's list at which `size` bytes fit, and their address; NULL: no room. */
static struct sim_allocation **allocator_find_gap(struct sim_block *block, uint64_t base,
						  uint64_t size, uint64_t *address)
{
	struct sim_allocation **link = &block->first;
	uint64_t start = base;

	for (; *link; link = &(*link)->next) {
		if (start + size <= (*link)->base)
			break;
		start = sim_round_up((*link)->base + (*link)->size, ALIGNMENT);
	}
	if (!*link && start + size > base + SIM_BLOCK)
		return NULL;
	*address = start;
	return link;
}

static bool allocator_place_large(struct sim_device *device, struct sim_allocation *allocation)
{
	uint64_t count = sim_round_up(allocation->size, SIM_BLOCK) / SIM_BLOCK;
	uint64_t base = allocator_find_run(device, count);

	if (!base || !allocator_back(device, base, count))
		return false;
	allocation->base = base;
	allocation->block_id = allocator_block(device, base)->id;
	for (uint64_t i = 0; i < count; i++)
		*allocator_block(device, base + i * SIM_BLOCK) =
			(struct sim_block){ .first = allocation, .whole = true, .used = true };
	return true;
}

static bool allocator_place_in_block(struct sim_device *device, struct sim_allocation *allocation)
{
	uint64_t blocks = allocation->size >= LARGE ? 0 : device->memory / SIM_BLOCK, base;
	struct sim_allocation **link = NULL;

	for (uint64_t i = 0; i < blocks && !link; i++) {
		if (device->blocks[i].used && !device->blocks[i].whole)
			link = allocator_find_gap(&device->blocks[i], device->base + i * SIM_BLOCK,
						  allocation->size, &allocation->base);
	}
	if (!link) {
		base = allocator_find_run(device, 1);
		if (!base || !allocator_back(device, base, 1))
			return false;
		link = &allocator_block(device, base)->first;
		allocator_block(device, base)->used = true;
		allocation->base = base;
	}
	allocation->next = *link;
	*link = allocation;
	allocation->block_id = allocator_block(device, allocation->base)->id;
	return true;
}

/* Memory hooks must not see the call. */
void sim_populate(uint64_t base, uint64_t size)
{
	uint64_t from = sim_round_down(base, GRANULE);

	if (sim_populates)
		syscall(SYS_madvise, from, sim_round_up(base + size, GRANULE) - from,
			MADV_POPULATE_WRITE);
}

uint64_t sim_next_id(void)
{
	static uint64_t last;

	return ++last;
}

struct sim_allocation *sim_allocate(int ordinal, CUcontext context, enum sim_kind kind,
				    uint64_t size)
{
	struct sim_device *device = &sim_devices[ordinal];
	struct sim_allocation *allocation;
	bool placed;

	if (size > device->memory)
		return NULL;
	allocation = calloc(1, sizeof(*allocation));
	if (!allocation)
		return NULL;
	allocation->size = size;
	allocation->context = context && context->owner ? context->owner : context;
	allocation->device = ordinal;
	allocation->kind = kind;
	allocation->access = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	allocation->sync_memops = kind == SIM_MANAGED;
	do
		placed = size > SIM_BLOCK ? allocator_place_large(device, allocation)
					  : allocator_place_in_block(device, allocation);
	while (!placed && sim_trim_pools(ordinal));
	if (!placed) {
		free(allocation);
		return NULL;
	}
	sim_populate(allocation->base, size);
	allocation->buffer_id = sim_next_id();
	allocation->block_base = sim_round_down(allocation->base, SIM_BLOCK);
	allocation->block_size =
		sim_round_up(allocation->base + size, SIM_BLOCK) - allocation->block_base;
	return allocation;
}

void sim_free_any(struct sim_allocation *allocation)
{
	if (allocation->kind == SIM_POOL)
		sim_free_pooled(allocation);
	else if (sim_is_device_address(allocation->base))
		sim_free(allocation);
	else
		sim_detach(allocation, allocation->kind == SIM_GRAPH);
}

static struct sim_allocation *allocator_find_in(const struct sim_block *block, uint64_t from,
						uint64_t to)
{
	struct sim_allocation *other = block->first;

	while (other && !(other->base < to && from < other->base + other->size))
		other = other->next;
	return other;
}

/* The block's list lacks the allocation and holds at least one other. */
static void allocator_release_granules(const struct sim_block *block, uint64_t base, uint64_t size)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t from = sim_round_down(base, page), to = sim_round_up(base + size, page);

	allocator_advise(from, to - from, MADV_DONTNEED);
	for (uint64_t granule = sim_round_down(base, GRANULE); granule < base + size;
	     granule += GRANULE) {
		if (!allocator_find_in(block, granule, granule + GRANULE))
			allocator_advise(granule, GRANULE, MADV_REMOVE);
	}
}

static void allocator_free_small(struct sim_device *device, struct sim_allocation *allocation)
{
	struct sim_block *block = allocator_block(device, allocation->base);
	struct sim_allocation **link = &block->first;

	while (*link != allocation)
		link = &(*link)->next;
	*link = allocation->next;
	sim_report_free(allocation);
	if (block->first) {
		allocator_release_granules(block, allocation->base, allocation->size);
		return;
	}
	block->used = false;
	allocator_unback(device, sim_round_down(allocation->base, SIM_BLOCK), 1);
}

void sim_free(struct sim_allocation *allocation)
{
	struct sim_device *device = &sim_devices[allocation->device];
	uint64_t count = sim_round_up(allocation->size, SIM_BLOCK) / SIM_BLOCK;

	if (!allocator_block(device, allocation->base)->whole) {
		allocator_free_small(device, allocation);
	} else {
		for (uint64_t i = 0; i < count; i++)
			*allocator_block(device, allocation->base + i * SIM_BLOCK) =
				(struct sim_block){ 0 };
		sim_report_free(allocation);
		allocator_unback(device, allocation->base, count);
	}
	free(allocation);
}

static struct sim_device *allocator_device(uint64_t address)
{
	for (int i = 0; i < sim_device_count; i++) {
		if (address - sim_devices[i].base < sim_devices[i].memory)
			return &sim_devices[i];
	}
	return NULL;
}

bool sim_is_device_address(uint64_t address)
{
	return allocator_device(address) != NULL;
}

bool sim_blocks_have_memory(uint64_t from, uint64_t to)
{
	for (int i = 0; i < sim_device_count; i++) {
		struct sim_device *device = &sim_devices[i];
		uint64_t at = from > device->base ? from : device->base;
		uint64_t end =
			to < device->base + device->memory ? to : device->base + device->memory;

		for (; at < end; at = sim_round_down(at, SIM_BLOCK) + SIM_BLOCK) {
			if (allocator_find_in(allocator_block(device, at), at, end))
				return true;
		}
	}
	return false;
}

struct sim_allocation *sim_find(uint64_t address)
{
	struct sim_device *device = allocator_device(address);
	struct sim_allocation *allocation;

	if (!device)
		return sim_find_attached(address);
	allocation = allocator_block(device, address)->first;
	while (allocation && address - allocation->base >= allocation->size)
		allocation = allocation->next;
	return allocation;
}

struct sim_allocation *sim_find_in_range(uint64_t from, uint64_t to)
{
	struct sim_device *device = allocator_device(from);
	struct sim_allocation *allocation = device ? NULL : sim_find_attached(from);

	while (device && !allocation && from < to && from - device->base < device->memory) {
		allocation = allocator_find_in(allocator_block(device, from), from, to);
		from = sim_round_down(from, SIM_BLOCK) + SIM_BLOCK;
	}
	return allocation;
}

bool sim_has_room(CUdevice device)
{
	return sim_devices[device].used_blocks < sim_devices[device].memory / SIM_BLOCK;
}

bool sim_blocks_are_used(uint64_t from, uint64_t to)
{
	struct sim_device *device = allocator_device(from);

	while (device && from < to && from - device->base < device->memory &&
	       allocator_block(device, from)->used)
		from = sim_round_down(from, SIM_BLOCK) + SIM_BLOCK;
	return from >= to;
}

void sim_free_context(CUcontext context)
{
	struct sim_device *device = &sim_devices[context->device];
	struct sim_allocation *allocation, *next;

	for (uint64_t i = 0; i < device->memory / SIM_BLOCK; i++) {
		for (allocation = device->blocks[i].first; allocation; allocation = next) {
			next = allocation->next;
			if (allocation->context == context)
				sim_free(allocation);
		}
	}
	sim_detach_context(context);
}
