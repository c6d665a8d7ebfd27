/* SPDX-License-Identifier: BSD-3-Clause */
/* table.h -- inside the memory layer: live allocations, their index, events and attributes
 *
 * memory_find, memory_is_live and table_is_used are wait-free (lookup.h). All
 * other functions take table_lock, and call only the index and the arenas while holding the lock.
 */
#ifndef PEERPIN_MEMORY_TABLE_H
#define PEERPIN_MEMORY_TABLE_H

#include <pthread.h>

#include "memory/lookup.h"

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

/* True if [base, base + size) has bytes of allocations that are not hidden. False: *hides is true if
 * it has bytes of hidden ones. */
bool table_shows(uint64_t base, uint64_t size, bool *hides);

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

/* ---- index from addresses to records (index.c) ----
 *
 * Functions of the writers, with table_lock held. Readers (lookup.h) rely on one guarantee: a
 * linked range leads to its record until index_unlink(), whatever a writer links or unlinks beside
 * it.
 */

struct range {
	uint64_t base, last; /* first and last byte */
};

/* Allocate all nodes that index_link() may need for the range, so that it cannot fail. Returns 0 or
 * -ENOMEM. */
int index_prepare(struct range range);

/* Link the range to the record `slot`, which has base and size already. No linked range
 * overlaps. */
void index_link(struct range range, uint32_t slot);
void index_unlink(struct range range, uint32_t slot);

/* One linked record that overlaps the range; 0: none. */
uint32_t index_overlapping(struct range range);

/* Number of nodes made, in use or not. */
uint32_t index_nodes_made(void);

/* ---- events and attributes; without table_lock ---- */

/* Log and trace the event, and call memory_hook. */
void events_emit(enum memory_event event, const struct allocation *allocation);

/* FREEING or RELEASING, by whether the record is hidden. */
static inline void events_ending(const struct allocation *allocation)
{
	events_emit(allocation->hidden ? MEMORY_RELEASING : MEMORY_FREEING, allocation);
}

/* Count an allocation of `size` bytes of the program. */
void events_count_allocation(enum allocation_kind kind, uint64_t size);

/* Read the constant attributes of the memory at `address`; false if the driver reports no memory
 * there. The caller sets the kind of *allocation, and its size, or 0: then the size is read,
 * too. */
bool attributes_read(uint64_t address, struct allocation *allocation);

/* True if the device is an integrated GPU, which shares the memory of the processor. */
bool attributes_integrated(int device);

/* True if the BUFFER_ID from the driver still is the recorded one. */
bool attributes_match(const struct allocation *allocation);

/* Count and log an allocation without a record, for lack of memory or because of an unusual
 * address. */
void events_untracked(const struct allocation *allocation, int error);

/* Count a free (1), or take a counted one back (-1). */
void events_count_free(const struct allocation *ended, int number);

/* Count and report a missed free, and emit its end. Requires a record that is out of the table
 * already. */
void memory_missed_free(const struct allocation *ended);

/* Insert *allocation, end the records that it overlaps, and emit MEMORY_ALLOCATED. False: it is
 * recorded already. */
bool memory_insert(struct allocation *allocation);

#endif
