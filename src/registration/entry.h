/* SPDX-License-Identifier: BSD-3-Clause */
/* entry.h -- entries of allocations in domains; with registration_mutex held unless noted */
#ifndef PEERPIN_REGISTRATION_ENTRY_H
#define PEERPIN_REGISTRATION_ENTRY_H

#include "registration/region.h"

struct found;

/* The allocation's entry in the domain; NULL: none. entry_claim() creates a missing one, and ends
 * the regions of a freed allocation that had the slot; NULL: out of memory, or a later allocation
 * has the slot. */
struct entry *entry_of(const struct domain *domain, const struct allocation *allocation);
struct entry *entry_claim(struct domain *domain, const struct allocation *allocation,
			  struct region **ending);

/* The regions that an entry (NULL: none) names, one after the other; NULL: no more. The last one
 * may end meanwhile. */
struct entry_walk {
	const struct entry *entry;
	struct region *own;
	unsigned int place;
};
struct entry_walk entry_walk(const struct domain *domain, const struct entry *entry);
struct region *entry_next(struct entry_walk *walk);

/* The region that serves the whole allocation; NULL: none. */
struct region *entry_whole(const struct domain *domain, const struct entry *entry,
			   const struct region_range *whole);

/* True if the entry can name one more such region: a place is free, or its region idle.
 * entry_name() names it, and ends the least recently used of the idle ones where it needs a place.
 */
bool entry_has_place(const struct domain *domain, const struct entry *entry,
		     const struct region_range *range);
bool entry_name(struct domain *domain, struct entry *entry, struct region *region,
		const struct region_range *range, struct region **ending);

/* Publishes the hold of a region that the entry names, for hits. */
void entry_publish(struct entry *entry, struct region *region);

/* A registration for the allocation has failed. True: the first of a part or span. entry_may_try():
 * false: the request should be forwarded, because of such failures of the whole, or of parts and
 * spans. */
bool entry_count_failure(struct entry *entry, bool whole);
bool entry_may_try(struct entry *entry, bool whole);

/* The allocation is freed: its entries name no region any more, and those that no entry names end,
 * as do spans that need it.
 * False: there was none. *since, if 0, becomes the time when the first region began to end.
 * entry_is_in_use(): a client MR holds one of them. */
bool entry_end_all(const struct allocation *allocation, struct region **ending, uint64_t *since);
bool entry_is_in_use(const struct allocation *allocation);

/* Ends the allocation's parts inside `by` that are its alone, and no client MR holds. */
void entry_end_parts(const struct domain *domain, const struct entry *entry,
		     const struct region *by, struct region **ending);

/* The hold for [address, address + length) of the found allocation in the domain, and its keys; 0:
 * none, or not for hits. The caller has checked that the allocation has these bytes. Wait-free.
 * Keys and range are valid once the hold is taken and the allocation was looked at again. */
uint64_t entry_find_hold(const struct domain *domain, const struct found *found, uint64_t address,
			 uint64_t length, struct registration_keys *keys);

#endif
