/* SPDX-License-Identifier: BSD-3-Clause */
/* public.h -- connects memory's events to the subscribers of peerpin.h */
#ifndef PEERPIN_INTERCEPT_PUBLIC_H
#define PEERPIN_INTERCEPT_PUBLIC_H

#include "base/atomics.h"
#include "memory/memory.h"

extern _Atomic unsigned int subscriptions_number;

void subscriptions_report_allocated(const struct allocation *allocation);
void subscriptions_report_freeing(const struct allocation *allocation);

/* The program's allocation has begun, or is about to end. Costs one load while no subscription
 * exists. */
static inline void subscriptions_allocated(const struct allocation *allocation)
{
	if (__builtin_expect(load_relaxed(&subscriptions_number), 0))
		subscriptions_report_allocated(allocation);
}

static inline void subscriptions_freeing(const struct allocation *allocation)
{
	if (__builtin_expect(load_relaxed(&subscriptions_number), 0))
		subscriptions_report_freeing(allocation);
}

/* In a child that starts anew: no subscription, and the lock is free. */
void subscriptions_renew(void);

#endif
