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
 * it is in state REGION_IDLE. NULL: out of memory. */
struct region_range {
	uint64_t base, length;	/* whole granules */
	uint64_t first, extent; /* the reference's bytes: those of the allocation; of a span none */
	bool whole;
	bool spans; /* over several mappings */
};
struct region_reference *region_refer(const struct allocation *allocation, struct domain *domain,
				      const struct region_range *range);
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

#endif
