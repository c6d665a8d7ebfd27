/* SPDX-License-Identifier: BSD-3-Clause */
/* spans.c -- regions over several adjacent mappings of VMM memory
 *
 * A request may need several mappings: PyTorch's expandable segments map pieces of 2 and 20 MiB.
 * One region serves the request, a span, of a range inside these mappings. The driver exports such
 * a range as one dma-buf (measured).
 *
 * The span has a reference from each of its mappings, and ends with the first of them. So a span
 * serves only requests that need all its mappings: the unmap of another one would revoke their
 * client MRs. A request for more mappings registers another span; the shorter one stays idle.
 *
 * No client MR outlives a mapping. References are created with registration_mutex held, each for a
 * mapping whose record is live then. The end of the mapping (cuMemUnmap, a loss of access) first
 * ends the record, then takes the lock, finds the reference, ends the holds of all references of
 * the span, and returns when the region is deregistered. Hits of spans take the hold with the lock
 * held, before or after that. The wait-free hit sees no span: its references have no bytes and
 * publish no hold.
 */
#include "registration/spans.h"

#include "base/atomics.h"
#include "registration/holds.h"
#include "registration/keys.h"
#include "registration/policy.h"
#include "registration/region.h"
#include "registration/region_choice.h"
#include "registration/region_end.h"
#include "registration/lock.h"

static uint64_t span_piece_end(const struct allocation *piece)
{
	return piece->base + memory_extent(piece);
}

bool span_ends_in(const struct registration_request *request, const struct allocation *piece)
{
	return request->length <= span_piece_end(piece) - request->address;
}

bool span_next(const struct registration_request *request, struct allocation *piece)
{
	uint64_t address = span_piece_end(piece);
	struct allocation next;

	if (!memory_find(address, &next) || next.base != address ||
	    next.kind != ALLOCATION_MAPPED || next.device != piece->device ||
	    !region_suits(request, &next) || (request->youngest && request->youngest < next.id))
		return false;
	*piece = next;
	return true;
}

/* The requested granules inside the mappings, as for parts of an allocation. */
static struct region_range span_range(const struct registration_request *request,
				      const struct region_range *mappings)
{
	uint64_t last = (request->address + request->length - 1) | (GRANULE - 1);
	uint64_t end = mappings->base + mappings->length;
	struct region_range part = *mappings;

	part.base = request->address & ~(GRANULE - 1);
	if (part.base < mappings->base)
		part.base = mappings->base;
	part.length = (last < end ? last + 1 : end) - part.base;
	return part;
}

/* References from all mappings of the request, or from none. */
static struct region_reference *span_create(const struct allocation *first, struct domain *domain,
					    const struct registration_request *request,
					    const struct region_range *range,
					    struct region **ending, bool *gone)
{
	struct region_reference *reference, *of_first = NULL;
	struct allocation piece = *first;
	bool more = true;

	do {
		reference = region_refer(&piece, domain, range);
		if (!reference)
			break;
		if (!of_first)
			of_first = reference;
		region_count_request(&piece, domain);
		reference->used = true;
		more = !span_ends_in(request, &piece);
	} while (more && span_next(request, &piece));
	/* Another thread may have replaced the last mapping by a shorter one. */
	if (reference && !more && range->base + range->length <= span_piece_end(&piece))
		return of_first;
	if (of_first)
		region_end(of_first->region, ending);
	*gone = reference;
	return NULL;
}

struct region_reference *span_choose(const struct allocation *first, struct domain *domain,
				     const struct registration_request *request,
				     struct region **ending, bool *gone)
{
	struct region_range mappings, range;
	struct region_reference *found;
	struct allocation last;

	registration_assert_held();
	/* span_create() looks at those between, as the caller has. */
	*gone = !memory_find(request->address + request->length - 1, &last);
	if (*gone)
		return NULL;
	mappings = (struct region_range){ .base = first->base,
					  .length = span_piece_end(&last) - first->base,
					  .spans = true };
	range = span_range(request, &mappings);
	found = region_find_serving(first, domain, request, &range, &mappings);
	if (found)
		return found;
	if (domain->span_failures != SPANS_WORK && domain->span_failures >= POLICY_FAILURES)
		return NULL;
	return keys_may_try(domain, first, false)
		       ? span_create(first, domain, request, &range, ending, gone)
		       : NULL;
}

bool span_is_live(const struct region *region, uint64_t youngest)
{
	struct region_reference *reference = holds_at(region->references);
	uint32_t now = load_relaxed(&holds_time);

	registration_assert_held();
	for (; reference; reference = holds_at(reference->next_in_region)) {
		if ((youngest && youngest < reference->allocation) ||
		    !memory_is_live(&(struct allocation){ .id = reference->allocation,
							  .slot = reference->slot }))
			return false;
		store_relaxed(&reference->used_at, now);
	}
	return true;
}
