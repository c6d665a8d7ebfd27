/* SPDX-License-Identifier: BSD-3-Clause */
/* lock.h -- the lock of the registration layer, and checks of what it guards */
#ifndef PEERPIN_REGISTRATION_LOCK_H
#define PEERPIN_REGISTRATION_LOCK_H

#include "base/atomics.h"
#include "base/process.h"
#include "registration/objects.h"

extern pthread_mutex_t registration_mutex;

/* In functions that require the lock. */
#define registration_assert_held() assert_held(&registration_mutex)

/* An invariant. Where it is broken a build with assertions ends the process; any other counts
 * internal_errors, and the next unlock logs it. With the lock held. */
#define registration_check(invariant) ((invariant) ? (void)0 : registration_failed(#invariant))
void registration_failed(const char *invariant) __attribute__((cold));

void registration_lock(void);
void registration_unlock(void);

/* registration_sleep(): waits, without the lock, for the next registration_wake() of any thread.
 * May return early. No region may be in the caller's list of ended ones (region.h). */
void registration_wake(void);
void registration_sleep(void);

/* registration_renew() of the lock. */
void registration_lock_renew(void);

#endif
