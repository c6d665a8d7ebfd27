/* SPDX-License-Identifier: BSD-3-Clause */
/* entry.h -- entries of allocations in domains; with registration_mutex held unless noted */
#ifndef PEERPIN_REGISTRATION_ENTRY_H
#define PEERPIN_REGISTRATION_ENTRY_H

#include "registration/objects.h"

struct found;

/* The allocation's entry in the domain; NULL: none. entry_claim() creates a missing one; NULL: out
 * of memory, or a later allocation has the slot. */
struct entry *entry_of(const struct domain *domain, uint32_t slot, uint64_t allocation);
struct entry *entry_claim(struct domain *domain, uint32_t slot, uint64_t allocation);

/* The first reference at the slot in the domain, of any allocation; NULL: none. */
struct region_reference *entry_first(const struct domain *domain, uint32_t slot);

/* A region of the reference has failed. True: the first part or span of its allocation in the
 * domain that did. entry_may_try(): false: the request should be forwarded, because of such
 * failures of the whole, or of parts and spans. */
bool entry_count_failure(const struct domain *domain, const struct region_reference *reference);
bool entry_may_try(const struct domain *domain, const struct allocation *allocation, bool whole);

/* Publish a registered region's keys for hits on its allocations in its domain. */
void entry_publish(const struct region *region, struct region_reference *reference);
void entries_publish(const struct region *region);

/* The hold for [address, address + length) of the found allocation in the domain, and its keys; 0:
 * none, or not for hits. Wait-free. Keys and range are valid once the hold is taken and the
 * allocation was looked at again. */
uint64_t entry_find_hold(const struct domain *domain, const struct found *found, uint64_t address,
			 uint64_t length, struct registration_keys *keys);

/* A domain begins, or has ended. Before entries_end() every region of the domain has withdrawn its
 * keys. */
void entries_begin(struct domain *domain);
void entries_end(struct domain *domain);

/* Withdraws the keys; call before deregistering the region. */
void entry_withdraw(const struct region *region, const struct region_reference *reference);

#endif
