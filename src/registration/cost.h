/* SPDX-License-Identifier: BSD-3-Clause */
/* cost.h -- times of registrations; with registration_lock held */
#ifndef PEERPIN_REGISTRATION_COST_H
#define PEERPIN_REGISTRATION_COST_H

#include "registration/objects.h"

/* A registration of so many bytes took so long. */
void cost_add(struct adapter *adapter, uint64_t bytes, uint64_t nanoseconds);

/* Nanoseconds of a quick registration of so many bytes; at most 1 ms, also if none is known. */
uint64_t cost_usual(const struct adapter *adapter, uint64_t bytes);

/* A registration of that GPU's memory for a client's request by address took so long. */
void cost_add_request(struct adapter *adapter, int device, uint64_t bytes, uint64_t nanoseconds);

/* True if registrations of `more` bytes for requests by address lately took as long as the quickest
 * one of `bytes`. One in 8 calls that find so returns false. */
bool cost_is_equal(struct adapter *adapter, int device, uint64_t bytes, uint64_t more);

/* Forgets those times of `bytes`. */
void cost_forget(struct adapter *adapter, uint64_t bytes);

#endif
