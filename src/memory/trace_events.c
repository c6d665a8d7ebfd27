/* SPDX-License-Identifier: BSD-3-Clause */
/* trace_events.c -- allocations and frees in the trace */
#include "memory/trace_events.h"

#include "base/near.h"
#include "report/trace.h"

static const char *trace_events_kind_name(enum allocation_kind kind)
{
	switch (kind) {
	case ALLOCATION_DEVICE:
		return "device memory";
	case ALLOCATION_PITCHED:
		return "pitched memory";
	case ALLOCATION_MANAGED:
		return "managed memory";
	case ALLOCATION_POOL:
		return "pool memory";
	case ALLOCATION_MAPPED:
		return "VMM memory";
	case ALLOCATION_SHARED:
		return "shared memory";
	case ALLOCATION_EXTERNAL:
		return "external memory";
	case ALLOCATION_HOST:
		return "host memory";
	}
	return "memory";
}

static void trace_events_write(const struct allocation *allocation, bool is_begin)
{
	if (trace_is_on())
		trace_allocation(is_begin, allocation->id, allocation->base, allocation->size,
				 allocation->device, trace_events_kind_name(allocation->kind));
}

static NEAR void trace_events_allocated(const struct allocation *allocation)
{
	trace_events_write(allocation, true);
}

static void trace_events_freeing(const struct allocation *allocation)
{
	trace_events_write(allocation, false);
}

const struct memory_subscriber trace_subscriber = { .allocated = trace_events_allocated,
						    .freeing = trace_events_freeing };
