/* SPDX-License-Identifier: BSD-3-Clause */
/* trace_events.c -- allocations and frees for the trace */
#include "memory/trace_events.h"

#include "base/near.h"
#include "base/trace.h"

static const char *name_of(enum allocation_kind kind)
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
		return "mapped memory";
	case ALLOCATION_SHARED:
		return "shared memory";
	case ALLOCATION_EXTERNAL:
		return "external memory";
	case ALLOCATION_HOST:
		return "host memory";
	}
	return "memory";
}

static void tell(const struct allocation *allocation, bool begins)
{
	if (trace_is_on())
		trace_allocation(begins, allocation->id, allocation->base, allocation->size,
				 allocation->device, name_of(allocation->kind));
}

static NEAR void allocated(const struct allocation *allocation)
{
	tell(allocation, true);
}

static void freeing(const struct allocation *allocation)
{
	tell(allocation, false);
}

const struct memory_subscriber trace_subscriber = { .allocated = allocated, .freeing = freeing };
