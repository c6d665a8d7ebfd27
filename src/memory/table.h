/* SPDX-License-Identifier: BSD-3-Clause */
/* table.h -- the living allocations: from any address inside, and one after another
 *
 * table_find and table_contains are readers: wait-free (lookup.h). All others take the table's own lock; nothing
 * outside is called with it held.
 */
#ifndef PEERPIN_MEMORY_TABLE_H
#define PEERPIN_MEMORY_TABLE_H

#include <pthread.h>

#include "memory/memory.h"

/* Guards every store to records, sides and index, and the last id. It is taken last of all locks; here for those who see to it
 * that it is not held. */
extern pthread_mutex_t table_lock __attribute__((visibility("hidden")));

bool table_find(uint64_t address, struct allocation *found);
bool table_contains(const struct allocation *allocation);

/* An insertion is to come: fetches what it will need. Returns the slot that it will probably get; 0: a fresh one. */
uint32_t table_expect(void);

/* Inserts a copy of *allocation and sets its id and slot. Returns 0; -EEXIST if something living overlaps it;
 * -EINVAL if it is empty or lies beyond 48 bits; -ENOMEM. */
int table_insert(struct allocation *allocation);

/* Takes out the allocation that begins at `base`, if its id is `id` or `id` is 0, into *taken. */
bool table_take(uint64_t base, uint64_t id, struct allocation *taken);

/* Takes out some allocation that overlaps [base, base + size). */
bool table_take_overlapping(uint64_t base, uint64_t size, struct allocation *taken);

/* Whether any allocation overlaps [base, base + size). */
bool table_overlaps(uint64_t base, uint64_t size);

/* Takes the allocation out, and puts it in again under another id, accessible or not. Returns 0; -ENOENT if it is gone;
 * -ENOMEM if it could not be put in again: it is out, and *after is nothing. */
int table_set_access(uint64_t base, uint64_t id, bool accessible, struct allocation *before,
		     struct allocation *after);

/* The greatest id so far: each insertion has a greater one. */
uint64_t table_youngest(void);

/* A walk over all that live, by their places: copies up to `count` of those behind *cursor, which is 0 at first, and moves
 * it. What lives throughout the walk is seen once; what begins meanwhile perhaps. Returns how many; 0 is the end. */
unsigned int table_next(uint32_t *cursor, struct allocation *batch, unsigned int count);

/* Nothing if the allocation is gone. */
void table_note(const struct allocation *allocation, unsigned int which, uint64_t value);

/* Whether the allocation is marked as used by an adapter, or gone. Wait-free. */
bool table_is_used(const struct allocation *allocation);

/* Marks it; true the first time, false later or if it is gone. */
bool table_mark_used(const struct allocation *allocation);

/* A call that sets SYNC_MEMOPS is about to go to the driver: what it says is unknown until table_set_sync. False: the
 * allocation is gone. `token` is of this call. */
bool table_setting_sync(const struct allocation *allocation, uint32_t *token);

/* What came of it. Known from now on if the driver took it, and no other such call was under way at any time of it. */
void table_set_sync(const struct allocation *allocation, uint32_t token, bool taken, bool value);

#endif
