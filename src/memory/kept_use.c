/* SPDX-License-Identifier: BSD-3-Clause */
/* kept_use.c -- bytes that the program has, as the driver counts them */
#include "memory/kept.h"

#include "base/atomics.h"
#include "report/statistics.h"

#define ROOM_MIN ((uint64_t)32 << 20)

/* Bytes of the program; table_lock guards stores. */
static struct use {
	_Atomic uint64_t live, cut, allocated;
	_Atomic uint64_t peak; /* of live bytes, without those of `cut` */
} uses[KEPT_LISTS];

uint64_t kept_cut_of(const struct allocation *allocation)
{
	return allocation->cut
		       ? kept_bytes_of(allocation) - kept_bytes_for(memory_asked(allocation))
		       : 0;
}

void kept_count_live(const struct allocation *allocation, bool begins)
{
	struct use *use = &uses[kept_list_number(allocation)];
	uint64_t bytes = kept_bytes_of(allocation), live = load_relaxed(&use->live);
	uint64_t cut = kept_cut_of(allocation) * (begins ? 1 : UINT64_MAX), own;

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
	own = live - load_relaxed(&use->cut);
	if (own > load_relaxed(&use->peak))
		store_relaxed(&use->peak, own);
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
	uint64_t live = load_relaxed(&uses[list].live) + bytes, cut = kept_cut(list);
	uint64_t most = load_relaxed(&uses[list].peak), own;

	if (list == KEPT_HOST)
		return UINT64_MAX;
	/* Another thread may change them meanwhile. */
	own = live < cut ? 0 : live - cut;
	most = most < own ? own : most;
	most += most / 2;
	return most < live + ROOM_MIN ? ROOM_MIN : most - live;
}

uint64_t kept_most_for(unsigned int list, uint64_t size)
{
	uint64_t cut = kept_cut(list), spare = load_relaxed(&uses[list].peak) / 16;
	uint64_t least = size > KEPT_SMALL ? kept_class_of(size) : (size + 511) & ~(uint64_t)511;
	uint64_t most = kept_most_of(size);

	spare = spare < cut ? 0 : spare - cut;
	return most - least < spare ? most : least + spare;
}
