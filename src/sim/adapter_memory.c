/* SPDX-License-Identifier: BSD-3-Clause */
/* adapter_memory.c -- device memory of a real driver: was it freed under its registration?
 *
 * On hardware a registration holds pages. After a free and a new allocation at an address, the
 * adapter still moves the old pages: silently wrong data. The driver does not show pages, so
 * identities of the memory stand for them: taken at the registration, compared at each access.
 * Allocations of less than a block share blocks; a block stays while one of them is live.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/adapter.h"

#define GRANULE	  ((uint64_t)64 << 10)
#define ALIGNMENT 512 /* of allocations */
#define LAST	  64  /* bytes that a copy stores last */
#define POISON	  0xdb

/* From `start` to the end of the last block of one allocation, or of several that share a block. */
struct adapter_part {
	uint64_t start, end;
	uint64_t buffer, block; /* identities; block 0: the driver has none */
};

/* ---- registration ---- */

/* The first allocation of a granule may begin anywhere in it: registrations are rounded. */
static bool memory_is_in_granule(uint64_t start, uint64_t end)
{
	struct driver_memory found;

	for (uint64_t at = start; at < end; at += ALIGNMENT) {
		if (driver_query(at, &found))
			return true;
	}
	return false;
}

bool memory_is_device(uint64_t start, uint64_t length, bool dmabuf)
{
	uint64_t end = start + length, granule_end = (start & ~(GRANULE - 1)) + GRANULE;
	struct driver_memory found;

	if (!length || !driver_begin())
		return false;
	if (granule_end > end)
		granule_end = end;
	if (driver_query(start, &found) || driver_query(end - 1, &found) ||
	    driver_query(granule_end - 1, &found))
		return true;
	/* Only these: queries of host memory are slow. */
	return (dmabuf || (start % GRANULE == 0 && length == GRANULE)) &&
	       memory_is_in_granule(start, granule_end);
}

static struct adapter_part *memory_add_part(struct adapter_memory *memory)
{
	uint32_t count = memory->count;
	struct adapter_part *more;

	if (!(count & (count - 1))) { /* a power of two: full */
		more = realloc(memory->parts, (count ? 2 * (size_t)count : 1) * sizeof(*more));
		if (!more)
			return NULL;
		memory->parts = more;
	}
	return &memory->parts[memory->count++];
}

int memory_read(uint64_t start, uint64_t length, struct adapter_memory *memory)
{
	struct adapter_part *part;
	struct driver_memory found;
	uint64_t next;

	*memory = (struct adapter_memory){ .device = true };
	for (uint64_t at = start; at < start + length; at = next) {
		next = driver_block_end(at);
		if (!driver_query(at, &found))
			continue;
		if (driver_block_end(found.end - 1) > next)
			next = driver_block_end(found.end - 1);
		part = memory_add_part(memory);
		if (!part) {
			memory_forget(memory);
			return ENOMEM;
		}
		*part = (struct adapter_part){ at, next, found.buffer, found.block };
	}
	return 0;
}

void memory_forget(struct adapter_memory *memory)
{
	free(memory->parts);
	*memory = (struct adapter_memory){ 0 };
}

/* ---- accesses ---- */

static const struct adapter_part *memory_find_part(const struct adapter_memory *memory,
						   uint64_t address)
{
	uint32_t low = 0, high = memory->count, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (memory->parts[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < memory->count && memory->parts[low].start <= address ? &memory->parts[low]
									  : NULL;
}

/* True unless the memory at the address is known to be another than was registered. Memory where
 * nothing was allocated at the registration shares a block with what was. */
static bool memory_is_same(const struct adapter_memory *memory, uint64_t address,
			   const struct driver_memory *now)
{
	const struct adapter_part *then = memory_find_part(memory, address);

	if (!then || then->buffer == now->buffer)
		return true;
	if (now->plain && now->end - now->start >= DRIVER_BLOCK)
		return false;
	return !then->block || !now->block || then->block == now->block;
}

/* Find the device. False: freed, or freed and allocated anew. */
static bool memory_lives(const struct adapter_memory *memory, uint64_t address, size_t bytes,
			 int *device)
{
	uint64_t end = address + bytes;
	struct driver_memory now;

	for (uint64_t at = address; at < end; at = now.end) {
		if (!driver_query(at, &now) || !memory_is_same(memory, at, &now)) {
			adapter_count(stale_memory);
			return false;
		}
		*device = now.device;
	}
	return true;
}

void memory_copy_from(const struct adapter_memory *memory, uint64_t address, void *to, size_t bytes)
{
	int device;

	if (!memory_lives(memory, address, bytes, &device) ||
	    !driver_copy(device, false, (uintptr_t)to, address, bytes, 0))
		memset(to, POISON, bytes);
}

void memory_copy_to(const struct adapter_memory *memory, uint64_t address, const void *from,
		    size_t bytes, bool ends)
{
	size_t last = !ends ? 0 : bytes < LAST ? bytes : LAST;
	int device;

	if (memory_lives(memory, address, bytes, &device))
		driver_copy(device, true, address, (uintptr_t)from, bytes, last);
}
