/* SPDX-License-Identifier: BSD-3-Clause */
/* kept_use.c -- bytes that the program has, as the driver counts them */
#include "memory/kept.h"

#include "base/atomics.h"

#define ROOM_MIN ((uint64_t)32 << 20)

/* Bytes of the program; table_lock guards stores. */
static struct use {
	_Atomic uint64_t live, allocated;
	_Atomic uint64_t peak; /* of live bytes */
} uses[KEPT_LISTS];

void kept_count_live(const struct allocation *allocation, bool begins)
{
	struct use *use = &uses[kept_list_number(allocation)];
	uint64_t bytes = kept_bytes_of(allocation), live = load_relaxed(&use->live);

	if (allocation->kind != ALLOCATION_DEVICE && allocation->kind != ALLOCATION_PITCHED &&
	    allocation->kind != ALLOCATION_HOST)
		return;
	live = begins ? live + bytes : live - bytes;
	store_relaxed(&use->live, live);
	if (begins)
		store_relaxed(&use->allocated, load_relaxed(&use->allocated) + bytes);
	if (live > load_relaxed(&use->peak))
		store_relaxed(&use->peak, live);
}

uint64_t kept_live(unsigned int list)
{
	return load_relaxed(&uses[list].live);
}

uint64_t kept_allocated(unsigned int list)
{
	return load_relaxed(&uses[list].allocated);
}

uint64_t kept_room(unsigned int list, uint64_t bytes)
{
	uint64_t live = load_relaxed(&uses[list].live) + bytes;
	uint64_t most = load_relaxed(&uses[list].peak);

	if (list == KEPT_HOST)
		return UINT64_MAX;
	most = most < live ? live : most;
	most += most / 2;
	return most < live + ROOM_MIN ? ROOM_MIN : most - live;
}
