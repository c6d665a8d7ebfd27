/* SPDX-License-Identifier: BSD-3-Clause */
/* subscriptions.h -- connects memory's events to the subscribers of peerpin.h */
#ifndef PEERPIN_INTERCEPT_SUBSCRIPTIONS_H
#define PEERPIN_INTERCEPT_SUBSCRIPTIONS_H

#include "memory/memory.h"

/* Costs one load per event while no subscription exists. */
extern const struct memory_subscriber subscriptions_subscriber;

/* In a child that starts anew: no subscription, and the lock is free. */
void subscriptions_renew(void);

#endif
