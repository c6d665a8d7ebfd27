/* SPDX-License-Identifier: BSD-3-Clause */
/* cost.h -- times of registrations; with registration_lock held */
#ifndef PEERPIN_REGISTRATION_COST_H
#define PEERPIN_REGISTRATION_COST_H

#include "registration/objects.h"

/* A registration of so many bytes took so long. */
void cost_add(struct adapter *adapter, uint64_t bytes, uint64_t nanoseconds);

/* Nanoseconds of a quick registration of so many bytes; at most 1 ms, also if none is known. */
uint64_t cost_usual(const struct adapter *adapter, uint64_t bytes);

#endif
