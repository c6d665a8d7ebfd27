/* SPDX-License-Identifier: BSD-3-Clause */
/* region.c -- regions and their references: creation, indexes, removal
 *
 * Use of a region by clients: region_use.c. Its registration: region_life.c. Its end: region_end.c.
 */
#include "registration/region.h"

#include "base/atomics.h"
#include "base/pool.h"
#include "base/system.h"
#include "registration/holds.h"
#include "registration/keys.h"
#include "registration/policy.h"
#include "registration/range_index.h"
#include "registration/references.h"
#include "registration/region_use.h"
#include "registration/session_lock.h"
#include "report/statistics.h"

#define RANGES (1u << 20)

/* By the allocation's slot. Usually a chain holds the references of one allocation, those of one
 * domain together. While an ended allocation still has references, its slot may be reused already.
 */
struct reference_chain {
	uint32_t first;		 /* number of a reference (holds.h); 0: none */
	_Atomic uint64_t queued; /* id of the queued allocation; 0: none; any thread */
};

static struct arena reference_chains = ARENA_INITIALIZER(struct reference_chain, ALLOCATIONS_MAX);
static struct region *ranges[RANGES]; /* by domain and base */
static struct pool region_pool = POOL_INITIALIZER(struct region);

/* NULL: the slot has never had a reference. */
static struct reference_chain *region_chain_at(uint32_t slot)
{
	/* Acquire load of `ready`: the store of `base` came before. */
	return slot < reference_chains.ready
		       ? &((struct reference_chain *)reference_chains.base)[slot]
		       : NULL;
}

/* Adjacent granules, and adjacent blocks of 2 MiB, have adjacent buckets: the touched part of the
 * table grows with the number of regions. Equal ranges of many domains have different buckets. */
static struct region **region_range_bucket(const struct domain *domain, uint64_t base)
{
	uint64_t granule = base / GRANULE;

	return &ranges[(granule / 32 + granule % 32 * (RANGES / 32 + 1) +
			domain->number * 0x9e3779b1u) %
		       RANGES];
}

bool region_is_of(const struct region *region, const struct region_range *range)
{
	return region->base == range->base && region->length == range->length &&
	       region->spans == range->spans;
}

static struct region *region_find_by_range(struct domain *domain, const struct region_range *range)
{
	struct region *region = *region_range_bucket(domain, range->base);

	while (region && (!region_is_of(region, range) || region->domain != domain ||
			  region_is_taken(region)))
		region = region->range_next;
	return region;
}

static struct region *region_create(struct domain *domain, const struct allocation *allocation,
				    const struct region_range *range)
{
	struct region *region = pool_get(&region_pool);

	if (!region)
		return NULL;
	*region = (struct region){ .domain = domain,
				   .owner = domain->owner,
				   .base = range->base,
				   .length = range->length,
				   .context = allocation->context,
				   .device = allocation->device,
				   .size = range->spans ? range->length : allocation->size,
				   .spans = range->spans };
	LIST_INSERT_HEAD(&domain->regions, region, in_domain);
	region->range_next = *region_range_bucket(domain, range->base);
	*region_range_bucket(domain, range->base) = region;
	return region;
}

struct region_reference *region_first_in_slot(uint32_t slot)
{
	struct reference_chain *chain = region_chain_at(slot);

	session_assert();
	return chain ? holds_at(chain->first) : NULL;
}

static struct region_reference *region_if_beside(const struct region_reference *reference,
						 uint32_t number)
{
	struct region_reference *other = holds_at(number);

	return other && other->allocation == reference->allocation &&
			       other->region->domain == reference->region->domain
		       ? other
		       : NULL;
}

/* One that is in an index; NULL: none. */
static struct region_reference *region_any_reference(const struct keys *keys)
{
	return holds_at(keys->parts ? keys->parts : keys->spans);
}

struct region_reference *region_find_reference(const struct domain *domain, uint32_t slot,
					       uint64_t allocation)
{
	const struct keys *keys = keys_of(domain, slot, allocation);
	struct region_reference *reference = keys ? region_any_reference(keys) : NULL, *first;

	do {
		first = reference;
		reference = first ? region_if_beside(first, first->previous_in_slot) : NULL;
	} while (reference);
	return first;
}

struct region_reference *region_next_reference(const struct region_reference *reference)
{
	return region_if_beside(reference, reference->next_in_slot);
}

/* A span is searched from its first mapping. */
static void region_index(struct keys *keys, struct region_reference *reference)
{
	if (reference->region->spans)
		keys->spans = range_index_add(keys->spans, reference);
	else
		keys->parts = range_index_add(keys->parts, reference);
	reference->indexed = true;
}

/* A later allocation may have the slot: the index is gone with the keys. */
static void region_unindex(struct region_reference *reference)
{
	const struct region *region = reference->region;
	struct keys *keys = keys_of(region->domain, reference->slot, reference->allocation);

	if (!keys || !reference->indexed)
		return;
	if (region->spans)
		keys->spans = range_index_remove(keys->spans, reference);
	else
		keys->parts = range_index_remove(keys->parts, reference);
}

