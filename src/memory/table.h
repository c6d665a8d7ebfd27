/* SPDX-License-Identifier: BSD-3-Clause */
/* table.h -- from any address to the allocation that contains it
 *
 * Readers (table_find, table_contains) are wait-free: a bounded number of loads, no lock, no store to shared
 * memory. They are safe because the memory behind them is never given back and never changes its type, and
 * because each record carries a generation that is odd while the record is alive and never comes back: a
 * copy counts only if the generation is the same after copying as before.
 *
 * Writers (all others) are serialised by the table's own lock. Nothing outside is called with it held.
 */
#ifndef PEERPIN_MEMORY_TABLE_H
#define PEERPIN_MEMORY_TABLE_H

#include "memory/memory.h"

bool table_find(uint64_t address, struct allocation *found);
bool table_contains(uint64_t base, uint64_t id);

/* Inserts a copy of *allocation and sets its id. Returns 0; -EEXIST if something living overlaps it;
 * -EINVAL if it is empty, lies beyond 48 bits, or does not begin on a 512-byte boundary; -ENOMEM. */
int table_insert(struct allocation *allocation);

/* Takes out the allocation that begins at `base`, if its id is `id` or `id` is 0, into *taken. */
bool table_take(uint64_t base, uint64_t id, struct allocation *taken);

/* Takes out some allocation that overlaps [base, base + size). */
bool table_take_overlapping(uint64_t base, uint64_t size, struct allocation *taken);

/* Takes out some allocation for which match() says yes; match is called with the lock held. */
bool table_take_matching(bool (*match)(const struct allocation *allocation, void *argument), void *argument,
			 struct allocation *taken);

/* Takes the allocation out and puts it in again, under another id, accessible or not. False: it is gone. */
bool table_set_access(uint64_t base, uint64_t id, bool accessible, struct allocation *before,
		      struct allocation *after);

/* In the order of birth; visit is called with the lock held. */
void table_visit(void (*visit)(const struct allocation *allocation, void *argument), void *argument);

/* Marks the allocation as used by an adapter; true the first time, false later or if it is gone. */
bool table_mark_used(uint64_t base, uint64_t id);

#endif
