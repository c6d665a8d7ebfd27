/* SPDX-License-Identifier: BSD-3-Clause */
/* pin_limit.h -- pinned bytes of each GPU, their limit, and evictions; with registration_lock held
 */
#ifndef PEERPIN_REGISTRATION_PIN_LIMIT_H
#define PEERPIN_REGISTRATION_PIN_LIMIT_H

#include "registration/objects.h"

/* Determines the GPU's pin limit and BAR1, once; drops the lock meanwhile. */
void pin_limit_describe(int device);
uint64_t pin_limit_bar1(int device); /* bytes; 0: unknown */

bool pin_limit_allows(const struct region *region);

/* True if a region of that length may fit within PEERPIN_PIN_LIMIT or BAR1, after evictions. */
bool pin_limit_may_hold(int device, uint64_t length);

/* True if a region of that length fits within the pin limit and the adapter's region limit. */
bool pin_limit_has_room(const struct adapter *adapter, int device, uint64_t length);

/* For a client's request: evicts idle regions, by their last use, until the region fits or is worth
 * a try. False: it cannot fit within PEERPIN_PIN_LIMIT; nothing was evicted. */
bool pin_limit_evict_for(const struct region *region);

/* The adapter (NULL: one without a region) refused memory of this GPU (-1: no GPU, or unknown) for
 * lack of space. Evicts at least `bytes`, likely causes first; `returns`: for a region that does
 * (eviction.h). False: no region was idle. */
bool pin_limit_evict(const struct adapter *adapter, int device, uint64_t bytes, bool returns);

/* Evicts a region that region_claim() returned true for. */
void pin_limit_evict_region(struct region *region);

/* Correct the pin limit after a refusal and after a success. pin_limit_refused() returns the new
 * pin limit; 0: unchanged. */
uint64_t pin_limit_refused(const struct region *region);
void pin_limit_granted(const struct region *region);

/* Count the region's bytes as pinned, before it is registered; and no longer. */
void pin_limit_add(struct region *region);
void pin_limit_remove(struct region *region);

/* Puts a registered region among those that evictions may end, or takes it out. */
void pin_limit_set_evictable(struct region *region, bool evictable);

#endif
