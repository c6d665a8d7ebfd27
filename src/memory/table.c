/* SPDX-License-Identifier: BSD-3-Clause */
/* table.c -- records of the allocation table, and their writers */
#include "memory/table.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>

#include "base/atomics.h"
#include "base/pool.h"
#include "base/process.h"
#include "memory/kept.h"

/* Fields of a record that queries and requests do not load. Writers hold table_lock; any thread may
 * read the atomic fields. */
struct record_side {
	uint32_t next_unused;	   /* of an unused record */
	_Atomic uint64_t event_id; /* 0: the allocation's id; RECORD_HIDDEN; or a later id */
	_Atomic uint64_t keep_key; /* what distinguishes host memory for keep.h */
	_Atomic uint64_t traits;   /* of a hidden record, which shows others */
} __attribute__((aligned(32)));

#define RECORD_HIDDEN 1 /* below every id */

pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct arena record_arena = ARENA_INITIALIZER(struct record, ALLOCATIONS_MAX);
static struct arena side_arena =
	ARENA_INITIALIZER(struct record_side, ALLOCATIONS_MAX); /* by slot */
static uint32_t unused;						/* first of the list */
static _Atomic uint64_t last_id = RECORD_HIDDEN;		/* changed with the lock */

static struct record_side *table_side(uint32_t slot)
{
	return (struct record_side *)side_arena.base + slot;
}

/* Release order: a reader that loads a field of a reused record also sees the end of the last
 * allocation. */

static uint32_t table_slot(const struct record *record)
{
	return (uint32_t)(record - lookup_record(0));
}

static void table_copy(struct record *record, uint64_t traits, struct allocation *to)
{
	to->traits = traits;
	to->base = load_acquire(&record->base);
	to->size = load_acquire(&record->size);
	to->buffer_id = load_acquire(&record->buffer_id);
	to->context = (CUcontext)(uintptr_t)load_acquire(&record->context);
	to->slot = table_slot(record);
	to->keep_key = load_acquire(&table_side(to->slot)->keep_key);
}

/* ---- readers ---- */

bool memory_find(uint64_t address, struct allocation *found)
{
	struct found at;

	if (!lookup(address, &at))
		return false;
	table_copy(at.record, load_acquire(&at.record->traits), found);
	found->id = at.generation;
	return lookup_is_same(&at) && !found->hidden;
}

bool table_is_address_hidden(uint64_t address)
{
	struct found at;
	uint64_t traits;

	if (!lookup(address, &at))
		return false;
	traits = load_acquire(&at.record->traits);
	return (traits & TRAIT_HIDDEN) && lookup_is_same(&at);
}

bool memory_is_live(const struct allocation *allocation)
{
	/* Sequentially consistent, in order that 2 threads do not miss each other: one ends the
	 * allocation and then looks for users, the other becomes a user and then looks for the
	 * end. */
	return allocation->slot &&
	       load_seq_cst(&lookup_record(allocation->slot)->generation) == allocation->id;
}

/* ---- writers: table_lock is held ---- */

static struct range table_range(const struct allocation *allocation)
{
	return (struct range){ allocation->base, allocation->base + allocation->size - 1 };
}

static void table_copy_live(uint32_t slot, struct allocation *to)
{
	struct record *record = lookup_record(slot);
	uint64_t event_id = load_acquire(&table_side(slot)->event_id);
	bool hidden = event_id == RECORD_HIDDEN;

	table_copy(record, load_acquire(hidden ? &table_side(slot)->traits : &record->traits), to);
	to->id = load_acquire(&record->generation);
	to->event_id = event_id ? event_id : to->id;
	to->hidden = hidden;
}

static uint64_t table_next_id(void)
{
	uint64_t id = load_relaxed(&last_id) + 2;

	assert_held(&table_lock);
	store_release(&last_id, id);
	return id;
}

/* Requires table_prepare(), which made sure of a free record. */
static uint32_t table_take_unused(void)
{
	uint32_t slot = unused;

	assert_held(&table_lock);
	if (!slot)
		return arena_next(&record_arena);
	unused = table_side(slot)->next_unused;
	return slot;
}

/* Publish the arrays before the index leads to them: a reader loads slot 0 even on an empty
 * path. */
static int table_prepare(struct range range)
{
	if (!unused && (arena_grow(&record_arena, record_arena.used + 1) ||
			arena_grow(&side_arena, record_arena.used + 1)))
		return -ENOMEM;
	store_release(&lookup_records, (struct record *)record_arena.base);
	return index_prepare(range);
}

