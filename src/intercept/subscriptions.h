/* SPDX-License-Identifier: BSD-3-Clause */
/* subscriptions.h -- from births and deaths to those who subscribed by peerpin.h */
#ifndef PEERPIN_INTERCEPT_SUBSCRIPTIONS_H
#define PEERPIN_INTERCEPT_SUBSCRIPTIONS_H

#include "memory/memory.h"

/* Hears of births and deaths; costs one load while nobody has subscribed. */
extern const struct memory_subscriber subscriptions_subscriber;

#endif
