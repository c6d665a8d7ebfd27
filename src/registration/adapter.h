/* SPDX-License-Identifier: BSD-3-Clause */
/* adapter.h -- open devices, and which the settings select; with registration_mutex held unless
 * noted
 */
#ifndef PEERPIN_REGISTRATION_ADAPTER_H
#define PEERPIN_REGISTRATION_ADAPTER_H

#include "registration/objects.h"

extern struct adapter *adapters;

/* adapter_find(): NULL if unknown. adapter_of() creates a missing adapter;
 * NULL: out of memory. */
struct adapter *adapter_find(const struct ibv_context *context);
struct adapter *adapter_of(struct ibv_context *context);
void adapter_forget(struct adapter *adapter); /* no thread uses it: adapter_await() */

/* registration_renew() of the adapters. */
void adapters_renew(void);

/* Queries missing data of the adapter, and of its distance to that GPU if needed. Drops the lock
 * meanwhile; returns true if dropped. adapters_describe(): of all. */
bool adapter_describe(struct adapter *adapter, int device);
void adapters_describe(int device);

/* True if both are one adapter; regions of this process on it, in all
 * contexts. */
bool adapter_is_same(const struct adapter *one, const struct adapter *other);
uint64_t adapter_regions(const struct adapter *adapter);

/* Waits until no thread queries the adapter without the lock. */
void adapter_await(const struct adapter *adapter);

/* True if the settings select memory of that GPU for background registration in the domain, as
 * far as described. */
bool adapter_selects(const struct domain *domain, int device);

/* True if background registration needs adapter_describe() first. */
bool adapter_needs_description(void);

#endif
