/* SPDX-License-Identifier: BSD-3-Clause */
/* allocate.c -- records of new allocations, and ends of the stale records that they overlap */
#include "base/atomics.h"
#include "memory/memory.h"

#include <errno.h>
#include <stddef.h>

#include "base/config.h"
#include "base/log.h"
#include "base/process.h"
#include "memory/kept.h"
#include "memory/table.h"
#include "report/statistics.h"

void memory_renew(void)
{
	table_renew();
	exports_renew();
	kept_renew();
}

void memory_missed_free(const struct allocation *ended)
{
	statistics_count(missed_frees);
	log_once(LOG_WARN,
		 "memory at 0x%llx: peerpin missed its free, and ends its registrations now. "
		 "Please report how the program frees GPU memory.",
		 (unsigned long long)ended->base);
	events_ending(ended);
}

static bool allocate_is_recorded(const struct allocation *allocation)
{
	struct allocation recorded;

	return memory_find(allocation->base, &recorded) && recorded.base == allocation->base &&
	       recorded.buffer_id == allocation->buffer_id;
}

/* Insert a record and end the stale records in its range. Retry, because other threads may insert
 * there, too. -EALREADY: another thread, or an intercepted call nested in the current call, has
 * recorded this very memory. */
static int allocate_insert(struct allocation *allocation)
{
	struct allocation ended;
	int error;

	while ((error = table_insert(allocation)) == -EEXIST) {
		if (allocate_is_recorded(allocation))
			return -EALREADY;
		if (!table_take_overlapping(allocation->base, allocation->size, &ended))
			continue;
		memory_missed_free(&ended);
	}
	return error;
}

bool memory_insert(struct allocation *allocation)
{
	int error = allocate_insert(allocation);

	if (error == -EALREADY)
		return false;
	if (error)
		events_untracked(allocation, error);
	else
		events_emit(MEMORY_ALLOCATED, allocation);
	return true;
}

void memory_reserved(uint64_t base, uint64_t size)
{
	struct allocation ended;

	while (table_take_overlapping(base, size, &ended))
		memory_missed_free(&ended);
}

void memory_allocated(enum allocation_kind kind, uint64_t base, uint64_t size)
{
	/* A later call makes VMM memory accessible. */
	struct allocation allocation = {
		.base = base, .size = size, .kind = kind, .accessible = kind != ALLOCATION_MAPPED
	};

	process_activate();
	if (config_get()->verify)
		store_relaxed(&memory_verify_mode, true);
	if (!attributes_read(base, &allocation)) {
		/* A captured allocation is no memory before its graph runs (measured): no client
		 * can use it, and stale records there end. */
		if (kind == ALLOCATION_POOL)
			statistics_count(graph_allocations);
		else
			statistics_count(untracked);
		/* Without a BUFFER_ID, no later check could identify the memory. */
		memory_reserved(base, size);
		return;
	}
	allocation.integrated = kind == ALLOCATION_HOST && attributes_integrated(allocation.device);
	if (memory_insert(&allocation))
		events_count_allocation(kind, size);
	if (kind == ALLOCATION_POOL && allocation.described && keep_is_on())
		keep_pool_allocated(allocation.device);
}
