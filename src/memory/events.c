/* SPDX-License-Identifier: BSD-3-Clause */
/* events.c -- events of allocations: to the layers above, the log, the trace and the statistics */
#include "memory/table.h"

#include <errno.h>

#include "base/atomics.h"
#include "base/log.h"
#include "base/pool.h"
#include "report/errors.h"
#include "report/statistics.h"
#include "report/trace.h"

/* Names of a kind in the log, and in the trace. */
static const char events_kinds[][12] = {
#define KIND(kind, name) #name,
	ALLOCATION_KINDS(KIND)
#undef KIND
		"host"
};
static const char events_traced_kinds[][20] = {
#define KIND(kind, name) #name " memory",
	ALLOCATION_KINDS(KIND)
#undef KIND
		"host memory"
};

/* The trace has the program's allocations and frees: kept memory is freed memory. Snapshots of the
 * statistics are due in the time of these calls. */
static void events_trace(const struct allocation *allocation, bool begins)
{
	if (trace_is_on())
		trace_allocation(begins, allocation->event_id, allocation->base, allocation->size,
				 allocation->device, events_traced_kinds[allocation->kind]);
	statistics_snapshot();
}

void events_emit(enum memory_event event, const struct allocation *allocation)
{
	static const char names[][12] = { "allocated", "freeing", "keeping", "reused",
					  "releasing" };
	bool concerns = memory_is_for_adapters(allocation);

	log_message(LOG_TRACE, "%s 0x%llx %llu %s id %llu%s", names[event],
		    (unsigned long long)allocation->base, (unsigned long long)allocation->size,
		    events_kinds[allocation->kind], (unsigned long long)allocation->event_id,
		    concerns ? "" : ", not for adapters");
	if (!concerns)
		return;
	if (event == MEMORY_FREEING || event == MEMORY_KEEPING)
		events_trace(allocation, false);
	memory_hook(event, allocation);
	if (event == MEMORY_ALLOCATED || event == MEMORY_REUSED)
		events_trace(allocation, true);
}

void events_count_allocation(enum allocation_kind kind, uint64_t size)
{
	if (kind == ALLOCATION_HOST) {
		statistics_count(host_allocations);
		return;
	}
	statistics_count(allocations);
	statistics_add(allocated_bytes, size);
	statistics_sort(allocation_bytes, size);
	switch (kind) {
#define KIND(kind, name)                                                                           \
	case ALLOCATION_##kind:                                                                    \
		statistics_count(allocations_##name);                                              \
		break;
		ALLOCATION_KINDS(KIND)
#undef KIND
	case ALLOCATION_HOST:
		break;
	}
}

void events_count_free(const struct allocation *ended, int number)
{
	if (ended->kind == ALLOCATION_HOST)
		statistics_add(host_frees, number);
	else
		statistics_add(frees, number);
}

void memory_report_refused(const char *what)
{
	int error = exchange_relaxed(&pool_refused, 0);
	struct errors_text refusal;
	char description[256];

	if (!error)
		return;
	refusal = errors_look_up(ERRORS_GROWTH, error);
	errors_describe(&refusal, description, sizeof(description));
	log_once(LOG_WARN,
		 "GPU memory is not %s: %s. Client registrations of this memory are forwarded. %s",
		 what, description, refusal.fix);
}

void events_untracked(const struct allocation *allocation, int error)
{
	statistics_count(untracked);
	log_message(LOG_INFO, "memory at 0x%llx, %llu bytes, is not recorded: %s",
		    (unsigned long long)allocation->base, (unsigned long long)allocation->size,
		    error == -ENOMEM ? "out of memory" : "unusual address");
	if (error == -ENOMEM)
		memory_report_refused("recorded");
}
