/* SPDX-License-Identifier: BSD-3-Clause */
/* leases.h -- registrations that hit, and their ends, without registration_lock
 *
 * A thread that asks again for what it was served under the lock has a *grant* of it, and takes a
 * client MR by itself: a *lease*, which no other thread sees in the table of client MRs
 * (client_mr.c) until somebody needs the whole of it.
 *
 * Whoever decides by what is held, or by what was used last, or ends a region, first stops this:
 * then all leases are client MRs in the table, all uses are in the pin limit's order, and no thread
 * takes or gives back anything without registration_lock until it goes on.
 */
#ifndef PEERPIN_REGISTRATION_LEASES_H
#define PEERPIN_REGISTRATION_LEASES_H

#include <stdbool.h>

#include "memory/lookup.h"
#include "registration/internal.h"

/* ---- without the lock; false: nothing has been done, and the way under the lock is to be gone
 * ---- */

/* `found` is the allocation of the request, which lies inside. */
bool leases_hit(const struct registration_request *request, const struct found *found,
		struct registration_keys *keys);
bool leases_drop(const void *key);

/* ---- the lock is held ---- */

/* The request is served from the region of the allocation, which a client has asked for before: the
 * thread may do it by itself from now on. True: it has a lease of it, which replaces an older
 * client MR at the same address. */
bool leases_take(const struct registration_request *request, const struct found *found,
		 struct region *region);

/* The calling thread's own uses come into the pin limit's order, before what follows under the
 * lock; and if it has a lease of the key, that ends. False: it has none. */
bool leases_give(const void *key);

/* From the one to the other, between which the lock is not dropped; they nest. */
void leases_stop(void);
void leases_go(void);

/* Both: what is leased now comes into the table. */
static inline void leases_collect(void)
{
	leases_stop();
	leases_go();
}

/* The reference ends, or all of the region's, which are still there: nobody has a grant of it any
 * more, and what was leased until now is in the table. */
void leases_end_reference(const struct region_reference *reference);
void leases_end(const struct region *region);

/* The key's lease, whoever has it, comes into the table. */
void leases_return(const void *key);

/* ---- in a forked child, without the lock: the parent's are told of, and forgotten ---- */
bool leases_have(const void *key);
bool leases_forget(const void *key); /* false if there is none */

#endif
