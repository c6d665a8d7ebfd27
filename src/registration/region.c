/* SPDX-License-Identifier: BSD-3-Clause */
/* region.c -- regions and their references: creation, indexes, use, removal
 *
 * Their registration: region_life.c. Their end: region_end.c.
 */
#include "registration/region.h"

#include "base/atomics.h"
#include "base/pool.h"
#include "base/system.h"
#include "registration/domain.h"
#include "registration/holds.h"
#include "registration/entry.h"
#include "registration/lock.h"
#include "registration/policy.h"
#include "registration/references.h"
#include "report/statistics.h"

#define RANGES (1u << 16)

/* Ids of queued allocations by slot; 0: none. Any thread. */
static struct arena queued_ids = ARENA_INITIALIZER(_Atomic uint64_t, ALLOCATIONS_MAX);
static struct region *shared[RANGES]; /* of a granule at most, by domain and base */
static struct pool region_pool = POOL_INITIALIZER(struct region);

/* NULL: no allocation of the slot has been queued. Acquire load of `ready`: the store of `base`
 * came before. */
static _Atomic uint64_t *region_queued_at(uint32_t slot)
{
	return slot < queued_ids.ready ? (_Atomic uint64_t *)queued_ids.base + slot : NULL;
}

/* Allocations share a region of one granule, or page: of a longer range they would overlap. */
static bool region_may_be_shared(uint64_t length)
{
	return length <= GRANULE;
}

/* Adjacent granules, and adjacent blocks of 2 MiB, have adjacent buckets: the touched part of the
 * table grows with the number of regions. Equal ranges of many domains have different buckets. */
static struct region **region_bucket(const struct domain *domain, uint64_t base)
{
	uint64_t granule = base / GRANULE;

	return &shared[(granule / 32 + granule % 32 * (RANGES / 32 + 1) +
			domain->number * 0x9e3779b1u) %
		       RANGES];
}

bool region_is_of(const struct region *region, const struct region_range *range)
{
	return region->base == range->base && region->length == range->length &&
	       region->spans == range->spans;
}

/* The region of exactly that range, for another allocation; NULL: none. */
static struct region *region_find_shared(struct domain *domain, const struct region_range *range)
{
	struct region *region =
		region_may_be_shared(range->length) ? *region_bucket(domain, range->base) : NULL;

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
	if (region_may_be_shared(range->length)) {
		region->range_next = *region_bucket(domain, range->base);
		*region_bucket(domain, range->base) = region;
	}
	return region;
}

struct region_reference *region_find_reference(const struct domain *domain, uint32_t slot,
					       uint64_t allocation)
{
	struct region_reference *reference = entry_first(domain, slot);

	while (reference && reference->allocation != allocation)
		reference = holds_at(reference->next);
	return reference;
}

struct region_reference *region_next_reference(const struct region_reference *reference)
{
	struct region_reference *next = holds_at(reference->next);

	while (next && next->allocation != reference->allocation)
		next = holds_at(next->next);
	return next;
}

static struct region_reference *region_add_reference(struct region *region,
						     const struct allocation *allocation,
						     const struct region_range *range)
{
	struct entry *entry = entry_claim(region->domain, allocation->slot, allocation->id);
	struct region_reference *reference = entry ? references_take(region) : NULL;

	if (!reference)
		return NULL;
	reference->allocation = allocation->id;
	reference->slot = allocation->slot;
	reference->whole = range->whole;
	reference->leads = !range->spans || range->base >= allocation->base;
	store_release(&reference->first, range->first);
	store_release(&reference->extent, range->extent);
	reference->previous = 0;
	reference->next = entry->first;
	if (entry->first)
		holds_at(entry->first)->previous = holds_number(reference);
	entry->first = holds_number(reference);
	reference->next_in_region = region->references;
	region->references = holds_number(reference);
	if (!range->whole && entry->made < POLICY_PARTS)
		entry->made++;
	return reference;
}

static void region_unlink_reference(struct region_reference *reference)
{
	struct domain *domain = reference->region->domain;
	struct region_reference *next = holds_at(reference->next);
	uint32_t number = holds_number(reference);
	uint32_t *in_region = &reference->region->references;

	if (reference->previous)
		holds_at(reference->previous)->next = reference->next;
	else
		((struct entry *)domain->entries.base)[reference->slot].first = reference->next;
	if (next)
		next->previous = reference->previous;
	while (*in_region != number)
		in_region = &holds_at(*in_region)->next_in_region;
	*in_region = reference->next_in_region;
}

void region_remove_reference(struct region_reference *reference)
{
	struct protection_domain *owner = reference->region->owner;

	statistics_add(revoked, holds_end(reference));
	entry_withdraw(reference->region, reference);
	region_unlink_reference(reference);
	references_put(owner, reference);
}

bool region_is_in_use_for(const struct allocation *allocation)
{
	const struct region_reference *reference = NULL;
	struct domain *domain = NULL;

	while (!reference && (domain = domain_after(domain, domain ? domain->number : 0))) {
		reference = region_find_reference(domain, allocation->slot, allocation->id);
		while (reference && !region_is_held(reference->region))
			reference = region_next_reference(reference);
	}
	return reference;
}

