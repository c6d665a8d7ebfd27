/* SPDX-License-Identifier: BSD-3-Clause */
/* table.h -- live allocations: look-up by any interior address, and walks
 *
 * memory_find, memory_is_live and table_is_used are wait-free (lookup.h). All
 * other functions take table_lock, and call only the index and the arenas while holding the lock.
 */
#ifndef PEERPIN_MEMORY_TABLE_H
#define PEERPIN_MEMORY_TABLE_H

#include <pthread.h>

#include "memory/memory.h"

/* Guards every store to records, sides and index, and the last id. Last in the lock order. Declared
 * for checks that the caller does not hold it. */
extern pthread_mutex_t table_lock __attribute__((visibility("hidden")));

/* Insert a copy of *allocation and set its id and slot. Returns 0; -EEXIST if a live allocation
 * overlaps; -EINVAL if the range is empty or beyond 48 bits; -ENOMEM. */
int table_insert(struct allocation *allocation);

/* Remove the allocation that begins at `base`, if its id is `id` or `id` is 0, and copy it to
 * *taken. */
bool table_take(uint64_t base, uint64_t id, struct allocation *taken);

/* Remove one allocation that overlaps [base, base + size), and copy it to *taken. */
bool table_take_overlapping(uint64_t base, uint64_t size, struct allocation *taken);

/* True if any allocation overlaps [base, base + size). */
bool table_overlaps(uint64_t base, uint64_t size);

/* True if an allocation with an id of at most `youngest` overlaps [base, base + size). Also if so
 * many younger ones overlap it that the search stops. */
bool table_holds_older(uint64_t base, uint64_t size, uint64_t youngest);

/* Remove the allocation and insert it again under a new id, accessible or not. Returns 0; -ENOENT
 * if it has ended; -ENOMEM if the insertion failed: the allocation stays removed and *after is
 * invalid. */
int table_set_access(uint64_t base, uint64_t id, bool accessible, struct allocation *before,
		     struct allocation *after);

/* Hide the allocation from queries and requests: the program has freed it, and peerpin keeps it.
 * Stores its event_id in *allocation. False: it has ended, or is hidden already. */
bool table_hide(struct allocation *allocation);

/* Show it again, with a new event_id, which is stored in *allocation. False: it has ended. */
bool table_show(struct allocation *allocation);

/* True if `address` lies in a hidden allocation. Wait-free. */
bool table_is_address_hidden(uint64_t address);

/* True if [base, base + size) has bytes of hidden allocations, and none of others. */
bool table_is_range_hidden(uint64_t base, uint64_t size);

/* Set keep_key of the allocation that begins at `base`; not of VMM memory. */
void table_set_keep_key(uint64_t base, uint64_t key);

/* True if an adapter uses the allocation, or if the allocation has ended. Wait-free. */
bool table_is_used(const struct allocation *allocation);

/* Mark the allocation as used by an adapter. True the first time; false later, or if the allocation
 * has ended. */
bool table_mark_used(const struct allocation *allocation);

/* memory_renew() of the table, and of the exports. */
void table_renew(void);
void exports_renew(void);

#endif
