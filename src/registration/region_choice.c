/* SPDX-License-Identifier: BSD-3-Clause */
/* region_choice.c -- which range to register for an allocation, and for a client's request
 *
 * A request registers the whole allocation, where that is at most POLICY_WHOLE bytes or
 * POLICY_TIMES times the request. Else it registers a part: its own range in whole granules, joined
 * with the nearest part where both make up at least half of that. After POLICY_PARTS parts a
 * request registers the whole. The whole ends the parts without client MRs. A part serves where the
 * whole does not fit, or fails. With unique keys there are parts alone: each client MR needs a
 * region of its own, also of a range that has one.
 */
#include "registration/region_choice.h"

#include "registration/keys.h"
#include "registration/pin_limit.h"
#include "registration/policy.h"
#include "registration/region.h"
#include "registration/region_end.h"
#include "registration/region_use.h"
#include "registration/lock.h"
#include "report/statistics.h"

static uint64_t choice_round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) & ~(unit - 1);
}

/* The range to register for [address, address + length) of the allocation. Clients that bring
 * dma-bufs export pages (ready_exports.c). */
static struct region_range choice_range(const struct allocation *allocation,
					const struct domain *domain, uint64_t address,
					uint64_t length)
{
	uint64_t unit = allocation->integrated || domain->exports ? PAGE : GRANULE;
	uint64_t end = choice_round_up(address + length, unit), last;
	struct region_range range = { .base = address & ~(unit - 1), .first = allocation->base };

	range.length = end - range.base;
	last = allocation->base + memory_extent(allocation);
	if (range.base > range.first)
		range.first = range.base;
	range.extent = (end < last ? end : last) - range.first;
	range.whole = range.extent == memory_extent(allocation);
	return range;
}

/* Of whole granules: that of the allocation's bytes in them. */
static struct region_range choice_join(const struct allocation *allocation,
				       const struct domain *domain, uint64_t first, uint64_t last)
{
	uint64_t end = allocation->base + allocation->size;

	first = first < allocation->base ? allocation->base : first;
	last = last > end ? end : last;
	return choice_range(allocation, domain, first, last - first);
}

static struct region_range choice_whole(const struct allocation *allocation,
					const struct domain *domain)
{
	return choice_range(allocation, domain, allocation->base, allocation->size);
}

struct region_reference *region_find_whole(const struct allocation *allocation,
					   const struct domain *domain)
{
	struct region_reference *reference =
		region_find_reference(domain, allocation->slot, allocation->id);

	while (reference && !reference->whole)
		reference = region_next_reference(reference);
	return reference;
}

struct region_reference *region_refer_whole(const struct allocation *allocation,
					    struct domain *domain)
{
	struct region_range whole = choice_whole(allocation, domain);

	return region_refer(allocation, domain, &whole);
}

/* ---- requests ---- */

static bool choice_is_better(const struct region *one, const struct region *other, bool smallest)
{
	return !other || (smallest ? one->length < other->length : one->length > other->length);
}

static bool choice_is_within(const struct region *region, const struct region_range *limit)
{
	return region->base >= limit->base &&
	       region->base + region->length <= limit->base + limit->length;
}

/* A region of exactly `range` that is not registered: another thread registers it, or it was
 * evicted. A longer one may have failed, or not fit, and takes longer. */
struct region_reference *region_find_serving(const struct allocation *allocation,
					     const struct domain *domain,
					     const struct registration_request *request,
					     const struct region_range *range,
					     const struct region_range *limit)
{
	struct region_reference *reference =
		region_find_reference(domain, allocation->slot, allocation->id);
	struct region_reference *best = NULL, *exact = NULL;
	bool smallest = range->spans || domain->owner->own_keys;
	const struct region *region;

	for (; reference; reference = region_next_reference(reference)) {
		region = reference->region;
		if (region->spans != range->spans || region_is_taken(region))
			continue;
		if (region_is_of(region, range))
			exact = reference;
		if (region->state == REGION_READY && region->base <= request->address &&
		    region->base + region->length >= request->address + request->length &&
		    (!limit || choice_is_within(region, limit)) &&
		    choice_is_better(region, best ? best->region : NULL, smallest))
			best = reference;
	}
	return best ? best : exact;
}

void region_drop_failed(struct region *region, const struct region_reference *reference,
			struct region **ending)
{
	registration_assert_held();
	if (!reference->whole && region->users == 1 && (!region_is_shared(region) || region->spans))
		region_end(region, ending);
}

