/* SPDX-License-Identifier: BSD-3-Clause */
/* region_choice.c -- which range to register for an allocation, and for a client's request
 *
 * A request registers a part, the requested range in whole granules, so the client waits for no
 * more than its own bytes; or the whole where that takes no longer (cost.c). After requests for
 * REGION_PARTS_ENOUGH parts the worker registers the whole, and parts without client MRs end. With
 * fewer parts the registration of unrequested bytes would take CPUs from the program, and lengthen
 * its frees. A part also serves requests while the whole is being registered, and where the whole
 * does not fit within the pin limit. With unique keys there are parts alone: one client MR at a
 * time would have the keys of the whole.
 */
#include "registration/internal.h"

#include "base/atomics.h"
#include "base/config.h"
#include "registration/holds.h"
#include "report/statistics.h"

static uint64_t choice_round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) & ~(unit - 1);
}

/* PEERPIN_GRANULARITY=2M: allocations that the driver carves from one block share its region. */
static bool choice_shares_block(const struct allocation *allocation)
{
	return config_get()->granularity == GRANULARITY_2M &&
	       (allocation->kind == ALLOCATION_DEVICE || allocation->kind == ALLOCATION_PITCHED) &&
	       allocation->base / BLOCK == (allocation->base + allocation->size - 1) / BLOCK;
}

