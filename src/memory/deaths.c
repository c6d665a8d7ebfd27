/* SPDX-License-Identifier: BSD-3-Clause */
/* deaths.c -- the ends of allocations: frees, context ends, and what only the driver can tell */
#include "memory/memory.h"

#include <stddef.h>

#include "base/statistics.h"
#include "memory/driver.h"
#include "memory/events.h"
#include "memory/table.h"

void events_born(const struct allocation *allocation)
{
	for (size_t i = 0; memory_subscribers[i]; i++)
		memory_subscribers[i]->born(allocation);
}

void events_dying(const struct allocation *allocation)
{
	for (size_t i = 0; memory_subscribers[i]; i++)
		memory_subscribers[i]->dying(allocation);
}

bool memory_dying(uint64_t base, struct allocation *ended)
{
	if (!table_take(base, 0, ended))
		return false;
	statistics_count(deaths);
	events_dying(ended);
	return true;
}

/* Whether the driver still knows the allocation as the one that we recorded. */
static bool is_known_to_driver(const struct allocation *allocation)
{
	struct allocation now = { .base = allocation->base };

	return attributes_read(allocation->base, &now) && now.buffer_id == allocation->buffer_id;
}

void memory_survived(const struct allocation *ended)
{
	struct allocation again = *ended;

	if (!is_known_to_driver(ended))
		return;
	atomic_fetch_sub_explicit(&statistics.deaths, 1, memory_order_relaxed);
	memory_insert(&again);
}

static bool is_of_context(const struct allocation *allocation, void *context)
{
	return allocation->context == context;
}

void memory_context_dying(CUcontext context)
{
	struct allocation ended;

	while (table_take_matching(is_of_context, context, &ended)) {
		statistics_count(deaths);
		events_dying(&ended);
	}
}

/* Living allocations of a device in the order of their ids, a batch at a time: the driver is asked about
 * them when the table's lock is no longer held. */
#define BATCH 64

struct walk {
	int device;
	uint64_t after; /* the last id of the batch before */
	unsigned int count;
	struct allocation batch[BATCH];
};

/* The table visits in the order of birth, which is that of the ids. */
static void collect(const struct allocation *allocation, void *argument)
{
	struct walk *walk = argument;

	if (allocation->id <= walk->after || walk->count == BATCH)
		return;
	if (walk->device < 0 || allocation->device == walk->device)
		walk->batch[walk->count++] = *allocation;
}

void memory_ask_driver(int device)
{
	struct walk walk = { .device = device };
	struct allocation ended;

	do {
		walk.count = 0;
		table_visit(collect, &walk);
		for (unsigned int i = 0; i < walk.count; i++) {
			const struct allocation *asked = &walk.batch[i];

			walk.after = asked->id;
			if (is_known_to_driver(asked) || !table_take(asked->base, asked->id, &ended))
				continue;
			statistics_count(deaths);
			events_dying(&ended);
		}
	} while (walk.count == BATCH);
}
