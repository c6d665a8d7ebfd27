/* SPDX-License-Identifier: BSD-3-Clause */
/* eviction.h -- the order in which idle regions of a GPU end to make room
 *
 * Another order is another eviction.c. With registration_mutex held.
 */
#ifndef PEERPIN_REGISTRATION_EVICTION_H
#define PEERPIN_REGISTRATION_EVICTION_H

#include "registration/objects.h"

/* Registered regions of a GPU. */
TAILQ_HEAD(eviction_list, region);
struct eviction_order {
	struct eviction_list regions; /* about by last use */
	struct eviction_list held;    /* those that were not idle when last looked at */
	unsigned int count;	      /* of both */
};

void eviction_begin(struct eviction_order *order);
void eviction_add(struct eviction_order *order, struct region *region);
void eviction_remove(struct eviction_order *order, struct region *region);

/* A request needs room: looks at some regions that were not idle. Call it before those below. */
void eviction_take_back(struct eviction_order *order);

/* True if idle regions have so many bytes. */
bool eviction_has_idle(struct eviction_order *order, uint64_t bytes);

/* The next region to evict on the adapter (NULL: any), out of reach of hits from now on; NULL: none
 * is idle. */
struct region *eviction_claim(struct eviction_order *order, const struct adapter *adapter);

#endif
