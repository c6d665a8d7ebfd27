/* SPDX-License-Identifier: BSD-3-Clause */
/* keep_watch.c -- measures what PEERPIN_KEEP would save */
#include "memory/keep_watch.h"

#include <pthread.h>

#include "base/system.h"
#include "memory/kept.h"
#include "report/statistics.h"

#define WATCHED_SIZES 1024u

/* A class of sizes (kept_class_of()) of which memory was freed. A repeated size keeps its entry:
 * others of that entry are not measured. */
static struct size {
	uint64_t bytes;
	uint64_t freed;	  /* frees without a repeated allocation yet */
	uint64_t largest; /* bytes of the largest of them, about: larger ones would not fit */
	uint64_t free_ns; /* their time */
	uint64_t repeated;
	uint64_t needed; /* allocations of this size to keep */
} sizes[WATCHED_SIZES];
static pthread_mutex_t watch_lock = PTHREAD_MUTEX_INITIALIZER; /* guards sizes; taken alone */

uint64_t keep_watch_begin(void)
{
	return load_relaxed(&keep_mode) == KEEP_WATCHING ? system_clock() : 0;
}

uint64_t keep_watch_size(uint64_t base)
{
	struct allocation allocation;

	return memory_find(base, &allocation) && allocation.base == base &&
			       allocation.kind == ALLOCATION_DEVICE
		       ? allocation.size
		       : 0;
}

static struct size *keep_watch_find(uint64_t bytes)
{
	return &sizes[(bytes * 0x9e3779b97f4a7c15u >> 48) % WATCHED_SIZES];
}

void keep_watch_freed(uint64_t size, uint64_t start)
{
	uint64_t duration = system_clock() - start, bytes = kept_class_of(size);
	struct size *entry = keep_watch_find(bytes);

	pthread_mutex_lock(&watch_lock);
	if (entry->bytes != bytes && !entry->repeated)
		*entry = (struct size){ .bytes = bytes };
	if (entry->bytes == bytes) {
		if (!entry->freed++ || entry->largest < size)
			entry->largest = size;
		entry->free_ns += duration;
	}
	pthread_mutex_unlock(&watch_lock);
}

/* A program that frees many allocations once and then repeats a few needs to keep those few. */
static uint64_t keep_watch_needed(const struct size *entry)
{
	return entry->freed < entry->repeated ? entry->freed : entry->repeated;
}

/* The freed size that would serve the allocation, as kept_index_find() looks for it. */
static struct size *keep_watch_serving(const struct allocation *allocation)
{
	uint64_t size = allocation->size, bytes = kept_class_of(size);
	struct size *entry;

	for (; bytes <= kept_most_of(size); bytes = kept_class_of(bytes + 1)) {
		entry = keep_watch_find(bytes);
		if (entry->bytes == bytes && entry->freed && size <= entry->largest)
			return entry;
	}
	return NULL;
}

void keep_watch_allocated(uint64_t base, uint64_t start)
{
	uint64_t duration = system_clock() - start, free_ns, needed;
	struct allocation allocation;
	struct size *entry;

	if (!memory_find(base, &allocation) || allocation.base != base)
		return;
	pthread_mutex_lock(&watch_lock);
	entry = keep_watch_serving(&allocation);
	if (entry) {
		free_ns = entry->free_ns / entry->freed;
		entry->repeated++;
		needed = keep_watch_needed(entry);
		if (needed > entry->needed) {
			statistics_add(repeated_bytes, (needed - entry->needed) * entry->bytes);
			entry->needed = needed;
		}
		entry->free_ns -= free_ns;
		entry->freed--;
		statistics_count(repeated);
		statistics_add(repeated_ns, duration + free_ns);
	}
	pthread_mutex_unlock(&watch_lock);
}
