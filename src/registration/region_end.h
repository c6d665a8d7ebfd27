/* SPDX-License-Identifier: BSD-3-Clause */
/* region_end.h -- end and deregistration of a region; with registration_mutex held unless noted */
#ifndef PEERPIN_REGISTRATION_REGION_END_H
#define PEERPIN_REGISTRATION_REGION_END_H

#include "registration/objects.h"

/* `ending`: the caller's list of ended regions, NULL at first. The caller deregisters them as soon
 * as it has dropped the lock, before it does anything else: nothing may wait for another thread
 * before. Each function of the layer that may end a region has such a list from its caller. */

/* Takes the region out of every index, revokes its client MRs, and adds it to the list; one that is
 * in flight the thread that registers it deregisters. */
void region_end(struct region *region, struct region **ending);

/* The flight of an ended region is over. */
void region_retire(struct region *region, struct region **ending);

/* Ends the references of an allocation, and the regions left without any. *since, if 0, becomes the
 * time when the first registered or registering region began to end. */
void region_end_references(const struct allocation *allocation, struct region **ending,
			   uint64_t *since);

/* Ends the allocation's parts inside `by` that are its alone, and no client MR holds. */
void region_end_parts(const struct allocation *allocation, struct domain *domain,
		      const struct region *by, struct region **ending);

/* Deregister the regions on the list. region_unpin_all(): without the lock. region_flush(): drops
 * the lock meanwhile, if there are any. */
void region_unpin_all(struct region **ending);
void region_flush(struct region **ending);

/* Two ends may meet: memory is freed while its protection domain is closed. Only one thread finds
 * the region; the other must not continue before it is deregistered. These functions wait for
 * regions that other threads ended; a caller deregisters its own first. *since, if 0, becomes the
 * time when a wait began. */
void region_await_range(uint64_t base, uint64_t size, struct region **ending, uint64_t *since);
void region_await_owner(const struct protection_domain *owner, struct region **ending);

#endif
