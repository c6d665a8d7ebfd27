/* SPDX-License-Identifier: BSD-3-Clause */
/* events.c -- events of the memory layer: to its subscribers, the log and the statistics */
#include "memory/events.h"

#include <errno.h>
#include <stddef.h>

#include "base/atomics.h"
#include "base/log.h"
#include "base/pool.h"
#include "report/errors.h"
#include "report/statistics.h"

static const char *events_kind_name(enum allocation_kind kind)
{
	static const char names[][12] = {
#define KIND(kind, name) #name,
		ALLOCATION_KINDS(KIND)
#undef KIND
			"host"
	};

	return names[kind];
}

static void events_log(const char *event, const struct allocation *allocation)
{
	log_message(LOG_TRACE, "%s 0x%llx %llu %s id %llu%s", event,
		    (unsigned long long)allocation->base, (unsigned long long)allocation->size,
		    events_kind_name(allocation->kind), (unsigned long long)allocation->event_id,
		    memory_is_for_adapters(allocation) ? "" : ", not for adapters");
}

/* Subscribers of an event: the driver's events concern those that follow the memory, the program's
 * events those that follow the program. */
enum { OF_DRIVER = 1, OF_PROGRAM = 2 };

static bool events_concerns(const struct memory_subscriber *subscriber, unsigned int of)
{
	return of & (subscriber->of_program ? OF_PROGRAM : OF_DRIVER);
}

static void events_emit_allocated(const struct allocation *allocation, unsigned int of)
{
	if (!memory_is_for_adapters(allocation))
		return;
	for (size_t i = 0; memory_subscribers[i]; i++) {
		if (events_concerns(memory_subscribers[i], of))
			memory_subscribers[i]->allocated(allocation);
	}
}

static inline __attribute__((always_inline)) void
events_emit_freeing(const struct allocation *allocation, unsigned int of)
{
	size_t count = 0;

	if (!memory_is_for_adapters(allocation))
		return;
	while (memory_subscribers[count])
		count++;
	while (count--) {
		if (events_concerns(memory_subscribers[count], of))
			memory_subscribers[count]->freeing(allocation);
	}
}

void events_allocated(const struct allocation *allocation)
{
	events_log("allocated", allocation);
	events_emit_allocated(allocation, OF_DRIVER | OF_PROGRAM);
}

void events_freeing(const struct allocation *allocation)
{
	events_log(allocation->hidden ? "releasing" : "freeing", allocation);
	if (__builtin_expect(allocation->hidden, false))
		events_emit_freeing(allocation, OF_DRIVER);
	else
		events_emit_freeing(allocation, OF_DRIVER | OF_PROGRAM);
}

void events_hidden(const struct allocation *allocation)
{
	events_log("keeping", allocation);
	events_emit_freeing(allocation, OF_PROGRAM);
}

void events_shown(const struct allocation *allocation)
{
	events_log("reused", allocation);
	events_emit_allocated(allocation, OF_PROGRAM);
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
