/* SPDX-License-Identifier: BSD-3-Clause */
/* region.c -- regions and their references: creation, indexes, removal
 *
 * Registration and end of a region: region_life.c.
 */
#include "base/atomics.h"
#include "registration/internal.h"

#include "base/config.h"
#include "base/pool.h"
#include "base/system.h"
#include "registration/client_mr.h"
#include "registration/holds.h"
#include "report/statistics.h"

#define RANGES	       (1u << 20)
#define LIVE_MAX       (1u << 22)
#define REFERENCES_MAX (1u << 24) /* of all domains */

/* By the allocation's slot. Usually a chain holds the references of one allocation. While an ended
 * allocation still has references, its slot may be reused already. */
struct reference_chain {
	struct region_reference *first;
	_Atomic uint64_t queued; /* id of the queued allocation; 0: none; any thread */
};

static struct arena reference_chains = ARENA_INITIALIZER(struct reference_chain, LIVE_MAX);
static struct region *ranges[RANGES]; /* by base */
static struct pool region_pool = POOL_INITIALIZER(struct region);
struct arena region_references = ARENA_INITIALIZER(struct region_reference, REFERENCES_MAX);
_Atomic uint32_t holds_time;
static struct region_reference *unused_reference;

/* NULL: the slot has never had a reference. */
static struct reference_chain *region_chain_at(uint32_t slot)
{
	/* Acquire load of `ready`: the store of `base` came before. */
	return slot < reference_chains.ready
		       ? &((struct reference_chain *)reference_chains.base)[slot]
		       : NULL;
}

/* Adjacent granules, and adjacent blocks of 2 MiB, have adjacent buckets: the touched part of the
 * table grows with the number of regions. */
static struct region **region_range_bucket(uint64_t base)
{
	uint64_t granule = base / GRANULE;

	return &ranges[(granule / 32 + granule % 32 * (RANGES / 32 + 1)) % RANGES];
}

static uint64_t region_round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) & ~(unit - 1);
}

/* PEERPIN_GRANULARITY=2M: allocations that the driver carves from one block share its region. */
static bool region_shares_block(const struct allocation *allocation)
{
	return config_get()->granularity == GRANULARITY_2M &&
	       (allocation->kind == ALLOCATION_DEVICE || allocation->kind == ALLOCATION_PITCHED) &&
	       allocation->base / BLOCK == (allocation->base + allocation->size - 1) / BLOCK;
}

/* The range to register for an allocation. */
static void region_range(const struct allocation *allocation, uint64_t *base, uint64_t *length)
{
	uint64_t unit = region_shares_block(allocation) ? BLOCK
			: allocation->integrated	? PAGE
							: GRANULE;

	*base = allocation->base & ~(unit - 1);
	*length = region_round_up(allocation->base + allocation->size, unit) - *base;
}

static struct region *region_find_by_range(struct domain *domain, uint64_t base, uint64_t length)
{
	struct region *region = *region_range_bucket(base);

	while (region &&
	       (region->base != base || region->length != length || region->domain != domain))
		region = region->range_next;
	return region;
}

static struct region *region_create(struct domain *domain, const struct allocation *allocation,
				    uint64_t base, uint64_t length)
{
	struct region *region = pool_get(&region_pool);

	if (!region)
		return NULL;
	*region = (struct region){ .domain = domain,
				   .owner = domain->owner,
				   .base = base,
				   .length = length,
				   .context = allocation->context,
				   .device = allocation->device,
				   .size = allocation->size,
				   .used = domain->looked_up,
				   .dma_buf_only = !memory_is_registrable(allocation) };
	LIST_INSERT_HEAD(&domain->regions, region, in_domain);
	region->range_next = *region_range_bucket(base);
	*region_range_bucket(base) = region;
	return region;
}

struct region_reference *region_find_reference(const struct domain *domain, uint32_t slot,
					       uint64_t allocation)
{
	struct reference_chain *chain = region_chain_at(slot);
	struct region_reference *reference = chain ? chain->first : NULL;

	while (reference &&
	       (reference->allocation != allocation || reference->region->domain != domain))
		reference = reference->bucket_next;
	return reference;
}

/* A reference that is in no chain. */
static struct region_reference *region_take_reference(struct region *region)
{
	struct region_reference *reference = unused_reference;

	if (reference) {
		unused_reference = reference->bucket_next;
	} else {
		if (arena_grow(&region_references, region_references.used + 1))
			return NULL;
		reference =
			(struct region_reference *)region_references.base + region_references.used;
		reference->number = arena_next(&region_references);
	}
	reference->region = region;
	reference->used = false;
	store_relaxed(&reference->used_at, load_relaxed(&holds_time));
	return reference;
}

static void region_put_reference(struct region_reference *reference)
{
	reference->bucket_next = unused_reference;
	unused_reference = reference;
}

static struct region_reference *region_add_reference(struct region *region,
						     const struct allocation *allocation)
{
	struct reference_chain *chain = region_chain_at(allocation->slot);
	struct region_reference *reference = region_take_reference(region);

	if (!reference)
		return NULL;
	reference->allocation = allocation->id;
	reference->slot = allocation->slot;
	reference->bucket_next = chain->first;
	chain->first = reference;
	LIST_INSERT_HEAD(&region->references, reference, in_region);
	return reference;
}

