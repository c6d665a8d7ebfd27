/* SPDX-License-Identifier: BSD-3-Clause */
/* kept_use.c -- bytes that the program has, as the driver counts them */
#include "memory/kept.h"

#include "base/atomics.h"
#include "report/statistics.h"

#define ROOM_MIN ((uint64_t)32 << 20)

/* Small memory: a free that keeps it costs as much as a reuse saves (measured: 1 us). */
#define TRIED	  1024	       /* frees that keep it without a reuse */
#define NOT_TRIED (32 * TRIED) /* frees that do not, until it is tried again */
static _Atomic int64_t credit = TRIED;

/* Bytes of the program; table_lock guards stores. */
static struct use {
	_Atomic uint64_t live, cut, allocated;
	_Atomic uint64_t peak; /* of those that the driver would have taken for it */
} uses[KEPT_LISTS];

static uint64_t kept_cut_of(const struct allocation *allocation)
{
	uint64_t blocks = kept_block_bytes_of(allocation);

	return blocks && allocation->cut ? blocks - kept_taken_of(memory_asked(allocation)) : 0;
}

void kept_count_live(const struct allocation *allocation, bool begins)
{
	struct use *use = &uses[kept_list_number(allocation)];
	uint64_t bytes = kept_bytes_of(allocation), live = load_relaxed(&use->live);
	uint64_t cut = kept_cut_of(allocation) * (begins ? 1 : UINT64_MAX);

	if (allocation->kind != ALLOCATION_DEVICE && allocation->kind != ALLOCATION_PITCHED &&
	    allocation->kind != ALLOCATION_HOST)
		return;
	live = begins ? live + bytes : live - bytes;
	store_relaxed(&use->live, live);
	if (begins)
		store_relaxed(&use->allocated, load_relaxed(&use->allocated) + bytes);
	if (cut) {
		store_relaxed(&use->cut, load_relaxed(&use->cut) + cut);
		statistics_add(kept_bytes, cut);
	}
	if (live - load_relaxed(&use->cut) > load_relaxed(&use->peak))
		store_relaxed(&use->peak, live - load_relaxed(&use->cut));
}

uint64_t kept_live(unsigned int list)
{
	return load_relaxed(&uses[list].live);
}

uint64_t kept_cut(unsigned int list)
{
	return load_relaxed(&uses[list].cut);
}

uint64_t kept_allocated(unsigned int list)
{
	return load_relaxed(&uses[list].allocated);
}

uint64_t kept_room(unsigned int list, uint64_t bytes)
{
	uint64_t live = load_relaxed(&uses[list].live) + bytes, own = live - kept_cut(list);
	uint64_t most = load_relaxed(&uses[list].peak);

	if (list == KEPT_HOST)
		return UINT64_MAX;
	most = most < own ? own : most;
	most += most / 2;
	return most < live + ROOM_MIN ? ROOM_MIN : most - live;
}

uint64_t kept_most_for(unsigned int list, uint64_t size)
{
	uint64_t cut = kept_cut(list), spare = load_relaxed(&uses[list].peak) / 16;
	uint64_t taken = kept_taken_of(size), most = kept_most_of(size);

	spare = spare < cut ? 0 : spare - cut;
	return most - taken < spare ? most : taken + spare;
}

static bool kept_is_small(const struct allocation *allocation)
{
	return !kept_block_bytes_of(allocation) && allocation->kind != ALLOCATION_HOST &&
	       !allocation->used;
}

bool kept_is_worthwhile(const struct allocation *allocation)
{
	int64_t left;

	if (!kept_is_small(allocation))
		return true;
	left = load_relaxed(&credit);
	store_relaxed(&credit, left > 1 - NOT_TRIED ? left - 1 : TRIED);
	return left > 0;
}

void kept_reused(const struct allocation *allocation)
{
	int64_t left = load_relaxed(&credit);

	if (kept_is_small(allocation) && left > 0)
		store_relaxed(&credit, left + 2 < TRIED ? left + 2 : TRIED);
}
