/* SPDX-License-Identifier: BSD-3-Clause */
/* region.h -- regions, their references and their indexes; with registration_mutex held unless
 * noted
 */
#ifndef PEERPIN_REGISTRATION_REGION_H
#define PEERPIN_REGISTRATION_REGION_H

#include "registration/objects.h"

/* A reference of the allocation at `slot` in the domain, and each further one; NULL: none. */
struct region_reference *region_find_reference(const struct domain *domain, uint32_t slot,
					       uint64_t allocation);
struct region_reference *region_next_reference(const struct region_reference *reference);

/* Creates the allocation's reference to the region of a range in the domain. A region created for
 * it is in state REGION_IDLE. region_refer_to(): of a further mapping, to the region of a span.
 * NULL: out of memory. */
struct region_range {
	uint64_t base, length;	/* whole granules */
	uint64_t first, extent; /* the reference's bytes: those of the allocation; of a span none */
	bool whole;
	bool spans; /* over several mappings */
};
struct region_reference *region_refer(const struct allocation *allocation, struct domain *domain,
				      const struct region_range *range);
struct region_reference *region_refer_to(struct region *region, const struct allocation *allocation,
					 const struct region_range *range);

/* The range to register for [address, address + length) of the allocation in the domain; and for
 * the whole allocation. */
struct region_range region_range_of(const struct allocation *allocation,
				    const struct domain *domain, uint64_t address, uint64_t length);
struct region_range region_whole_of(const struct allocation *allocation,
				    const struct domain *domain);

/* The reference of the whole allocation in the domain; NULL: none. region_refer_whole() creates it;
 * NULL: out of memory. */
struct region_reference *region_find_whole(const struct allocation *allocation,
					   const struct domain *domain);
struct region_reference *region_refer_whole(const struct allocation *allocation,
					    struct domain *domain);

/* True if clients have requested parts: the worker leaves the allocation to their requests. */
bool region_is_requested(const struct allocation *allocation, const struct domain *domain);

bool region_is_of(const struct region *region, const struct region_range *range);

/* region_is_queued(): true while the allocation is queued, or the thread that took it from the
 * queue works on it. region_unqueue() ends that, with or without the lock. */
bool region_is_queued(const struct allocation *allocation);
void region_unqueue(const struct allocation *allocation);

/* Marks the allocation as queued. Without the lock. False: out of memory. */
bool region_set_queued(const struct allocation *allocation);

void region_release_user(struct region *region);

/* True if a region of the allocation is not idle. */
bool region_is_in_use_for(const struct allocation *allocation);

/* Takes the region and its references out of every index, and revokes its client MRs. */
void region_leave_indexes(struct region *region);

/* Takes the reference out of every index, and revokes its client MRs. */
void region_remove_reference(struct region_reference *reference);

/* ---- use by clients: client MRs, imports, last use ---- */

/* True if a client MR holds the region; region_has_client_mrs(): one that is no import. */
bool region_is_held(const struct region *region);
bool region_has_client_mrs(const struct region *region);

/* True if a client MR has the region's keys, or will have, and they must be unique. */
bool region_is_taken(const struct region *region);

/* True if neither a client MR holds the region nor a thread. */
bool region_may_end(const struct region *region);

/* True if imports alone hold the region, at most: hits take none from now on. The caller ends it.
 */
bool region_claim(struct region *region);

/* True if several allocations refer to the region. */
bool region_is_shared(const struct region *region);

/* The last use of the region by a client, in evictions (holds.h). */
uint32_t region_used_at(const struct region *region);

/* Takes a hold for a client MR whose allocation is unknown. 0: out of memory. */
uint64_t region_take_import(struct region *region);

#endif