/* A reader of event_id 0 also sees the end: memory_is_visible(). */
static void table_clear_side(uint32_t slot)
{
	struct record_side *side = table_side(slot);

	if (!load_relaxed(&side->event_id))
		return;
	store_release(&side->event_id, 0);
	store_release(&side->traits, 0);
}

static void table_take_locked(uint32_t slot, struct allocation *taken)
{
	assert_held(&table_lock);
	table_copy_live(slot, taken);
	store_seq_cst(&lookup_record(slot)->generation, taken->id & ~(uint64_t)1);
	index_unlink(table_range(taken), slot);
	if (!taken->hidden)
		kept_count_live(taken, false);
	table_clear_side(slot);
	table_side(slot)->next_unused = unused;
	unused = slot;
}

static int table_insert_locked(struct allocation *allocation)
{
	struct record *record;
	uint32_t slot;

	assert_held(&table_lock);
	if (index_overlapping(table_range(allocation)))
		return -EEXIST;
	if (table_prepare(table_range(allocation)))
		return -ENOMEM;
	slot = table_take_unused();
	allocation->id = allocation->event_id = table_next_id();
	allocation->slot = slot;
	allocation->traits &= TRAITS_OF_MEMORY;
	record = lookup_record(slot);
	store_release(&record->base, allocation->base);
	store_release(&record->size, allocation->size);
	store_release(&record->buffer_id, allocation->buffer_id);
	store_release(&record->context, (uintptr_t)allocation->context);
	store_release(&record->traits, allocation->traits);
	store_release(&table_side(slot)->keep_key, allocation->keep_key);
	store_release(&record->generation, allocation->id);
	index_link(table_range(allocation), slot);
	kept_count_live(allocation, true);
	return 0;
}

static bool table_is_valid_range(uint64_t base, uint64_t size)
{
	uint64_t limit = (uint64_t)1 << ADDRESS_BITS;

	return size && base < limit && size <= limit - base;
}

int table_insert(struct allocation *allocation)
{
	int error;

	if (!table_is_valid_range(allocation->base, allocation->size))
		return -EINVAL;
	pthread_mutex_lock(&table_lock);
	error = table_insert_locked(allocation);
	pthread_mutex_unlock(&table_lock);
	return error;
}

bool table_take(uint64_t base, uint64_t id, struct allocation *taken)
{
	struct found at;
	bool found;

	pthread_mutex_lock(&table_lock);
	found = lookup(base, &at) && !at.offset && (!id || at.generation == id);
	if (found)
		table_take_locked(at.slot, taken);
	pthread_mutex_unlock(&table_lock);
	return found;
}

int table_set_access(uint64_t base, uint64_t id, bool accessible, struct allocation *before,
		     struct allocation *after)
{
	int error = -ENOENT;
	struct found at;

	pthread_mutex_lock(&table_lock);
	if (lookup(base, &at) && !at.offset && at.generation == id) {
		table_take_locked(at.slot, before);
		*after = *before;
		after->accessible = accessible;
		error = table_insert_locked(after);
	}
	pthread_mutex_unlock(&table_lock);
	return error;
}

bool table_take_overlapping(uint64_t base, uint64_t size, struct allocation *taken)
{
	uint32_t slot;

	if (!table_is_valid_range(base, size))
		return false;
	pthread_mutex_lock(&table_lock);
	slot = index_overlapping((struct range){ base, base + size - 1 });
	if (slot)
		table_take_locked(slot, taken);
	pthread_mutex_unlock(&table_lock);
	return slot;
}

bool memory_find_live(uint64_t base, uint64_t id, struct allocation *found)
{
	struct found at;
	bool live;

	pthread_mutex_lock(&table_lock);
	live = lookup(base, &at) && !at.offset && at.generation == id;
	if (live)
		table_copy_live(at.slot, found);
	pthread_mutex_unlock(&table_lock);
	return live;
}

bool table_overlaps(uint64_t base, uint64_t size)
{
	uint32_t slot;

	if (!table_is_valid_range(base, size))
		return false;
	pthread_mutex_lock(&table_lock);
	slot = index_overlapping((struct range){ base, base + size - 1 });
	pthread_mutex_unlock(&table_lock);
	return slot;
}

/* Younger allocations divide the range. Depth of the divisions. */
#define OLDER_DEPTH 6u