static struct region_reference *choice_find_exact(const struct allocation *allocation,
						  const struct domain *domain,
						  const struct region_range *range)
{
	struct region_reference *reference =
		region_find_reference(domain, allocation->slot, allocation->id);

	while (reference &&
	       (!region_is_of(reference->region, range) || region_is_taken(reference->region)))
		reference = region_next_reference(reference);
	return reference;
}

/* The part, joined with the nearest one where both make up at least half of that. */
static struct region_range choice_hull(const struct allocation *allocation,
				       const struct domain *domain, const struct region_range *part)
{
	const struct region_reference *reference =
		region_find_reference(domain, allocation->slot, allocation->id);
	uint64_t end = part->base + part->length, first, last, least = UINT64_MAX;
	struct region_range hull = *part;
	const struct region *other;

	for (; reference; reference = region_next_reference(reference)) {
		other = reference->region;
		first = other->base < part->base ? other->base : part->base;
		last = other->base + other->length > end ? other->base + other->length : end;
		if (other->spans || other->state != REGION_READY || reference->whole ||
		    last - first > 2 * (part->length + other->length) || last - first >= least)
			continue;
		least = last - first;
		hull = choice_join(allocation, domain, first, last);
	}
	return hull;
}

static bool choice_may_take_whole(const struct allocation *allocation, const struct domain *domain,
				  const struct region_range *whole)
{
	const struct region_reference *reference = region_find_whole(allocation, domain);

	/* It did not fit, or failed. */
	if (reference && reference->region->state != REGION_REGISTERING)
		return false;
	return pin_limit_has_room(domain->owner->adapter, allocation->device, whole->length);
}

/* The range to register for a request whose own range is `part`. */
static struct region_range choice_extend(const struct allocation *allocation,
					 const struct domain *domain,
					 const struct region_range *part,
					 const struct region_range *whole)
{
	const struct keys *keys = keys_of(domain, allocation->slot, allocation->id);
	unsigned int made = keys ? keys->made : 0;
	struct region_range hull;

	if (part->whole || domain->owner->own_keys || allocation->integrated)
		return *part;
	if ((whole->length <= POLICY_WHOLE || whole->length <= POLICY_TIMES * part->length ||
	     made == POLICY_PARTS) &&
	    choice_may_take_whole(allocation, domain, whole))
		return *whole;
	hull = made < POLICY_PARTS ? choice_hull(allocation, domain, part) : *part;
	return pin_limit_has_room(domain->owner->adapter, allocation->device, hull.length) ? hull
											   : *part;
}

struct region_reference *region_choose(const struct allocation *allocation, struct domain *domain,
				       const struct registration_request *request, bool parts_only,
				       bool *optional)
{
	struct region_range whole = choice_whole(allocation, domain), part = whole, range;
	struct region_reference *found;

	registration_assert_held();
	if (request->length < allocation->size)
		part = choice_range(allocation, domain, request->address, request->length);
	found = region_find_serving(allocation, domain, request, &part, NULL);
	*optional = false;
	if (found &&
	    (found->region->state == REGION_READY || found->region->state == REGION_REGISTERING))
		return found;
	if (!keys_may_try(domain, allocation, part.whole))
		return NULL;
	if (found)
		return found;
	range = parts_only ? part : choice_extend(allocation, domain, &part, &whole);
	*optional = range.length > part.length;
	found = choice_find_exact(allocation, domain, &range);
	return found ? found : region_refer(allocation, domain, &range);
}

bool region_count_request(const struct allocation *allocation, const struct domain *domain)
{
	struct keys *keys = keys_of(domain, allocation->slot, allocation->id);

	registration_assert_held();
	if (!keys || keys->requested)
		return false;
	keys->requested = true;
	statistics_add(requested_bytes, allocation->size);
	statistics_sort(used_bytes, allocation->size);
	return true;
}

bool region_is_requested(const struct allocation *allocation, const struct domain *domain)
{
	const struct keys *keys = keys_of(domain, allocation->slot, allocation->id);

	registration_assert_held();
	return keys && keys->made;
}

void region_end_parts(const struct allocation *allocation, struct domain *domain,
		      const struct region *by, struct region **ending)
{
	struct region_reference *reference, *next;
	struct region *region;

	registration_assert_held();
	for (reference = region_find_reference(domain, allocation->slot, allocation->id); reference;
	     reference = next) {
		next = region_next_reference(reference);
		region = reference->region;
		if (region != by && !reference->whole && !region->spans &&
		    region->base >= by->base &&
		    region->base + region->length <= by->base + by->length &&
		    region_may_end(region) && !region_is_shared(region) && region_claim(region))
			region_end(region, ending);
	}
}