/* The range to register for [address, address + length) of the allocation. */
static struct region_range choice_range(const struct allocation *allocation, uint64_t address,
					uint64_t length)
{
	uint64_t unit = choice_shares_block(allocation) ? BLOCK
			: allocation->integrated	? PAGE
							: GRANULE;
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

static struct region_reference *choice_first(const struct allocation *allocation,
					     const struct domain *domain)
{
	return region_find_reference(domain, allocation->slot, allocation->id);
}

struct region_reference *region_find_whole(const struct allocation *allocation,
					   const struct domain *domain)
{
	struct region_reference *reference;

	for (reference = choice_first(allocation, domain); reference;
	     reference = region_next_reference(reference)) {
		if (reference->whole)
			break;
	}
	return reference;
}

struct region_reference *region_for(const struct allocation *allocation, struct domain *domain)
{
	struct region_reference *reference = region_find_whole(allocation, domain);
	struct region_range whole = choice_whole(allocation);

	if (!reference)
		return region_refer(allocation, domain, &whole);
	keys_publish(reference->region, reference);
	return reference;
}

/* ---- requests ---- */

/* References of an allocation in a domain, for a request. */
struct choice {
	/* Serve the request; `part`: its very part, not registered yet, or with keys that are
	 * taken. */
	struct region_reference *ready, *part;
	unsigned int parts, failures;
	bool any_ready, any_whole;
};

static struct choice choice_look(const struct allocation *allocation, const struct domain *domain,
				 const struct registration_request *request,
				 const struct region_range *part)
{
	bool own_keys = domain->owner->own_keys;
	struct region_reference *reference;
	struct choice choice = { .parts = 0 };

	for (reference = choice_first(allocation, domain); reference;
	     reference = region_next_reference(reference)) {
		bool ready = reference->region->state == REGION_READY, taken;

		if (reference->region->spans)
			continue;
		choice.any_ready |= ready;
		choice.any_whole |= reference->whole;
		if (!reference->whole) {
			choice.parts++;
			choice.failures += reference->region->failures;
		}
		if (!holds_serve(reference, request->address, request->length))
			continue;
		/* Unique keys: the smallest region that no client MR holds. Otherwise the
		 * largest. */
		taken = own_keys && region_is_held(reference->region);
		if (ready && !taken &&
		    (!choice.ready || own_keys != (load_relaxed(&reference->extent) >
						   load_relaxed(&choice.ready->extent))))
			choice.ready = reference;
		/* A longer part may have failed, or not fit, and takes longer. */
		if ((!ready || taken) && region_is_of(reference->region, part))
			choice.part = reference;
	}
	return choice;
}

/* Look-ups need the keys of the whole. `only`: it did not fit, or failed. */
static bool choice_takes_part(const struct allocation *allocation, const struct domain *domain,
			      const struct region_range *part, bool only)
{
	return !part->whole && (!domain->looked_up || only ||
				!pin_limit_may_hold(allocation->device, allocation->size));
}

/* The whole takes the client no longer than the part. */
static bool choice_replaces_part(const struct allocation *allocation, const struct domain *domain,
				 const struct registration_request *request, uint64_t part_length)
{
	uint64_t length = choice_whole(allocation).length;
	struct adapter *adapter = domain->owner->adapter;

	return !request->dma_buf && !domain->owner->own_keys &&
	       pin_limit_has_room(adapter, allocation->device, length) &&
	       cost_is_equal(adapter, allocation->device, part_length, length);
}

struct region_reference *region_choose(const struct allocation *allocation, struct domain *domain,
				       const struct registration_request *request,
				       struct region_parts *parts)
{
	struct region_range part = choice_range(allocation, request->address, request->length);
	struct choice choice = choice_look(allocation, domain, request, &part);
	bool takes_part = choice_takes_part(allocation, domain, &part, parts->only);

	parts->suffice = !takes_part && !part.whole;
	parts->replaced = false;
	if (choice.ready && (choice.ready->whole || takes_part || !domain->looked_up)) {
		keys_publish(choice.ready->region, choice.ready);
		return choice.ready;
	}
	if (!takes_part)
		return region_for(allocation, domain);
	if (choice.part)
		return choice.part;
	/* If a whole exists, another thread registers it, or it did not fit, or failed. */
	if (!parts->only && !choice.any_whole &&
	    choice_replaces_part(allocation, domain, request, part.length)) {
		parts->suffice = parts->replaced = true;
		return region_for(allocation, domain);
	}
	if (choice.parts >= REGION_PARTS_MAX ||
	    (choice.failures >= REGION_FAILURES_MAX && !choice.any_ready))
		return NULL;
	parts->whole_too |= choice.parts + 1 >= REGION_PARTS_ENOUGH && !parts->only &&
			    !domain->owner->own_keys &&
			    pin_limit_may_hold(allocation->device, allocation->size);
	return region_refer(allocation, domain, &part);
}

bool region_count_request(const struct allocation *allocation, const struct domain *domain)
{
	const struct region_reference *reference = choice_first(allocation, domain);

	while (reference && !reference->used)
		reference = region_next_reference(reference);
	if (reference)
		return false;
	statistics_add(requested_bytes, allocation->size);
	statistics_sort(used_bytes, allocation->size);
	return true;
}

/* ---- the whole, after requests for parts ---- */

static bool choice_is_part(const struct region_reference *reference)
{
	return !reference->whole && !reference->region->spans;
}

enum region_demand region_demand(const struct allocation *allocation, const struct domain *domain)
{
	const struct region_reference *reference = choice_first(allocation, domain);
	unsigned int parts = 0;
	bool spans = false;

	for (; reference; reference = region_next_reference(reference)) {
		parts += choice_is_part(reference);
		spans |= reference->region->spans;
	}
	if (parts >= REGION_PARTS_ENOUGH && !domain->owner->own_keys)
		return DEMAND_WHOLE;
	return parts || spans ? DEMAND_PARTS : DEMAND_NONE;
}

void region_end_parts(const struct allocation *allocation, struct domain *domain,
		      struct region **ending)
{
	struct region_reference *reference, *next;

	for (reference = choice_first(allocation, domain); reference; reference = next) {
		next = region_next_reference(reference);
		if (choice_is_part(reference) && region_may_end(reference->region) &&
		    !region_is_shared(reference->region) && region_claim(reference->region))
			region_end(reference->region, ending);
	}
}

/* Without a registration a region has no keys that a look-up may have returned. */
static bool choice_may_end(const struct region *region)
{
	return region->state == REGION_READY ? region_may_end(region)
					     : !region->users && !region_is_held(region);
}

/* `reference` is behind `other` in the chain: the older one of equal age. Regions that did not fit
 * end first. */
static bool choice_ends_before(const struct region_reference *reference,
			       const struct region_reference *other)
{
	bool is_idle = reference->region->state == REGION_IDLE;
	uint32_t now = load_relaxed(&holds_time);

	if (is_idle != (other->region->state == REGION_IDLE))
		return is_idle;
	return now - load_relaxed(&reference->used_at) >= now - load_relaxed(&other->used_at);
}

void region_limit_parts(const struct allocation *allocation, struct domain *domain, bool spans,
			struct region **ending)
{
	struct region_reference *reference, *first = NULL;
	unsigned int parts = 0;

	for (reference = choice_first(allocation, domain); reference;
	     reference = region_next_reference(reference)) {
		if (reference->whole || reference->region->spans != spans)
			continue;
		parts++;
		if (choice_may_end(reference->region) &&
		    (!first || choice_ends_before(reference, first)))
			first = reference;
	}
	if (parts < REGION_PARTS_MAX || !first || !region_claim(first->region))
		return;
	if (first->region->state == REGION_READY)
		pin_limit_evict_region(first->region, ending);
	else
		region_end(first->region, ending);
}

void region_limit_beside(const struct region *region, struct region **ending)
{
	const struct region_reference *reference = holds_at(region->references);

	for (; reference; reference = holds_at(reference->next_in_region))
		region_limit_parts(&(struct allocation){ .id = reference->allocation,
							 .slot = reference->slot },
				   region->domain, region->spans, ending);
}
