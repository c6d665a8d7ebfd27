/* SPDX-License-Identifier: BSD-3-Clause */
/* room.h -- room for registrations: pinned bytes of each GPU, their limit, and evictions; with
 * registration_mutex held
 */
#ifndef PEERPIN_REGISTRATION_ROOM_H
#define PEERPIN_REGISTRATION_ROOM_H

#include "registration/objects.h"

/* Determines the GPU's pin limit and BAR1, once; drops the lock meanwhile. Call it before the
 * others. */
void room_describe(int device);
uint64_t room_bar1(int device); /* bytes; 0: unknown */

/* True if a region fits within the pin limit and the adapter's region limit. */
bool room_fits(const struct region *region);
bool room_has(const struct adapter *adapter, int device, uint64_t length);

/* Count the region's bytes as pinned, before it is registered; and no longer. */
void room_reserve(struct region *region);
void room_release(struct region *region);

/* Correct the pin limit after a refusal and after a success. room_refused() returns the new pin
 * limit; 0: unchanged. */
uint64_t room_refused(const struct region *region);
void room_granted(const struct region *region);

/* Puts a registered region among those that evictions may end, or takes it out. */
void room_enter(struct region *region);
void room_leave(struct region *region);

/* For a client's request: evicts idle regions, by their last use, until the region fits or is worth
 * a try. False: it cannot fit within PEERPIN_PIN_LIMIT; nothing was evicted. */
bool room_make_for(const struct region *region, struct region **ending);

/* The adapter (NULL: one without a region) refused memory of this GPU (-1: no GPU, or unknown) for
 * lack of space. Evicts at least `bytes`, likely causes first. False: no region was idle. */
bool room_make(const struct adapter *adapter, int device, uint64_t bytes, struct region **ending);

#endif
