/* SPDX-License-Identifier: BSD-3-Clause */
/* notes.c -- for each allocation, who has still to be told of its allocation, who is being told, and who has been */
#include "intercept/notes.h"

#include "base/arena.h"
#include "base/pool.h"
#include "base/statistics.h"

#define LIVING_MAX (1u << 22)

/* By the allocation's slot. It may be another one's before the free of the last has been told everywhere. */
struct notes {
	struct note *first;
};

static struct arena notes = ARENA_INITIALIZER(struct notes, LIVING_MAX);
static struct pool note_pool = POOL_INITIALIZER(struct note);

static struct note **notes_at(uint32_t slot)
{
	return slot < notes.ready ? &((struct notes *)notes.base)[slot].first : NULL;
}

struct note *note_find(uint32_t slot, uint64_t id)
{
	struct note **first = notes_at(slot), *note = first ? *first : NULL;

	while (note && note->allocation.id != id)
		note = note->next;
	return note;
}

struct note *note_find_owed(uint32_t *slot, unsigned int index)
{
	struct note *note;

	for (; *slot < notes.ready; ++*slot) {
		for (note = *notes_at(*slot); note; note = note->next) {
			if (note->owed & 1u << index)
				return note;
		}
	}
	return NULL;
}

static struct note *make(const struct allocation *allocation)
{
	struct note **first, *note;

	if (arena_grow(&notes, allocation->slot + 1))
		return NULL;
	note = pool_get(&note_pool);
	if (!note)
		return NULL;
	first = notes_at(allocation->slot);
	*note = (struct note){ .next = *first,
			       .allocation = { .struct_size = sizeof(note->allocation),
					       .id = allocation->id,
					       .base = allocation->base,
					       .size = allocation->size,
					       .device = allocation->device,
					       .kind = (int32_t)allocation->kind } };
	*first = note;
	return note;
}

void note_forget(uint32_t slot, uint64_t id)
{
	struct note **link = notes_at(slot), *note;

	while (link && *link && (*link)->allocation.id != id)
		link = &(*link)->next;
	if (!link || !*link)
		return;
	note = *link;
	*link = note->next;
	pool_put(&note_pool, note);
}

uint8_t note_owe(const struct allocation *allocation, uint8_t to)
{
	struct note *note = note_find(allocation->slot, allocation->id);

	if (!note && to)
		note = make(allocation);
	if (!note) {
		if (to)
			statistics_count(untold);
		return 0;
	}
	to &= (uint8_t) ~(note->owed | note->telling | note->told);
	note->owed |= to;
	return to;
}

void notes_release(unsigned int index)
{
	uint8_t others = (uint8_t) ~(1u << index);
	struct note **link, *note;

	for (uint32_t slot = 0; slot < notes.ready; slot++) {
		for (link = notes_at(slot); (note = *link);) {
			note->owed &= others;
			note->telling &= others;
			note->told &= others;
			if (note->owed | note->telling | note->told) {
				link = &note->next;
				continue;
			}
			*link = note->next;
			pool_put(&note_pool, note);
		}
	}
}
