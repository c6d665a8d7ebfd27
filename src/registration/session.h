/* SPDX-License-Identifier: BSD-3-Clause */
/* session.h -- lock sessions: registration_lock, and the regions that end under it
 *
 * A region that ends with registration_lock held is deregistered without it, by the thread that
 * ended it, as the session ends: before the thread does anything else.
 */
#ifndef PEERPIN_REGISTRATION_SESSION_H
#define PEERPIN_REGISTRATION_SESSION_H

#include "registration/session_lock.h"

/* Take the lock; and drop it, and deregister what ended. Sessions do not nest. */
void session_begin(void);
void session_end(void);

/* Ends the session and begins another, if regions have ended. */
void session_flush(void);

/* session_sleep(): waits for the next session_wake() of any thread. session_sleep_after():
 * likewise, until `awake` (system_clock()) without sleeping. Both end the session and begin another
 * meanwhile, and may return early. */
void session_wake(void);
void session_sleep(void);

/* The region has ended and is to be deregistered. With the lock held. */
void session_add_ended(struct region *region);

/* registration_renew() of the lock and the list. */
void session_renew(void);

#endif
