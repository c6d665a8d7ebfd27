/* SPDX-License-Identifier: BSD-3-Clause */
/* background.h -- background registration: the queue of allocations, and its worker */
#ifndef PEERPIN_REGISTRATION_BACKGROUND_H
#define PEERPIN_REGISTRATION_BACKGROUND_H

#include "registration/objects.h"

/* The lock is the layer's, and needed only where a comment says so. */

/* background_is_queued(): true while the allocation is queued, or the thread that took it from the
 * queue works on it. background_unqueue() ends that, with or without the lock.
 * background_set_queued(): without the lock; false: out of memory. */
bool background_is_queued(const struct allocation *allocation);
void background_unqueue(const struct allocation *allocation);
bool background_set_queued(const struct allocation *allocation);

/* Requests a rescan of all live allocations for one domain, with the lock held (NULL: none), or for
 * all domains, with or without the lock. True: call worker_wake(). */
bool background_queue_domain(struct domain *domain);
bool background_queue_all(void);

/* True if the worker may find work. */
bool background_has_more(void);

/* Starts the worker if there is none, or wakes it. Without any lock. */
void worker_wake(void);

/* ---- requests.c ---- */

/* Registers the whole allocation in the domain, unless it is registered, has failed, or clients
 * request parts of it; with the lock held, dropped meanwhile. Sets the duration in ns; 0: not
 * tried. NULL: not registered. */
struct region *requests_register_whole(struct domain *domain, const struct allocation *allocation,
				       uint64_t *duration, struct region **ending);

#endif
