/* SPDX-License-Identifier: BSD-3-Clause */
/* entry.c -- wait-free look-up from an allocation to the hold of its region in a domain
 *
 * Each domain has an array, indexed by the allocation's slot. A slot may be reused before the entry
 * of its last allocation has ended, because the memory layer ends a record before it calls
 * subscribers. So entries carry the allocation's id.
 */
#include "registration/entry.h"

#include "base/atomics.h"
#include "memory/lookup.h"
#include "registration/holds.h"
#include "registration/lock.h"
#include "registration/policy.h"
#include "report/statistics.h"

void entries_begin(struct domain *domain)
{
	registration_assert_held();
	/* The array stays with the struct: a hit that began in an earlier domain may still read
	 * it. */
	if (!domain->entries.size)
		domain->entries = (struct arena)ARENA_INITIALIZER(struct entry, ALLOCATIONS_MAX);
}

void entries_end(struct domain *domain)
{
	registration_assert_held();
	arena_clear(&domain->entries);
}

static struct entry *entry_at(const struct domain *domain, uint32_t slot)
{
	return (struct entry *)domain->entries.base + slot;
}

static uint64_t entry_keys(const struct region *region)
{
	return (uint64_t)region->keys.lkey << 32 | region->keys.rkey;
}

struct entry *entry_of(const struct domain *domain, uint32_t slot, uint64_t allocation)
{
	struct entry *entry =
		slot < load_relaxed(&domain->entries.ready) ? entry_at(domain, slot) : NULL;

	registration_assert_held();
	return entry && load_relaxed(&entry->allocation) == allocation ? entry : NULL;
}

struct region_reference *entry_first(const struct domain *domain, uint32_t slot)
{
	registration_assert_held();
	return slot < load_relaxed(&domain->entries.ready) ? holds_at(entry_at(domain, slot)->first)
							   : NULL;
}

/* The freeing event of the slot's last allocation may still wait for the lock. */
struct entry *entry_claim(struct domain *domain, uint32_t slot, uint64_t allocation)
{
	struct entry *entry;

	registration_assert_held();
	if (arena_grow(&domain->entries, slot + 1))
		return NULL;
	entry = entry_at(domain, slot);
	if (load_relaxed(&entry->allocation) > allocation)
		return NULL;
	if (load_relaxed(&entry->allocation) != allocation) {
		store_release(&entry->allocation, 0);
		store_release(&entry->hold, 0);
		entry->made = entry->requested = 0;
		entry->failures = entry->whole_failures = entry->forwards = 0;
		store_release(&entry->allocation, allocation);
	}
	return entry;
}

_Static_assert(POLICY_PARTS < 1 << 3 && POLICY_FAILURES < 1 << 2 && POLICY_MEMORY <= 1 << 5,
	       "struct entry has room for these numbers");

/* After POLICY_FAILURES further tries of parts are rare: another part may work. The whole is not
 * tried again. */
bool entry_count_failure(const struct domain *domain, const struct region_reference *reference)
{
	struct entry *entry = entry_of(domain, reference->slot, reference->allocation);
	bool first = entry && !entry->failures && !reference->whole;

	if (!entry)
		return false;
	if (reference->whole) {
		entry->whole_failures += entry->whole_failures < POLICY_FAILURES;
		return false;
	}
	entry->failures += entry->failures < POLICY_FAILURES;
	entry->forwards = entry->failures < POLICY_FAILURES ? 0 : POLICY_MEMORY - 1;
	return first;
}

bool entry_may_try(const struct domain *domain, const struct allocation *allocation, bool whole)
{
	struct entry *entry = entry_of(domain, allocation->slot, allocation->id);

	if (!entry || (whole ? entry->whole_failures < POLICY_FAILURES : !entry->forwards))
		return true;
	if (whole)
		return false;
	entry->forwards--;
	return false;
}

/* A published hold that serves all bytes of the reference stays: the last one for a part would
 * otherwise replace the one for the whole. */
static bool entry_is_served_by(uint64_t hold, const struct region_reference *reference)
{
	const struct region_reference *other = hold ? holds_reference(hold) : reference;

	return other != reference && holds_of(other) == hold &&
	       holds_serve(other, load_relaxed(&reference->first),
			   load_relaxed(&reference->extent));
}

static void entry_set_hold(const struct region *region, const struct region_reference *reference)
{
	struct entry *entry = entry_of(region->domain, reference->slot, reference->allocation);

	if (!entry)
		return;
	if (reference->used && !region->owner->own_keys &&
	    !entry_is_served_by(load_relaxed(&entry->hold), reference))
		store_release(&entry->hold, holds_of(reference));
}

/* Store the hold after the keys: a hit reads it before them. */
void entry_publish(const struct region *region, struct region_reference *reference)
{
	registration_assert_held();
	if (region->ended || region->state != REGION_READY || region->spans)
		return;
	store_release(&reference->keys, entry_keys(region));
	store_release(&reference->kernel_handle, region->keys.kernel_handle);
	entry_set_hold(region, reference);
}

void entries_publish(const struct region *region)
{
	struct region_reference *reference = holds_at(region->references);

	for (; reference; reference = holds_at(reference->next_in_region))
		entry_publish(region, reference);
}

void entry_withdraw(const struct region *region, const struct region_reference *reference)
{
	struct entry *entry = entry_of(region->domain, reference->slot, reference->allocation);

	registration_assert_held();
	if (entry && holds_reference(load_relaxed(&entry->hold)) == reference)
		store_release(&entry->hold, 0);
}

uint64_t entry_find_hold(const struct domain *domain, const struct found *found, uint64_t address,
			 uint64_t length, struct registration_keys *to)
{
	const struct region_reference *reference;
	uint64_t hold, value;
	struct entry *entry;

	if (found->slot >= load_acquire(&domain->entries.ready))
		return 0;
	entry = entry_at(domain, found->slot);
	if (load_acquire(&entry->allocation) != found->generation)
		return 0;
	hold = load_acquire(&entry->hold);
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
