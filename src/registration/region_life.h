/* SPDX-License-Identifier: BSD-3-Clause */
/* region_life.h -- registration of a region; with registration_mutex held unless noted */
#ifndef PEERPIN_REGISTRATION_REGION_LIFE_H
#define PEERPIN_REGISTRATION_REGION_LIFE_H

#include "registration/objects.h"

/* Registers a region in state REGION_REGISTERING for a client that waits; drops the lock meanwhile.
 * The caller is counted in region->users, because the region may end before this returns. If there
 * is no space, evicts other regions and retries; if `optional`, neither that nor a warning, because
 * the caller has a smaller range. Returns the duration in ns.
 * region_register_prepared(): the worker's, from REGION_IDLE, without evictions. Exports a dma-buf
 * first: a client that requests the region meanwhile registers it. Returns 0 then, and if it has
 * ended. */
uint64_t region_register(struct region *region, const struct registration_request *client,
			 bool optional, struct region **ending);
uint64_t region_register_prepared(struct region *region, struct region **ending);

/* region_set_used(): no longer speculative, because a client requests the region, or may use it
 * unobserved. region_set_background_time(): the duration of its background registration. */
void region_set_used(struct region *region);
void region_set_background_time(struct region *region, uint64_t nanoseconds);

/* Waits for a registration; drops the lock meanwhile. */
void region_await_settled(struct region *region, struct region **ending);

#endif
