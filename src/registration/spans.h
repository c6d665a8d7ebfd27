/* SPDX-License-Identifier: BSD-3-Clause */
/* spans.h -- requests for several adjacent mappings of VMM memory */
#ifndef PEERPIN_REGISTRATION_SPANS_H
#define PEERPIN_REGISTRATION_SPANS_H

#include "registration/objects.h"

/* ---- mappings of a request; without any lock ---- */

/* True if the request ends in the allocation, which holds or follows the request's first byte. */
bool span_ends_in(const struct registration_request *request, const struct allocation *piece);

/* Steps from `piece` to the next mapping that the request needs. False: one region cannot serve
 * both; `piece` is unchanged. */
bool span_next(const struct registration_request *request, struct allocation *piece);

/* ---- regions; with the lock held ---- */

/* The reference of `first`, the request's first mapping, to the region that serves the request.
 * NULL: out of memory, no region for the request,
 * or (*gone) a mapping has ended, and may be back already. */
struct region_reference *span_choose(const struct allocation *first, struct domain *domain,
				     const struct registration_request *request,
				     struct region **ending, bool *gone);

/* True while each mapping of the span is live, and not younger than the request's dma-buf:
 * `youngest` (registration.h). Counts as a use. */
bool span_is_live(const struct region *region, uint64_t youngest);

#endif
