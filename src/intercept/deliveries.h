/* SPDX-License-Identifier: BSD-3-Clause */
/* deliveries.h -- for each allocation, its state of delivery to each subscriber
 *
 * The caller of each function holds subscription_lock (subscriptions.c); there is no other lock
 * here. A delivery may be released whenever that lock is: find it again by its allocation's id.
 */
#ifndef PEERPIN_INTERCEPT_DELIVERIES_H
#define PEERPIN_INTERCEPT_DELIVERIES_H

#include <stdint.h>

#include "memory/memory.h"
#include "peerpin.h"

#define SLOTS PEERPIN_SUBSCRIBERS_MAX

/* State of one allocation. The sets have one bit for each subscriber index and are disjoint. */
struct delivery {
	struct delivery *next_free;
	struct delivery *next; /* at this allocation's slot */
	struct peerpin_allocation allocation;
	uint8_t pending;    /* `allocated` not called yet */
	uint8_t delivering; /* `allocated` running */
	uint8_t delivered;  /* `allocated` returned; `freeing` not called yet */
};

/* Delivery of allocation `id` at `slot`, or NULL. */
struct delivery *delivery_find(uint32_t slot, uint64_t id);

/* First delivery at *slot or a later slot that is pending for the index, or NULL. Sets *slot to its
 * slot. */
struct delivery *delivery_find_owed(uint32_t *slot, unsigned int index);

/* Mark the allocation as pending for `receivers`. Returns those for whom it is newly pending; on
 * lack of memory none, and the counter `undelivered` is incremented. */
uint8_t delivery_owe(const struct allocation *allocation, uint8_t receivers);

/* Release the delivery, if any. */
void delivery_forget(uint32_t slot, uint64_t id);

/* Remove the index from all deliveries. */
void deliveries_release(unsigned int index);

#endif
