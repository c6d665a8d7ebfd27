/* SPDX-License-Identifier: BSD-3-Clause */
/* room.h -- room for a registration: idle regions are evicted; with registration_mutex held */
#ifndef PEERPIN_REGISTRATION_ROOM_H
#define PEERPIN_REGISTRATION_ROOM_H

#include "registration/objects.h"

/* Determines the GPU's pin limit and BAR1, once; drops the lock meanwhile. */
void room_describe(int device);

/* For a client's request: evicts idle regions, by their last use, until the region fits or is worth
 * a try. False: it cannot fit within PEERPIN_PIN_LIMIT; nothing was evicted. */
bool room_make_for(const struct region *region, struct region **ending);

/* The adapter (NULL: one without a region) refused memory of this GPU (-1: no GPU, or unknown) for
 * lack of space. Evicts at least `bytes`, likely causes first. False: no region was idle. */
bool room_make(const struct adapter *adapter, int device, uint64_t bytes, struct region **ending);

#endif
