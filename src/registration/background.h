/* SPDX-License-Identifier: BSD-3-Clause */
/* background.h -- background registration: the queue of allocations, and its worker */
#ifndef PEERPIN_REGISTRATION_BACKGROUND_H
#define PEERPIN_REGISTRATION_BACKGROUND_H

#include "registration/objects.h"

/* ---- background.c; the lock is the layer's, and needed only where a comment says so ---- */

/* For a new allocation: queues it for the worker, or in eager mode registers it in all domains.
 * Without the lock. */
void background_allocated(const struct allocation *allocation);

/* Requests a rescan of all live allocations for one domain, with the lock held (NULL: none), or for
 * all domains, with or without the lock. True: call worker_wake(). */
bool background_queue_domain(struct domain *domain);
bool background_queue_all(void);

/* For the worker: works on one queued allocation, or one batch of the rescan; with the lock held,
 * dropped meanwhile. False: no work. */
bool background_step(struct region **ending);

/* True if a step may find work. */
bool background_has_more(void);

/* ---- worker.c ---- */

/* Starts the worker if there is none, or wakes it. Without any lock. */
void worker_wake(void);

#endif