static bool table_holds_older_locked(struct range range, uint64_t youngest, unsigned int depth)
{
	uint32_t slot = range.base <= range.last ? index_overlapping(range) : 0;
	const struct record *record = lookup_record(slot);
	uint64_t base, end;

	if (!slot)
		return false;
	if (!depth || load_relaxed(&record->generation) <= youngest)
		return true;
	base = load_relaxed(&record->base);
	end = base + load_relaxed(&record->size);
	return table_holds_older_locked((struct range){ range.base, base - 1 }, youngest,
					depth - 1) ||
	       table_holds_older_locked((struct range){ end, range.last }, youngest, depth - 1);
}

bool table_holds_older(uint64_t base, uint64_t size, uint64_t youngest)
{
	bool holds;

	if (!table_is_valid_range(base, size))
		return false;
	pthread_mutex_lock(&table_lock);
	holds = table_holds_older_locked((struct range){ base, base + size - 1 }, youngest,
					 OLDER_DEPTH);
	pthread_mutex_unlock(&table_lock);
	return holds;
}

/* Records are found about in the order of their addresses: the look on the left goes no deeper than
 * the records of one bucket. */
static bool table_shows_locked(struct range range, bool *hides)
{
	const struct record *record;
	uint32_t slot;
	uint64_t base;

	while (range.base <= range.last) {
		slot = index_overlapping(range);
		if (!slot)
			return false;
		if (load_relaxed(&table_side(slot)->event_id) != RECORD_HIDDEN)
			return true;
		*hides = true;
		record = lookup_record(slot);
		base = load_relaxed(&record->base);
		if (base > range.base &&
		    table_shows_locked((struct range){ range.base, base - 1 }, hides))
			return true;
		range.base = base + load_relaxed(&record->size);
	}
	return false;
}

bool table_shows(uint64_t base, uint64_t size, bool *hides)
{
	bool shows;

	*hides = false;
	if (!table_is_valid_range(base, size))
		return false;
	pthread_mutex_lock(&table_lock);
	shows = table_shows_locked((struct range){ base, base + size - 1 }, hides);
	pthread_mutex_unlock(&table_lock);
	return shows;
}

/* An id follows the driver's success: what the driver is called for later finds the memory of each
 * id up to this one. */
uint64_t memory_youngest(void)
{
	return load_acquire(&last_id);
}

uint64_t memory_youngest_added(void)
{
	uint64_t id;

	pthread_mutex_lock(&table_lock);
	id = load_relaxed(&last_id);
	pthread_mutex_unlock(&table_lock);
	return id;
}

void table_renew(void)
{
	table_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

/* ---- walks ---- */

static bool table_copy_if_live(uint32_t slot, struct allocation *to)
{
	if (!(load_acquire(&lookup_record(slot)->generation) & 1))
		return false;
	table_copy_live(slot, to);
	return true;
}

unsigned int memory_next(uint32_t *cursor, struct allocation *batch, unsigned int count)
{
	unsigned int got = 0;

	pthread_mutex_lock(&table_lock);
	while (*cursor + 1 < record_arena.used && got < count)
		got += table_copy_if_live(++*cursor, &batch[got]);
	pthread_mutex_unlock(&table_lock);
	return got;
}

/* ---- changes of live records: use, kept memory ---- */

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

	pthread_mutex_lock(&table_lock);
	if (lookup(base, &at) && !at.offset)
		store_release(&table_side(at.slot)->keep_key, key);
	pthread_mutex_unlock(&table_lock);
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

	pthread_mutex_lock(&table_lock);
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
	pthread_mutex_unlock(&table_lock);
	return hides;
}

bool table_show(struct allocation *allocation)
{
	struct record_side *side = table_side(allocation->slot);
	struct record *record = lookup_record(allocation->slot);
	bool shows;

	pthread_mutex_lock(&table_lock);
	shows = memory_is_live(allocation) && table_is_hidden(allocation->slot);
	if (shows) {
		allocation->event_id = table_next_id();
		allocation->hidden = false;
		store_release(&side->event_id, allocation->event_id);
		table_move(&side->traits, &record->traits, 0);
		kept_count_live(allocation, true);
	}
	pthread_mutex_unlock(&table_lock);
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
	pthread_mutex_lock(&table_lock);
	first = memory_is_live(allocation) &&
		!(load_acquire(&lookup_record(allocation->slot)->traits) & TRAIT_USED);
	if (first)
		table_change_traits(allocation->slot, 0, TRAIT_USED);
	pthread_mutex_unlock(&table_lock);
	return first;
}