static void region_leave_chain(const struct region_reference *reference)
{
	struct region_reference **link = &region_chain_at(reference->slot)->first;

	while (*link != reference)
		link = &(*link)->bucket_next;
	*link = reference->bucket_next;
}

/* Revokes its client MRs. */
static void region_remove_reference(struct region_reference *reference)
{
	statistics_add(revoked, holds_end(reference));
	keys_withdraw(reference->region, reference);
	region_leave_chain(reference);
	LIST_REMOVE(reference, in_region);
	region_put_reference(reference);
}

void region_import(struct region *region, const void *client_mr)
{
	uint64_t hold;

	if (!region->imported)
		region->imported = region_take_reference(region);
	if (!region->imported)
		return;
	hold = holds_of(region->imported);
	if (holds_take(hold) && !client_mr_add(client_mr, hold))
		holds_drop(hold);
}

bool region_is_held(const struct region *region)
{
	const struct region_reference *reference;

	if (region->imported && holds_count(region->imported))
		return true;
	LIST_FOREACH(reference, &region->references, in_region) {
		if (holds_count(reference))
			return true;
	}
	return false;
}

bool region_is_idle(const struct region *region)
{
	return !region->domain->looked_up && !region_is_held(region);
}

bool region_is_in_use_for(const struct allocation *allocation)
{
	const struct reference_chain *chain = region_chain_at(allocation->slot);
	const struct region_reference *reference = chain ? chain->first : NULL;

	while (reference &&
	       (reference->allocation != allocation->id || region_is_idle(reference->region)))
		reference = reference->bucket_next;
	return reference;
}

/* A hit may take a hold at any time, until its generation has ended. */
bool region_claim(struct region *region)
{
	struct region_reference *reference;

	if (region_is_held(region))
		return false;
	LIST_FOREACH(reference, &region->references, in_region) {
		if (!holds_claim(reference))
			break;
	}
	if (reference)
		keys_publish_all(region);
	return !reference;
}

uint32_t region_used_at(const struct region *region)
{
	const struct region_reference *reference;
	uint32_t now = load_relaxed(&holds_time), age, least = UINT32_MAX;

	LIST_FOREACH(reference, &region->references, in_region) {
		age = now - load_relaxed(&reference->used_at);
		least = age < least ? age : least;
	}
	return now - least;
}

void region_leave_indexes(struct region *region)
{
	struct region **range = region_range_bucket(region->base);

	while (*range != region)
		range = &(*range)->range_next;
	*range = region->range_next;
	LIST_REMOVE(region, in_domain);
	while (!LIST_EMPTY(&region->references))
		region_remove_reference(LIST_FIRST(&region->references));
	if (region->imported) {
		statistics_add(revoked, holds_end(region->imported));
		region_put_reference(region->imported);
		region->imported = NULL;
	}
}

static void region_drop_unused(struct region *region)
{
	region_leave_indexes(region);
	pool_put(&region_pool, region);
}

struct region_reference *region_for(const struct allocation *allocation, struct domain *domain)
{
	struct region_reference *reference =
		region_find_reference(domain, allocation->slot, allocation->id);
	struct region *region;
	uint64_t base, length;

	if (reference) {
		keys_publish(reference->region, reference);
		return reference;
	}
	if (arena_grow(&reference_chains, allocation->slot + 1))
		return NULL;
	region_range(allocation, &base, &length);
	region = region_find_by_range(domain, base, length);
	if (!region)
		region = region_create(domain, allocation, base, length);
	if (!region)
		return NULL;
	reference = region_add_reference(region, allocation);
	if (reference)
		keys_publish(region, reference);
	else if (LIST_EMPTY(&region->references))
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
	if (region_chain_at(allocation->slot) &&
	    replace_seq_cst(&region_chain_at(allocation->slot)->queued, &id, 0))
		system_wake(&region_settled);
}

bool region_set_queued(const struct allocation *allocation)
{
	int error = 0;

	if (!region_chain_at(allocation->slot)) {
		pthread_mutex_lock(&registration_lock);
		error = arena_grow(&reference_chains, allocation->slot + 1);
		pthread_mutex_unlock(&registration_lock);
	}
	if (!error)
		store_relaxed(&region_chain_at(allocation->slot)->queued, allocation->id);
	return !error;
}

void region_release_user(struct region *region)
{
	if (!--region->users && region->ended)
		pool_put(&region_pool, region);
}

bool region_end_references(const struct allocation *allocation, struct region **ending,
			   uint64_t *since)
{
	struct reference_chain *chain = region_chain_at(allocation->slot);
	struct region_reference *reference = chain ? chain->first : NULL, *next;
	struct region *region;
	bool any = false;

	while (reference) {
		next = reference->bucket_next;
		if (reference->allocation != allocation->id) {
			reference = next;
			continue;
		}
		any = true;
		region = reference->region;
		region_remove_reference(reference);
		if (!LIST_EMPTY(&region->references)) {
			reference = next;
			continue;
		}
		region->freed = true;
		if (!*since && (region->mr || region->state == REGION_REGISTERING))
			*since = statistics_clock();
		region_end(region, ending);
		reference = chain->first; /* region_end() may have dropped the lock */
	}
	return any;
}
