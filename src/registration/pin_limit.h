/* SPDX-License-Identifier: BSD-3-Clause */
/* pin_limit.h -- pinned bytes of each GPU, and their limit; with registration_mutex held */
#ifndef PEERPIN_REGISTRATION_PIN_LIMIT_H
#define PEERPIN_REGISTRATION_PIN_LIMIT_H

#include "registration/objects.h"

struct eviction_order;

/* The GPU's entry; ordinals out of range share the last one. */
static inline int pin_limit_entry(int device)
{
	return device >= 0 && device < DEVICES_MAX ? device : DEVICES_MAX - 1;
}

/* Sets the GPU's pin limit, once, and BAR1 (bytes; 0: unknown). */
bool pin_limit_is_described(int device);
void pin_limit_describe(int device, uint64_t bar1);
uint64_t pin_limit_bar1(int device); /* bytes; 0: unknown */

bool pin_limit_allows(const struct region *region);

/* True if a region of that length fits within the pin limit and the adapter's region limit. */
bool pin_limit_has_room(const struct adapter *adapter, int device, uint64_t length);

/* True if the adapter's region limit has room for one. */
bool pin_limit_adapter_allows(const struct adapter *adapter);

/* Bytes to evict before `length` fits; UINT64_MAX: it never fits. */
uint64_t pin_limit_excess(int device, uint64_t length);

/* The GPU's regions in their order of evictions. */
struct eviction_order *pin_limit_order(int device);

/* Correct the pin limit after a refusal and after a success. pin_limit_refused() returns the new
 * pin limit; 0: unchanged. */
uint64_t pin_limit_refused(const struct region *region);
void pin_limit_granted(const struct region *region);

/* Count the region's bytes as pinned, before it is registered; and no longer. */
void pin_limit_add(struct region *region);
void pin_limit_remove(struct region *region);

/* Puts a registered region among those that evictions may end, or takes it out. */
void pin_limit_set_evictable(struct region *region, bool evictable);

#endif