/* Behind `before`; NULL: first. */
static void region_link_in_slot(struct reference_chain *chain, struct region_reference *before,
				struct region_reference *reference)
{
	uint32_t *link = before ? &before->next_in_slot : &chain->first;

	reference->previous_in_slot = before ? holds_number(before) : 0;
	reference->next_in_slot = *link;
	if (*link)
		holds_at(*link)->previous_in_slot = holds_number(reference);
	*link = holds_number(reference);
}

static void region_unlink_in_slot(struct region_reference *reference)
{
	struct region_reference *next = holds_at(reference->next_in_slot);

	if (reference->previous_in_slot)
		holds_at(reference->previous_in_slot)->next_in_slot = reference->next_in_slot;
	else
		region_chain_at(reference->slot)->first = reference->next_in_slot;
	if (next)
		next->previous_in_slot = reference->previous_in_slot;
}

static struct region_reference *region_add_reference(struct region *region,
						     const struct allocation *allocation,
						     const struct region_range *range)
{
	struct keys *keys = keys_claim(region->domain, allocation->slot, allocation->id);
	struct region_reference *reference = keys ? references_take(region) : NULL;

	if (!reference)
		return NULL;
	reference->allocation = allocation->id;
	reference->slot = allocation->slot;
	reference->whole = range->whole;
	store_release(&reference->first, range->first);
	store_release(&reference->extent, range->extent);
	region_link_in_slot(region_chain_at(allocation->slot), region_any_reference(keys),
			    reference);
	reference->next_in_region = region->references;
	region->references = holds_number(reference);
	if (!range->spans || range->base >= allocation->base)
		region_index(keys, reference);
	if (!range->whole && keys->made < (range->spans ? 1 : 2 * POLICY_PARTS))
		keys->made++;
	return reference;
}

static void region_unlink_reference(struct region_reference *reference)
{
	uint32_t number = holds_number(reference);
	uint32_t *in_region = &reference->region->references;

	region_unindex(reference);
	region_unlink_in_slot(reference);
	while (*in_region != number)
		in_region = &holds_at(*in_region)->next_in_region;
	*in_region = reference->next_in_region;
}

void region_remove_reference(struct region_reference *reference)
{
	struct protection_domain *owner = reference->region->owner;

	statistics_add(revoked, holds_end(reference));
	keys_withdraw(reference->region, reference);
	region_unlink_reference(reference);
	references_put(owner, reference);
}

bool region_is_in_use_for(const struct allocation *allocation)
{
	const struct region_reference *reference = region_first_in_slot(allocation->slot);

	while (reference &&
	       (reference->allocation != allocation->id || region_is_idle(reference->region)))
		reference = holds_at(reference->next_in_slot);
	return reference;
}

void region_leave_indexes(struct region *region)
{
	struct region **range = region_range_bucket(region->domain, region->base);

	session_assert();
	while (*range != region)
		range = &(*range)->range_next;
	*range = region->range_next;
	LIST_REMOVE(region, in_domain);
	while (region->references)
		region_remove_reference(holds_at(region->references));
	if (region->imported) {
		statistics_add(revoked, holds_end(region->imported));
		references_forget(region->imported);
		region->imported = NULL;
	}
}

static void region_drop_unused(struct region *region)
{
	region_leave_indexes(region);
	pool_put(&region_pool, region);
}

struct region_reference *region_refer(const struct allocation *allocation, struct domain *domain,
				      const struct region_range *range)
{
	struct region_reference *reference;
	struct region *region;

	session_assert();
	if (arena_grow(&reference_chains, allocation->slot + 1))
		return NULL;
	region = region_find_by_range(domain, range);
	if (!region)
		region = region_create(domain, allocation, range);
	if (!region)
		return NULL;
	region->dma_buf_only |= !memory_is_registrable(allocation);
	reference = region_add_reference(region, allocation, range);
	if (reference)
		keys_publish(region, reference);
	else if (!region->references)
		region_drop_unused(region);
	return reference;
}

bool region_is_queued(const struct allocation *allocation)
{
	struct reference_chain *chain = region_chain_at(allocation->slot);

	return chain && load_relaxed(&chain->queued) == allocation->id;
}

void region_unqueue(const struct allocation *allocation)
{
	uint64_t id = allocation->id;

	/* The slot may belong to another allocation already, which is queued. */
	if (region_chain_at(allocation->slot))
		replace_seq_cst(&region_chain_at(allocation->slot)->queued, &id, 0);
}

bool region_set_queued(const struct allocation *allocation)
{
	uint64_t before;
	int error = 0;

	if (!region_chain_at(allocation->slot)) {
		lock_take(&registration_lock);
		error = arena_grow(&reference_chains, allocation->slot + 1);
		lock_drop(&registration_lock);
	}
	if (error)
		return false;
	/* A later allocation, with a greater id, may have the slot already. */
	before = load_relaxed(&region_chain_at(allocation->slot)->queued);
	while (before < allocation->id &&
	       !replace_seq_cst(&region_chain_at(allocation->slot)->queued, &before,
				allocation->id))
		;
	return true;
}

void region_release_user(struct region *region)
{
	session_assert();
	if (!--region->users && region->ended)
		pool_put(&region_pool, region);
}
