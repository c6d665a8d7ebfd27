/* SPDX-License-Identifier: BSD-3-Clause */
/* table_changes.c -- changes of live records: use, kept memory */
#include "memory/table.h"

#include "base/atomics.h"
#include "base/own_thread.h"
#include "memory/kept.h"
#include "memory/record_side.h"

static bool table_is_hidden(uint32_t slot)
{
	return load_relaxed(&table_side(slot)->event_id) == RECORD_HIDDEN;
}

static void table_change_traits(uint32_t slot, uint64_t remove, uint64_t add)
{
	_Atomic uint64_t *traits =
		table_is_hidden(slot) ? &table_side(slot)->traits : &lookup_record(slot)->traits;

	store_release(traits, (load_acquire(traits) & ~remove) | add);
}

bool memory_is_visible(const struct allocation *allocation)
{
	uint64_t event_id = load_acquire(&table_side(allocation->slot)->event_id);

	return memory_is_live(allocation) &&
	       allocation->event_id == (event_id ? event_id : allocation->id);
}

void table_set_keep_key(uint64_t base, uint64_t key)
{
	struct found at;

	lock_take(&table_lock);
	if (lookup(base, &at) && !at.offset)
		store_release(&table_side(at.slot)->keep_key, key);
	lock_drop(&table_lock);
}

static void table_move(_Atomic uint64_t *from, _Atomic uint64_t *to, uint64_t left)
{
	store_release(to, load_acquire(from));
	store_release(from, left);
}

bool table_hide(struct allocation *allocation)
{
	struct record_side *side = table_side(allocation->slot);
	struct record *record = lookup_record(allocation->slot);
	uint64_t traits;
	bool hides;

	lock_take(&table_lock);
	hides = memory_is_live(allocation) && !table_is_hidden(allocation->slot);
	if (hides) {
		allocation->event_id = load_relaxed(&side->event_id);
		if (!allocation->event_id)
			allocation->event_id = allocation->id;
		traits = load_acquire(&record->traits);
		allocation->keep_key = load_acquire(&side->keep_key);
		table_move(&record->traits, &side->traits,
			   (traits & TRAITS_SHOWN_WHILE_HIDDEN) | TRAIT_HIDDEN);
		store_release(&side->event_id, RECORD_HIDDEN);
		kept_count_live(allocation, false);
	}
	lock_drop(&table_lock);
	return hides;
}

bool table_show(struct allocation *allocation)
{
	struct record_side *side = table_side(allocation->slot);
	struct record *record = lookup_record(allocation->slot);
	bool shows;

	lock_take(&table_lock);
	shows = memory_is_live(allocation) && table_is_hidden(allocation->slot);
	if (shows) {
		allocation->event_id = table_next_id();
		allocation->hidden = false;
		store_release(&side->event_id, allocation->event_id);
		table_move(&side->traits, &record->traits, 0);
		kept_count_live(allocation, true);
	}
	lock_drop(&table_lock);
	return shows;
}

bool table_is_used(const struct allocation *allocation)
{
	uint64_t traits;

	if (!allocation->slot)
		return true;
	traits = load_acquire(&lookup_record(allocation->slot)->traits);
	return (traits & TRAIT_USED) || !memory_is_live(allocation);
}

bool table_mark_used(const struct allocation *allocation)
{
	bool first;

	if (!allocation->slot ||
	    (load_acquire(&lookup_record(allocation->slot)->traits) & TRAIT_USED))
		return false;
	lock_take(&table_lock);
	first = memory_is_live(allocation) &&
		!(load_acquire(&lookup_record(allocation->slot)->traits) & TRAIT_USED);
	if (first)
		table_change_traits(allocation->slot, 0, TRAIT_USED);
	lock_drop(&table_lock);
	return first;
}
