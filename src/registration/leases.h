/* SPDX-License-Identifier: BSD-3-Clause */
/* leases.h -- hits and their deregistrations, without registration_lock
 *
 * A thread that repeats a request which was served under the lock has a *grant* and takes a client
 * MR by itself: a *lease*. Other threads do not find a lease in the table of client MRs
 * (client_mr.c) until all holders are stopped.
 *
 * A thread that decides by client MRs or by the order of use, or ends a region, stops all holders
 * first. Then all leases are client MRs in the table, all uses are in the pin limit's order, and
 * other threads take and drop client MRs only with registration_lock.
 */
#ifndef PEERPIN_REGISTRATION_LEASES_H
#define PEERPIN_REGISTRATION_LEASES_H

#include <stdbool.h>

#include "memory/lookup.h"
#include "registration/internal.h"

/* ---- without the lock; false: nothing was done, continue with the lock ---- */

/* `found`: the allocation that contains the request. */
bool leases_hit(const struct registration_request *request, const struct found *found,
		struct registration_keys *keys);
bool leases_drop(const void *key);

/* ---- the lock is held ---- */

/* The allocation's region serves the request, and has served a client before. The thread gets a
 * grant. True: also a lease, which replaces an older client MR at the same address. */
bool leases_take(const struct registration_request *request, const struct found *found,
		 struct region *region);

/* Enters the calling thread's uses in the pin limit's order. Ends its lease of the key; false: it
 * has none. */
bool leases_give(const void *key);

/* Stop-the-world section. The caller holds the lock throughout; calls nest. */
void leases_stop(void);
void leases_go(void);

/* Moves all leases into the table. */
static inline void leases_collect(void)
{
	leases_stop();
	leases_go();
}

/* Withdraws all grants of a reference, or of all references of the region, and moves all leases
 * into the table. Call before the reference ends. */
void leases_end_reference(const struct region_reference *reference);
void leases_end(const struct region *region);

/* Moves the key's lease, of any thread, into the table. */
void leases_return(const void *key);

/* ---- in a forked child, without the lock: leases of the parent ---- */
bool leases_have(const void *key);
bool leases_forget(const void *key); /* false if there is none */

#endif
