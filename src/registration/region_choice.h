/* SPDX-License-Identifier: BSD-3-Clause */
/* region_choice.h -- which range to register for an allocation, and for a client's request; with
 * registration_mutex held
 */
#ifndef PEERPIN_REGISTRATION_REGION_CHOICE_H
#define PEERPIN_REGISTRATION_REGION_CHOICE_H

#include "registration/region.h"

/* The reference of the whole allocation in the domain; NULL: none. region_refer_whole() creates it;
 * NULL: out of memory. */
struct region_reference *region_find_whole(const struct allocation *allocation,
					   const struct domain *domain);
struct region_reference *region_refer_whole(const struct allocation *allocation,
					    struct domain *domain);

/* The reference that serves a request inside the allocation. `parts_only`: a longer range than the
 * request's did not fit within the pin limit, or failed. Sets *optional if the range is longer.
 * NULL: out of memory, or no region for the request. */
struct region_reference *region_choose(const struct allocation *allocation, struct domain *domain,
				       const struct registration_request *request, bool parts_only,
				       bool *optional);

/* True if the request may be served from such memory, as far as the memory decides: a dma-buf
 * follows the kernel's rules; a request by address needs memory that adapters reach by address. No
 * lock. */
static inline bool region_suits(const struct registration_request *request,
				const struct allocation *allocation)
{
	return request->dma_buf ? memory_is_exportable(allocation)
				: memory_is_registrable(allocation);
}

/* For a request inside the allocation, or of a span inside `limit`, its mappings: a reference with
 * a registered region that contains the request; else with the region of exactly `range`. NULL:
 * none. With unique keys no client MR holds the region. */
struct region_reference *region_find_serving(const struct allocation *allocation,
					     const struct domain *domain,
					     const struct registration_request *request,
					     const struct region_range *range,
					     const struct region_range *limit);

/* A part or span that is not registered after a request ends, if that is its only user. */
void region_drop_failed(struct region *region, const struct region_reference *reference,
			struct region **ending);

/* True if clients have requested parts: the worker leaves the allocation to their requests. */
bool region_is_requested(const struct allocation *allocation, const struct domain *domain);

/* A client requests the allocation in this domain, in which it has a reference. True: for the first
 * time, which is counted. */
bool region_count_request(const struct allocation *allocation, const struct domain *domain);

/* Ends the allocation's parts inside `by` that are its alone, and no client MR holds. */
void region_end_parts(const struct allocation *allocation, struct domain *domain,
		      const struct region *by, struct region **ending);

#endif
