/* SPDX-License-Identifier: BSD-3-Clause */
/* region_end.h -- end and deregistration of a region; with registration_lock held unless noted */
#ifndef PEERPIN_REGISTRATION_REGION_END_H
#define PEERPIN_REGISTRATION_REGION_END_H

#include "registration/objects.h"

/* Takes the region out of every index, and revokes its client MRs. The end of the session
 * deregisters it, or the thread that registers it. */
void region_end(struct region *region);

/* The flight of an ended region is over. */
void region_retire(struct region *region);

/* Ends the references of an allocation, and the regions left without any. False: the allocation had
 * none. *since, if 0, becomes the time when the first registered or registering region began to
 * end. */
bool region_end_references(const struct allocation *allocation, uint64_t *since);

/* Deregisters the regions on the list. Without the lock. */
void region_unpin_all(struct region *ending);

/* Two ends may meet: memory is freed while its protection domain is closed. Only one thread finds
 * the region; the other must not continue before it is deregistered. These functions wait for
 * regions that other threads ended; a caller deregisters its own first. *since, if 0, becomes the
 * time when a wait began. */
void region_await_range(uint64_t base, uint64_t size, uint64_t *since);
void region_await_owner(const struct protection_domain *owner);

#endif
