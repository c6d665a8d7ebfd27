/* SPDX-License-Identifier: BSD-3-Clause */
/* access.c -- mapped memory is of use to an adapter only while its device may read and write it
 *
 * A mapping is made by one call and made accessible by another, which may cover several mappings, and may take
 * the access away again. For subscribers that is an allocation and a free. The driver itself is asked what holds
 * (cuMemGetAccess), so that neither the order of a list of rights nor a refusal has to be understood here.
 */
#include "memory/memory.h"

#include <errno.h>
#include <stddef.h>

#include "base/statistics.h"
#include "memory/driver.h"
#include "memory/events.h"
#include "memory/table.h"

static void set(const struct allocation *mapping, bool accessible)
{
	struct allocation before, after;
	int error;

	if (mapping->accessible == accessible)
		return;
	error = table_set_access(mapping->base, mapping->id, accessible, &before, &after);
	if (error == -ENOENT)
		return;
	if (accessible)
		statistics_count(access_begun);
	else
		statistics_count(access_ended);
	if (error)
		events_untracked(&before, error);
	if (error || !accessible)
		events_freeing(&before);
	else
		events_allocated(&after);
}

static bool ask(const struct allocation *mapping)
{
	const struct driver_calls *driver = driver_calls();
	CUmemLocation location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = mapping->device };
	unsigned long long flags = 0;

	return driver->cuMemGetAccess &&
	       driver->cuMemGetAccess(&flags, &location, mapping->base) == CUDA_SUCCESS &&
	       flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

/* The mapping at `address`, which is where the one before it ended. */
static bool next_mapping(uint64_t address, uint64_t end, struct allocation *mapping)
{
	return address < end && table_find(address, mapping) && mapping->kind == ALLOCATION_MAPPED;
}

/* The driver sets access only of whole mappings without a hole between them (measured): for any other range it is
 * going to refuse, and nothing changes. */
static bool is_whole(uint64_t base, uint64_t size)
{
	struct allocation mapping;
	uint64_t address = base, end = base + size;

	while (next_mapping(address, end, &mapping)) {
		if (mapping.base != address)
			return false;
		address += mapping.size;
	}
	return address == end && address > base;
}

void memory_access_ending(uint64_t base, uint64_t size, int device)
{
	struct allocation mapping;

	if (!is_whole(base, size))
		return;
	for (uint64_t address = base; next_mapping(address, base + size, &mapping); address += mapping.size) {
		if (mapping.device == device)
			set(&mapping, false);
	}
}

void memory_access_settled(uint64_t base, uint64_t size)
{
	struct allocation mapping;

	if (!is_whole(base, size))
		return;
	for (uint64_t address = base; next_mapping(address, base + size, &mapping); address += mapping.size)
		set(&mapping, ask(&mapping));
}
