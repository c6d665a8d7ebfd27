/* SPDX-License-Identifier: BSD-3-Clause */
/* public.h -- connects memory's events to the subscribers of peerpin.h */
#ifndef PEERPIN_INTERCEPT_PUBLIC_H
#define PEERPIN_INTERCEPT_PUBLIC_H

#include "memory/memory.h"

/* The program's allocation has begun, or is about to end. Costs one load while no subscription
 * exists. */
void subscriptions_allocated(const struct allocation *allocation);
void subscriptions_freeing(const struct allocation *allocation);

/* In a child that starts anew: no subscription, and the lock is free. */
void subscriptions_renew(void);

#endif
