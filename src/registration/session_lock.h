/* SPDX-License-Identifier: BSD-3-Clause */
/* session_lock.h -- checks of registration_lock, and of what it guards */
#ifndef PEERPIN_REGISTRATION_SESSION_LOCK_H
#define PEERPIN_REGISTRATION_SESSION_LOCK_H

#include "registration/objects.h"

/* In functions that require the lock. */
#define session_assert() assert_held(&registration_lock)

/* An invariant. Where it is broken a build with assertions ends the process; any other counts
 * internal_errors, and logs it as the session ends. With the lock held. */
#define session_check(invariant) ((invariant) ? (void)0 : session_failed(#invariant))
void session_failed(const char *invariant) __attribute__((cold));

/* The invariant that failed last, once; NULL: none. With the lock held. */
const char *session_take_failed(void);

#endif
