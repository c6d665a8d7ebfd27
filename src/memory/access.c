/* SPDX-License-Identifier: BSD-3-Clause */
/* access.c -- mapped memory is of use to an adapter only while its device may read and write it
 *
 * A mapping is made by one call and made accessible by another, which may cover several mappings, and may take
 * the access away again. For subscribers that is a birth and a death. The driver itself is asked what holds
 * (cuMemGetAccess), so that neither the order of a list of rights nor a refusal has to be understood here.
 */
#include "memory/memory.h"

#include <stddef.h>

#include "base/statistics.h"
#include "memory/driver.h"
#include "memory/events.h"
#include "memory/table.h"

#define BATCH 32

struct range {
	uint64_t base, size;
	uint64_t after; /* the last id of the batch before */
	unsigned int count;
	struct allocation batch[BATCH];
};

/* With the table's lock held. Ids grow in the order of the visit. */
static void collect(const struct allocation *allocation, void *argument)
{
	struct range *range = argument;

	if (allocation->kind != ALLOCATION_MAPPED || allocation->id <= range->after || range->count == BATCH)
		return;
	if (allocation->base < range->base + range->size && range->base < allocation->base + allocation->size)
		range->batch[range->count++] = *allocation;
}

static void set(const struct allocation *mapping, bool accessible)
{
	struct allocation before, after;

	if (mapping->accessible == accessible ||
	    !table_set_access(mapping->base, mapping->id, accessible, &before, &after))
		return;
	if (accessible) {
		statistics_count(access_begun);
		events_born(&after);
	} else {
		statistics_count(access_ended);
		events_dying(&before);
	}
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

/* device -1: asks the driver; otherwise takes the access of that device away. */
static void walk(uint64_t base, uint64_t size, int device)
{
	struct range range = { .base = base, .size = size };
	unsigned int count;

	do {
		range.count = 0;
		table_visit(collect, &range);
		count = range.count;
		for (unsigned int i = 0; i < count; i++) {
			range.after = range.batch[i].id;
			if (device < 0)
				set(&range.batch[i], ask(&range.batch[i]));
			else if (range.batch[i].device == device)
				set(&range.batch[i], false);
		}
	} while (count == BATCH);
}

void memory_access_ending(uint64_t base, uint64_t size, int device)
{
	walk(base, size, device);
}

void memory_access_settled(uint64_t base, uint64_t size)
{
	walk(base, size, -1);
}
