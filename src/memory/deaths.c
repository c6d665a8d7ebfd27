/* SPDX-License-Identifier: BSD-3-Clause */
/* deaths.c -- the ends of allocations: frees, context ends, and what only the driver can tell */
#include "memory/memory.h"

#include <pthread.h>
#include <stddef.h>

#include "base/config.h"
#include "base/log.h"
#include "base/pool.h"
#include "base/statistics.h"
#include "memory/driver.h"
#include "memory/events.h"
#include "memory/table.h"

static const char *name_of(enum allocation_kind kind)
{
	static const char *const names[] = { "device", "pitched", "managed", "pool",
					     "mapped", "shared",  "external" };

	return names[kind];
}

void events_born(const struct allocation *allocation)
{
	log_message(LOG_TRACE, "born 0x%llx %llu %s id %llu%s", (unsigned long long)allocation->base,
		    (unsigned long long)allocation->size, name_of(allocation->kind),
		    (unsigned long long)allocation->id,
		    memory_is_registrable(allocation) ? "" : ", not for adapters");
	if (!memory_is_registrable(allocation))
		return;
	for (size_t i = 0; memory_subscribers[i]; i++)
		memory_subscribers[i]->born(allocation);
}

void events_dying(const struct allocation *allocation)
{
	log_message(LOG_TRACE, "ended 0x%llx %llu %s id %llu", (unsigned long long)allocation->base,
		    (unsigned long long)allocation->size, name_of(allocation->kind),
		    (unsigned long long)allocation->id);
	if (!memory_is_registrable(allocation))
		return;
	for (size_t i = 0; memory_subscribers[i]; i++)
		memory_subscribers[i]->dying(allocation);
}

/* PEERPIN_VERIFY: what the record says must be what the driver is about to end. */
static void verify(const struct allocation *ended)
{
	if (!config_get()->verify)
		return;
	statistics_count(verify_checks);
	if (attributes_match(ended))
		return;
	statistics_count(verify_disagreements);
	log_message(LOG_ERROR, "verification: memory at 0x%llx is not what was recorded there",
		    (unsigned long long)ended->base);
}

bool memory_dying(uint64_t base, struct allocation *ended)
{
	struct allocation found;

	/* What is mapped ends by being unmapped: a free of it is refused (measured), and must not cost its
	 * registrations. */
	if (!table_find(base, &found) || found.base != base || found.kind == ALLOCATION_MAPPED ||
	    !table_take(base, found.id, ended)) {
		if (base)
			statistics_count(untracked_frees);
		return false;
	}
	verify(ended);
	statistics_count(deaths);
	events_dying(ended);
	return true;
}

void memory_survived(const struct allocation *ended)
{
	struct allocation again = *ended;

	if (!attributes_match(ended))
		return;
	atomic_fetch_sub_explicit(&statistics.deaths, 1, memory_order_relaxed);
	memory_insert(&again);
}

static bool is_of_context(const struct allocation *allocation, void *context)
{
	return allocation->context == context;
}

/* Allocations that are on their way out, one behind the other. */
struct deaths {
	struct deaths *next_free;
	struct deaths *next;
	struct allocation ended;
};

static pthread_mutex_t deaths_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the pool; taken alone */
static struct pool deaths_pool = POOL_INITIALIZER(struct deaths);

/* What is ended without memory to remember it by stays unknown if the driver refuses, and passes through. */
static struct deaths *add(struct deaths *deaths, const struct allocation *ended)
{
	struct deaths *added;

	verify(ended);
	statistics_count(deaths);
	events_dying(ended);
	pthread_mutex_lock(&deaths_lock);
	added = pool_get(&deaths_pool);
	pthread_mutex_unlock(&deaths_lock);
	if (!added)
		return deaths;
	*added = (struct deaths){ .next = deaths, .ended = *ended };
	return added;
}

struct deaths *memory_context_dying(CUcontext context)
{
	struct deaths *deaths = NULL;
	struct allocation ended;

	/* Memory of pools and mappings has none, and outlives them all (measured). */
	while (context && table_take_matching(is_of_context, context, &ended))
		deaths = add(deaths, &ended);
	return deaths;
}

/* Whether an allocation reaches over one of the two ends. */
static bool is_cut(uint64_t base, uint64_t size)
{
	struct allocation at;

	return (table_find(base, &at) && at.base < base) ||
	       (table_find(base + size - 1, &at) && at.base + at.size > base + size);
}

struct deaths *memory_range_dying(uint64_t base, uint64_t size)
{
	struct deaths *deaths = NULL;
	struct allocation ended;

	if (!size || is_cut(base, size))
		return NULL;
	while (table_take_overlapping(base, size, &ended))
		deaths = add(deaths, &ended);
	return deaths;
}

void memory_range_gone(uint64_t base, uint64_t size)
{
	struct allocation ended;

	while (table_take_overlapping(base, size, &ended)) {
		statistics_count(deaths);
		events_dying(&ended);
	}
}

void memory_deaths_settled(struct deaths *deaths, bool refused)
{
	struct deaths *next;

	for (; deaths; deaths = next) {
		next = deaths->next;
		if (refused)
			memory_survived(&deaths->ended);
		pthread_mutex_lock(&deaths_lock);
		pool_put(&deaths_pool, deaths);
		pthread_mutex_unlock(&deaths_lock);
	}
}

/* Living allocations of a device in the order of their ids, a batch at a time: the driver is asked about
 * them when the table's lock is no longer held. */
#define BATCH 64

struct walk {
	int device;
	bool pools;	/* only what comes from pools */
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
	if (walk->pools && allocation->kind != ALLOCATION_POOL)
		return;
	if (walk->device < 0 || allocation->device == walk->device)
		walk->batch[walk->count++] = *allocation;
}

/* Ends what the driver no longer knows, in one of two ways. */
static void ask(struct walk walk, void (*end)(const struct allocation *ended))
{
	struct allocation ended;

	do {
		walk.count = 0;
		table_visit(collect, &walk);
		for (unsigned int i = 0; i < walk.count; i++) {
			const struct allocation *asked = &walk.batch[i];

			walk.after = asked->id;
			if (!attributes_match(asked) && table_take(asked->base, asked->id, &ended))
				end(&ended);
		}
	} while (walk.count == BATCH);
}

static void end_with_context(const struct allocation *ended)
{
	statistics_count(deaths);
	events_dying(ended);
}

void memory_ask_driver(int device)
{
	ask((struct walk){ .device = device }, end_with_context);
}

void memory_check_pools(void)
{
	ask((struct walk){ .device = -1, .pools = true }, memory_freed_unseen);
}
