/* SPDX-License-Identifier: BSD-3-Clause */
/* events.h -- inside the memory layer: from a change of the table to those who want to hear of it */
#ifndef PEERPIN_MEMORY_EVENTS_H
#define PEERPIN_MEMORY_EVENTS_H

#include "memory/memory.h"

void events_allocated(const struct allocation *allocation);

/* Returns when every subscriber has let go. */
void events_freeing(const struct allocation *allocation);

/* Asks the driver what cannot change about the memory at `address`; false if it knows none there. The kind of
 * *allocation is set; so is its size, if it is not to be read, too. */
bool attributes_read(uint64_t address, struct allocation *allocation);

/* Whether the device is part of the processor, and shares its memory. */
bool attributes_integrated(int device);

/* Whether the driver still knows the allocation as the one that was recorded. */
bool attributes_match(const struct allocation *allocation);

/* There is no record of the allocation, for want of memory or since its address is unusual. */
void events_untracked(const struct allocation *allocation, int error);

/* Counts the end of an allocation; -1: takes it back. */
void events_count_free(const struct allocation *ended, int number);

/* The end of an allocation that nobody announced: it is out of the table already. */
void memory_missed_free(const struct allocation *ended);

/* Puts *allocation into the table, ends what overlaps it, and tells of its allocation. False: it is there already. */
bool memory_insert(struct allocation *allocation);

#endif
