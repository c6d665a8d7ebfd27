/* SPDX-License-Identifier: BSD-3-Clause */
/* keys.c -- wait-free look-up from an allocation to the hold of its region in a domain
 *
 * Each domain has an array, indexed by the allocation's slot. A slot may be reused before the keys
 * of its last allocation are withdrawn, because the memory layer ends a record before it calls
 * subscribers. So array entries carry the allocation's id.
 */
#include "registration/keys.h"

#include "base/atomics.h"
#include "memory/lookup.h"
#include "registration/holds.h"
#include "registration/lock.h"
#include "registration/policy.h"
#include "report/statistics.h"

void keys_begin(struct domain *domain)
{
	registration_assert_held();
	/* The array stays with the struct: a hit that began in an earlier domain may still read
	 * it. */
	if (!domain->keys.size)
		domain->keys = (struct arena)ARENA_INITIALIZER(struct keys, ALLOCATIONS_MAX);
}

void keys_end(struct domain *domain)
{
	registration_assert_held();
	arena_clear(&domain->keys);
}

static struct keys *keys_at(const struct domain *domain, uint32_t slot)
{
	return (struct keys *)domain->keys.base + slot;
}

static uint64_t keys_value(const struct region *region)
{
	return (uint64_t)region->keys.lkey << 32 | region->keys.rkey;
}

struct keys *keys_of(const struct domain *domain, uint32_t slot, uint64_t allocation)
{
	struct keys *keys = slot < load_relaxed(&domain->keys.ready) ? keys_at(domain, slot) : NULL;

	registration_assert_held();
	return keys && load_relaxed(&keys->allocation) == allocation ? keys : NULL;
}

struct region_reference *keys_first(const struct domain *domain, uint32_t slot)
{
	registration_assert_held();
	return slot < load_relaxed(&domain->keys.ready) ? holds_at(keys_at(domain, slot)->first)
							: NULL;
}

/* The freeing event of the slot's last allocation may still wait for the lock. */
struct keys *keys_claim(struct domain *domain, uint32_t slot, uint64_t allocation)
{
	struct keys *keys;

	registration_assert_held();
	if (arena_grow(&domain->keys, slot + 1))
		return NULL;
	keys = keys_at(domain, slot);
	if (load_relaxed(&keys->allocation) > allocation)
		return NULL;
	if (load_relaxed(&keys->allocation) != allocation) {
		store_release(&keys->allocation, 0);
		store_release(&keys->hold, 0);
		keys->made = keys->requested = 0;
		keys->failures = keys->whole_failures = keys->forwards = 0;
		store_release(&keys->allocation, allocation);
	}
	return keys;
}

_Static_assert(POLICY_PARTS < 1 << 3 && POLICY_FAILURES < 1 << 2 && POLICY_MEMORY <= 1 << 5,
	       "struct keys has room for these numbers");

/* After POLICY_FAILURES further tries of parts are rare: another part may work. The whole is not
 * tried again. */
bool keys_count_failure(const struct domain *domain, const struct region_reference *reference)
{
	struct keys *keys = keys_of(domain, reference->slot, reference->allocation);
	bool first = keys && !keys->failures && !reference->whole;

	if (!keys)
		return false;
	if (reference->whole) {
		keys->whole_failures += keys->whole_failures < POLICY_FAILURES;
		return false;
	}
	keys->failures += keys->failures < POLICY_FAILURES;
	keys->forwards = keys->failures < POLICY_FAILURES ? 0 : POLICY_MEMORY - 1;
	return first;
}

bool keys_may_try(const struct domain *domain, const struct allocation *allocation, bool whole)
{
	struct keys *keys = keys_of(domain, allocation->slot, allocation->id);

	if (!keys || (whole ? keys->whole_failures < POLICY_FAILURES : !keys->forwards))
		return true;
	if (whole)
		return false;
	keys->forwards--;
	return false;
}

/* A published hold that serves all bytes of the reference stays: the last one for a part would
 * otherwise replace the one for the whole. */
static bool keys_is_served_by(uint64_t hold, const struct region_reference *reference)
{
	const struct region_reference *other = hold ? holds_reference(hold) : reference;

	return other != reference && holds_of(other) == hold &&
	       holds_serve(other, load_relaxed(&reference->first),
			   load_relaxed(&reference->extent));
}

static void keys_publish_in_array(const struct region *region,
				  const struct region_reference *reference)
{
	struct keys *keys = keys_of(region->domain, reference->slot, reference->allocation);

	if (!keys)
		return;
	if (reference->used && !region->owner->own_keys &&
	    !keys_is_served_by(load_relaxed(&keys->hold), reference))
		store_release(&keys->hold, holds_of(reference));
}

/* Store the hold after the keys: a hit reads it before them. */
void keys_publish(const struct region *region, struct region_reference *reference)
{
	registration_assert_held();
	if (region->ended || region->state != REGION_READY || region->spans)
		return;
	store_release(&reference->keys, keys_value(region));
	store_release(&reference->kernel_handle, region->keys.kernel_handle);
	keys_publish_in_array(region, reference);
}

void keys_publish_all(const struct region *region)
{
	struct region_reference *reference = holds_at(region->references);

	for (; reference; reference = holds_at(reference->next_in_region))
		keys_publish(region, reference);
}

void keys_withdraw(const struct region *region, const struct region_reference *reference)
{
	struct keys *keys = keys_of(region->domain, reference->slot, reference->allocation);
	registration_assert_held();
	if (keys && holds_reference(load_relaxed(&keys->hold)) == reference)
		store_release(&keys->hold, 0);
}

uint64_t keys_find_hold(const struct domain *domain, const struct found *found, uint64_t address,
			uint64_t length, struct registration_keys *to)
{
	const struct region_reference *reference;
	uint64_t hold, value;
	struct keys *keys;

	if (found->slot >= load_acquire(&domain->keys.ready))
		return 0;
	keys = keys_at(domain, found->slot);
	if (load_acquire(&keys->allocation) != found->generation)
		return 0;
	hold = load_acquire(&keys->hold);
	reference = holds_reference(hold);
	/* Reference 0, of no hold, has no bytes. */
	if (!holds_serve(reference, address, length))
		return 0;
	value = load_acquire(&reference->keys);
	*to = (struct registration_keys){ .kernel_handle = load_acquire(&reference->kernel_handle),
					  .lkey = (uint32_t)(value >> 32),
					  .rkey = (uint32_t)value };
	return hold;
}
