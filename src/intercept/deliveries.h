/* SPDX-License-Identifier: BSD-3-Clause */
/* deliveries.h -- for each allocation, who has still to be told of its allocation, who is being told, and who has been
 *
 * Of those who subscribed (subscriptions.c), whose lock is held all the time: nothing here has one of its own. A note may go
 * whenever that lock is dropped, so it is found again by its allocation's id.
 */
#ifndef PEERPIN_INTERCEPT_NOTES_H
#define PEERPIN_INTERCEPT_NOTES_H

#include <stdint.h>

#include "memory/memory.h"
#include "peerpin.h"

#define SLOTS PEERPIN_SUBSCRIBERS_MAX

/* Sets of slots, one bit for each. */
struct delivery {
	struct delivery *next_free;
	struct delivery *next; /* at the same slot */
	struct peerpin_allocation allocation;
	uint8_t owed;	 /* to be told of the allocation */
	uint8_t telling; /* being told of it */
	uint8_t told;	 /* to be told of the free */
};

/* Of the allocation at `slot`; NULL: there is none. */
struct delivery *delivery_find(uint32_t slot, uint64_t id);

/* The first at *place or behind it whose allocation is owed to the index; *place is where it is. NULL: there is none. */
struct delivery *delivery_find_owed(uint32_t *slot, unsigned int index);

/* The allocation is owed to the slots `to`. Returns those of them to whom it was not before, nor has been told. */
uint8_t delivery_owe(const struct allocation *allocation, uint8_t to);

/* It has been told of wherever it had to be. */
void delivery_forget(uint32_t slot, uint64_t id);

/* The index has nothing to do with any of them any more. */
void deliveries_release(unsigned int index);

#endif
