/* SPDX-License-Identifier: BSD-3-Clause */
/* events.h -- inside the memory layer: attributes from the driver, and events of allocations */
#ifndef PEERPIN_MEMORY_EVENTS_H
#define PEERPIN_MEMORY_EVENTS_H

#include "memory/memory.h"

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
