/* SPDX-License-Identifier: BSD-3-Clause */
/* subscriptions.h -- from allocations and frees to those who subscribed by peerpin.h */
#ifndef PEERPIN_INTERCEPT_SUBSCRIPTIONS_H
#define PEERPIN_INTERCEPT_SUBSCRIPTIONS_H

#include "memory/memory.h"

/* Hears of allocations and frees; costs one load while nobody has subscribed. */
extern const struct memory_subscriber subscriptions_subscriber;

#endif
