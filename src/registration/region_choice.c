/* SPDX-License-Identifier: BSD-3-Clause */
/* region_choice.c -- which range to register for an allocation, and for a client's request
 *
 * A request registers a part, the requested range in whole granules, so the client waits for no
 * more than its own bytes; or a whole that takes hardly longer. After requests for POLICY_PARTS
 * parts the worker registers the whole, or after twice as many the next request, and parts without
 * client MRs end. A part also serves requests while the whole is being registered, and where the
 * whole does not fit within the pin limit. With unique keys there are parts alone: each client MR
 * needs a region of its own, also of a range that has one.
 *
 * The bytes and regions of all parts are limited as those of other regions are (pin_limit.c), their
 * number is not.
 */
#include "registration/region_choice.h"

#include "registration/keys.h"
#include "registration/pin_limit.h"
#include "registration/policy.h"
#include "registration/range_index.h"
#include "registration/region.h"
#include "registration/region_end.h"
#include "registration/region_use.h"
#include "registration/session_lock.h"
#include "report/statistics.h"

static uint64_t choice_round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) & ~(unit - 1);
}

/* The range to register for [address, address + length) of the allocation. */
static struct region_range choice_range(const struct allocation *allocation, uint64_t address,
					uint64_t length)
{
	uint64_t unit = allocation->integrated ? PAGE : GRANULE;
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

static struct region_range choice_whole(const struct allocation *allocation)
{
	return choice_range(allocation, allocation->base, allocation->size);
}

static bool choice_is_whole(const struct region_reference *reference, const void *unused)
{
	(void)unused;
	return reference->whole;
}

struct region_reference *region_find_whole(const struct allocation *allocation,
					   const struct domain *domain)
{
	const struct keys *keys = keys_of(domain, allocation->slot, allocation->id);

	return range_index_find(keys ? keys->parts : 0,
				&(struct range_search){ .base = allocation->base,
							.end = allocation->base + allocation->size,
							.suits = choice_is_whole });
}

struct region_reference *region_refer_whole(const struct allocation *allocation,
					    struct domain *domain)
{
	struct region_range whole = choice_whole(allocation);

	return region_refer(allocation, domain, &whole);
}

/* ---- requests ---- */

static bool choice_is_ready(const struct region_reference *reference, const void *mappings)
{
	const struct region *region = reference->region;
	const struct region_range *within = mappings;

	return region->state == REGION_READY && !region_is_taken(region) &&
	       region->base + region->length <= within->base + within->length;
}

/* Not registered yet, by another thread or after an eviction. A longer part may have failed, or not
 * fit, and takes longer. */
static bool choice_is_of(const struct region_reference *reference, const void *range)
{
	return region_is_of(reference->region, range) && !region_is_taken(reference->region);
}

struct region_reference *region_find_serving(const struct allocation *allocation,
					     const struct domain *domain,
					     const struct registration_request *request,
					     const struct region_range *range,
					     const struct region_range *limit)
{
	const struct keys *keys = keys_of(domain, allocation->slot, allocation->id);
	uint32_t root = !keys ? 0 : range->spans ? keys->spans : keys->parts;
	struct range_search search = { .base = request->address,
				       .end = request->address + request->length,
				       .smallest = range->spans || domain->owner->own_keys,
				       .suits = choice_is_ready,
				       .argument = limit };
	struct region_reference *reference = range_index_find(root, &search);

	search.smallest = true;
	search.suits = choice_is_of;
	search.argument = range;
	return reference ? reference : range_index_find(root, &search);
}

void region_drop_failed(struct region *region, const struct region_reference *reference)
{
	session_assert();
	if (!reference->whole && region->users == 1 && (!region_is_shared(region) || region->spans))
		region_end(region);
}

/* The worker should have registered the whole by now: it finds no idle CPU, or has much to do. */
static bool choice_is_overdue(const struct allocation *allocation, const struct domain *domain)
{
	const struct keys *keys = keys_of(domain, allocation->slot, allocation->id);

	return keys && keys->made == 2 * POLICY_PARTS && region_is_queued(allocation);
}

/* The whole takes the client hardly longer than the part, or few times as long as all parts so far.
 * If there is one, another thread registers it, or it did not fit, or failed. */
static bool choice_replaces_part(const struct allocation *allocation, const struct domain *domain,
				 const struct registration_request *request, uint64_t part_length,
				 uint64_t length)
{
	struct adapter *adapter = domain->owner->adapter;
	bool is_short =
		length <= POLICY_WHOLE && length <= POLICY_PARTS * part_length && !request->dma_buf;

	return (is_short || (length <= POLICY_PARTS * POLICY_PARTS * part_length &&
			     choice_is_overdue(allocation, domain))) &&
	       !allocation->integrated && !domain->owner->own_keys && !adapter->wholes_fail &&
	       !region_find_whole(allocation, domain) &&
	       pin_limit_has_room(adapter, allocation->device, length);
}

struct region_reference *region_choose(const struct allocation *allocation, struct domain *domain,
				       const struct registration_request *request, bool parts_only,
				       enum region_choice *choice)
{
	struct region_range whole = choice_whole(allocation), part = whole;
	bool takes_part;
	struct region_reference *found;

	session_assert();
	if (request->length < allocation->size)
		part = choice_range(allocation, request->address, request->length);
	takes_part = !part.whole;
	found = region_find_serving(allocation, domain, request, &part, &whole);
	*choice = CHOICE_PART;
	if (found && found->region->state == REGION_READY)
		return found;
	if (!(found && found->region->state == REGION_REGISTERING) &&
	    !keys_may_try(domain, allocation, part.whole || !takes_part))
		return NULL;
	if (!takes_part && !(part.whole && domain->owner->own_keys)) {
		*choice = part.whole ? CHOICE_PART : CHOICE_WHOLE;
		found = region_find_whole(allocation, domain);
		return found ? found : region_refer(allocation, domain, &whole);
	}
	if (found)
		return found;
	if (takes_part && !parts_only &&
	    choice_replaces_part(allocation, domain, request, part.length, whole.length)) {
		*choice = CHOICE_OPTIONAL;
		return region_refer(allocation, domain, &whole);
	}
	return region_refer(allocation, domain, &part);
}

bool region_count_request(const struct allocation *allocation, const struct domain *domain)
{
	struct keys *keys = keys_of(domain, allocation->slot, allocation->id);

	session_assert();
	if (!keys || keys->requested)
		return false;
	keys->requested = true;
	statistics_add(requested_bytes, allocation->size);
	statistics_sort(used_bytes, allocation->size);
	return true;
}

/* ---- the whole, after requests for parts ---- */

enum region_demand region_demand(const struct allocation *allocation, const struct domain *domain)
{
	const struct keys *keys = keys_of(domain, allocation->slot, allocation->id);

	session_assert();
	if (!keys || !keys->made)
		return DEMAND_NONE;
	return keys->made >= POLICY_PARTS && !domain->owner->own_keys ? DEMAND_WHOLE : DEMAND_PARTS;
}

bool region_wants_whole(const struct allocation *allocation, const struct domain *domain)
{
	return region_demand(allocation, domain) == DEMAND_WHOLE &&
	       pin_limit_may_hold(allocation->device, allocation->size);
}

void region_end_parts(const struct allocation *allocation, struct domain *domain)
{
	struct region_reference *reference, *next;

	session_assert();
	for (reference = region_find_reference(domain, allocation->slot, allocation->id); reference;
	     reference = next) {
		next = region_next_reference(reference);
		if (!reference->whole && !reference->region->spans &&
		    region_may_end(reference->region) && !region_is_shared(reference->region) &&
		    region_claim(reference->region))
			region_end(reference->region);
	}
}
