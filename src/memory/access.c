/* SPDX-License-Identifier: BSD-3-Clause */
/* access.c -- access of the device to VMM memory, which adapters require
 *
 * One call maps memory. Another makes it accessible, may cover several mappings, and may remove the
 * access again. Subscribers receive an allocation and a free. A driver query (cuMemGetAccess) gives
 * the current access, so that peerpin interprets neither the order of access descriptors nor a
 * refusal.
 */
#include "memory/memory.h"

#include <errno.h>
#include <stddef.h>

#include "memory/driver.h"
#include "memory/table.h"
#include "report/statistics.h"

static void access_set(const struct allocation *mapping, bool accessible)
{
	struct allocation before, after;
	int error;

	if (mapping->accessible == accessible)
		return;
	error = table_set_access(mapping->base, mapping->id, accessible, &before, &after);
	if (error == -ENOENT)
		return;
	if (accessible)
		statistics_count(access_granted);
	else
		statistics_count(access_removed);
	if (error)
		events_untracked(&before, error);
	if (error || !accessible)
		events_ending(&before);
	else
		events_emit(MEMORY_ALLOCATED, &after);
}

static bool access_query(const struct allocation *mapping)
{
	const struct driver_calls *driver = driver_calls();
	CUmemLocation location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = mapping->device };
	unsigned long long flags = 0;

	return driver->cuMemGetAccess &&
	       driver->cuMemGetAccess(&flags, &location, mapping->base) == CUDA_SUCCESS &&
	       flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

/* Mapping at `address`, the end of the previous one. */
static bool access_next_mapping(uint64_t address, uint64_t end, struct allocation *mapping)
{
	return address < end && memory_find(address, mapping) && mapping->kind == ALLOCATION_MAPPED;
}

/* The driver sets access only of whole mappings without a hole between them (measured). It refuses
 * any other range, and no access changes. */
static bool access_is_whole(uint64_t base, uint64_t size)
{
	struct allocation mapping;
	uint64_t address = base, end = base + size;

	while (access_next_mapping(address, end, &mapping)) {
		if (mapping.base != address)
			return false;
		address += mapping.size;
	}
	return address == end && address > base;
}

void memory_access_ending(uint64_t base, uint64_t size, int device)
{
	struct allocation mapping;

	if (!access_is_whole(base, size))
		return;
	for (uint64_t address = base; access_next_mapping(address, base + size, &mapping);
	     address += mapping.size) {
		if (mapping.device == device)
			access_set(&mapping, false);
	}
}

void memory_access_settled(uint64_t base, uint64_t size)
{
	struct allocation mapping;

	if (!access_is_whole(base, size))
		return;
	for (uint64_t address = base; access_next_mapping(address, base + size, &mapping);
	     address += mapping.size)
		access_set(&mapping, access_query(&mapping));
}
