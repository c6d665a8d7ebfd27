/* SPDX-License-Identifier: BSD-3-Clause */
/* region_use.h -- use of regions by clients; with registration_mutex held */
#ifndef PEERPIN_REGISTRATION_REGION_USE_H
#define PEERPIN_REGISTRATION_REGION_USE_H

#include "registration/objects.h"

/* True if a client MR holds the region; region_has_client_mrs(): one that is no import. */
bool region_is_held(const struct region *region);
bool region_has_client_mrs(const struct region *region);

/* True if a client MR has the region's keys, or will have, and they must be unique. */
bool region_is_taken(const struct region *region);

/* True if no client MR holds the region; and, with region_may_end(), no
 * thread: an end keeps the lock. */
bool region_is_idle(const struct region *region);
bool region_may_end(const struct region *region);

/* True if imports alone hold the region, at most: hits take none from now on. The caller ends it.
 */
bool region_claim(struct region *region);

/* True if several allocations refer to the region. */
bool region_is_shared(const struct region *region);

/* The last use of the region by a client, in evictions (holds.h). */
uint32_t region_used_at(const struct region *region);

/* Takes a hold for a client MR whose allocation is unknown. 0: out of memory. */
uint64_t region_take_import(struct region *region);

#endif