void region_leave_indexes(struct region *region)
{
	struct region **link = region_bucket(region->domain, region->base);

	registration_assert_held();
	if (region_may_be_shared(region->length)) {
		while (*link != region)
			link = &(*link)->range_next;
		*link = region->range_next;
	}
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

struct region_reference *region_refer_to(struct region *region, const struct allocation *allocation,
					 const struct region_range *range)
{
	struct region_reference *reference = region_add_reference(region, allocation, range);

	region->dma_buf_only |= !memory_is_registrable(allocation);
	if (reference)
		entry_publish(region, reference);
	return reference;
}

struct region_reference *region_refer(const struct allocation *allocation, struct domain *domain,
				      const struct region_range *range)
{
	struct region *region = region_find_shared(domain, range);
	struct region_reference *reference;

	registration_assert_held();
	if (!region)
		region = region_create(domain, allocation, range);
	if (!region)
		return NULL;
	reference = region_refer_to(region, allocation, range);
	if (!reference && !region->references)
		region_drop_unused(region);
	return reference;
}

bool region_is_queued(const struct allocation *allocation)
{
	_Atomic uint64_t *queued = region_queued_at(allocation->slot);

	return queued && load_relaxed(queued) == allocation->id;
}

void region_unqueue(const struct allocation *allocation)
{
	uint64_t id = allocation->id;

	/* The slot may belong to another allocation already, which is queued. */
	if (region_queued_at(allocation->slot))
		replace_seq_cst(region_queued_at(allocation->slot), &id, 0);
}

bool region_set_queued(const struct allocation *allocation)
{
	uint64_t before;
	int error = 0;

	if (!region_queued_at(allocation->slot)) {
		registration_lock();
		error = arena_grow(&queued_ids, allocation->slot + 1);
		registration_unlock();
	}
	if (error)
		return false;
	/* A later allocation, with a greater id, may have the slot already. */
	before = load_relaxed(region_queued_at(allocation->slot));
	while (before < allocation->id &&
	       !replace_seq_cst(region_queued_at(allocation->slot), &before, allocation->id))
		;
	return true;
}

void region_release_user(struct region *region)
{
	registration_assert_held();
	if (!--region->users && region->ended)
		pool_put(&region_pool, region);
}

/* ---- ranges of an allocation ---- */

static uint64_t region_round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) & ~(unit - 1);
}

/* Clients that bring dma-bufs export pages (ready_exports.c). */
struct region_range region_range_of(const struct allocation *allocation,
				    const struct domain *domain, uint64_t address, uint64_t length)
{
	uint64_t unit = allocation->integrated || domain->exports ? PAGE : GRANULE;
	uint64_t end = region_round_up(address + length, unit), last;
	struct region_range range = { .base = address & ~(unit - 1), .first = allocation->base };

	range.length = end - range.base;
	last = allocation->base + memory_extent(allocation);
	if (range.base > range.first)
		range.first = range.base;
	range.extent = (end < last ? end : last) - range.first;
	range.whole = range.extent == memory_extent(allocation);
	return range;
}

struct region_range region_whole_of(const struct allocation *allocation,
				    const struct domain *domain)
{
	return region_range_of(allocation, domain, allocation->base, allocation->size);
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
	struct region_range whole = region_whole_of(allocation, domain);

	return region_refer(allocation, domain, &whole);
}

bool region_is_requested(const struct allocation *allocation, const struct domain *domain)
{
	const struct entry *entry = entry_of(domain, allocation->slot, allocation->id);

	registration_assert_held();
	return entry && entry->made;
}

/* ---- use by clients ---- */

uint64_t region_take_import(struct region *region)
{
	registration_assert_held();
	if (!region->imported)
		region->imported = references_take(region);
	return region->imported ? holds_take(holds_of(region->imported)) : 0;
}

bool region_has_client_mrs(const struct region *region)
{
	const struct region_reference *reference = holds_at(region->references);

	while (reference && !holds_any(reference))
		reference = holds_at(reference->next_in_region);
	return reference;
}

bool region_is_held(const struct region *region)
{
	registration_assert_held();
	return region_has_client_mrs(region) || (region->imported && holds_any(region->imported));
}

/* By a client MR, or by a request that waits for the registration. Such a domain has no hits: all
 * its holds are taken with the lock held. */
bool region_is_taken(const struct region *region)
{
	bool is_waited_for =
		region->state == REGION_REGISTERING && (!region->with_worker || region->users > 1);

	return region->owner->own_keys && (is_waited_for || region_is_held(region));
}

bool region_may_end(const struct region *region)
{
	return !region->users && !region_is_held(region);
}

/* A hit may take a hold at any time, until its generation has ended. */
bool region_claim(struct region *region)
{
	struct region_reference *reference = holds_at(region->references);

	registration_assert_held();
	if (region_has_client_mrs(region))
		return false;
	while (reference && holds_claim(reference))
		reference = holds_at(reference->next_in_region);
	if (reference)
		entries_publish(region);
	return !reference;
}

uint32_t region_used_at(const struct region *region)
{
	const struct region_reference *reference = holds_at(region->references);
	uint32_t now = load_relaxed(&holds_time), age, least = UINT32_MAX;

	registration_assert_held();
	for (; reference; reference = holds_at(reference->next_in_region)) {
		age = now - load_relaxed(&reference->used_at);
		least = age < least ? age : least;
	}
	return now - least;
}

bool region_is_shared(const struct region *region)
{
	const struct region_reference *first = holds_at(region->references);

	return first && first->next_in_region;
}
