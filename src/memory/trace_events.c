/* SPDX-License-Identifier: BSD-3-Clause */
/* trace_events.c -- allocations and frees in the trace; snapshots of the statistics in their time
 */
#include "memory/trace_events.h"

#include "report/statistics.h"
#include "report/trace.h"

static void trace_events_write(const struct allocation *allocation, bool is_begin)
{
	static const char names[][20] = {
#define KIND(kind, name) #name " memory",
		ALLOCATION_KINDS(KIND)
#undef KIND
			"host memory"
	};

	if (trace_is_on())
		trace_allocation(is_begin, allocation->event_id, allocation->base, allocation->size,
				 allocation->device, names[allocation->kind]);
	statistics_snapshot();
}

static void trace_events_allocated(const struct allocation *allocation)
{
	trace_events_write(allocation, true);
}

static void trace_events_freeing(const struct allocation *allocation)
{
	trace_events_write(allocation, false);
}

const struct memory_subscriber trace_subscriber = { .of_program = true,
						    .allocated = trace_events_allocated,
						    .freeing = trace_events_freeing };
