/* SPDX-License-Identifier: BSD-3-Clause */
/* keys.c -- wait-free look-up from an address to the keys of its region
 *
 * Each domain has an array, indexed by the allocation's slot. A slot may be reused before the keys
 * of its last allocation are withdrawn, because the memory layer ends a record before it calls
 * subscribers. So array entries carry the allocation's id.
 *
 * The first MEMORY_USER_WORDS domains also keep their keys in user words beside each allocation's
 * record: a look-up touches one cache line for the allocation and its keys. The memory layer stores
 * a user word only while the allocation is live, and a reader checks at the end that it still is.
 * So no look-up returns keys of a freed allocation.
 */
#include "registration/keys.h"

#include "base/atomics.h"
#include "memory/lookup.h"
#include "registration/holds.h"
#include "registration/policy.h"
#include "registration/session_lock.h"
#include "report/statistics.h"

static bool words_used[MEMORY_USER_WORDS]; /* user words in use by a domain; guarded by
					      registration_lock */

void keys_begin(struct domain *domain)
{
	unsigned int which = 0;

	session_assert();
	while (which < MEMORY_USER_WORDS && words_used[which])
		which++;
	if (which < MEMORY_USER_WORDS)
		words_used[which] = true;
	store_relaxed(&domain->user_word, which);
	/* The array stays with the struct: a look-up that began in an earlier domain may still read
	 * it. */
	if (!domain->keys.size)
		domain->keys = (struct arena)ARENA_INITIALIZER(struct keys, ALLOCATIONS_MAX);
}

void keys_end(struct domain *domain)
{
	unsigned int which = exchange_relaxed(&domain->user_word, MEMORY_USER_WORDS);

	session_assert();
	if (which < MEMORY_USER_WORDS)
		words_used[which] = false;
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

	session_assert();
	return keys && load_relaxed(&keys->allocation) == allocation ? keys : NULL;
}

/* The freeing event of the slot's last allocation may still wait for the lock. */
struct keys *keys_claim(struct domain *domain, uint32_t slot, uint64_t allocation)
{
	struct keys *keys;

	session_assert();
	if (arena_grow(&domain->keys, slot + 1))
		return NULL;
	keys = keys_at(domain, slot);
	if (load_relaxed(&keys->allocation) > allocation)
		return NULL;
	if (load_relaxed(&keys->allocation) != allocation) {
		store_release(&keys->allocation, 0);
		store_release(&keys->keys, 0);
		store_release(&keys->hold, 0);
		keys->parts = keys->spans = 0;
		keys->made = keys->requested = 0;
		keys->failures = keys->whole_failures = keys->forwards = 0;
		store_release(&keys->allocation, allocation);
	}
	return keys;
}

_Static_assert(2 * POLICY_PARTS < 1 << 5 && POLICY_FAILURES < 1 << 2 && POLICY_MEMORY <= 1 << 5,
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
	if (reference->whole)
		store_release(&keys->keys, keys_value(region));
	if (reference->used && !region->owner->own_keys &&
	    (reference->whole || !region->domain->looked_up) &&
	    !keys_is_served_by(load_relaxed(&keys->hold), reference))
		store_release(&keys->hold, holds_of(reference));
}

static void keys_set_word(const struct region_reference *reference, unsigned int which,
			  uint64_t value)
{
	struct allocation allocation = { .id = reference->allocation, .slot = reference->slot };

	memory_set_user_word(&allocation, which, value);
}

/* Store the hold after the keys: a hit reads it before them. */
void keys_publish(const struct region *region, struct region_reference *reference)
{
	unsigned int which = load_relaxed(&region->domain->user_word);

	session_assert();
	if (region->ended || region->state != REGION_READY || region->spans)
		return;
	store_release(&reference->keys, keys_value(region));
	store_release(&reference->kernel_handle, region->keys.kernel_handle);
	if (reference->whole && which < MEMORY_USER_WORDS)
		keys_set_word(reference, which, keys_value(region));
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
	unsigned int which = load_relaxed(&region->domain->user_word);

	session_assert();
	if (reference->whole && which < MEMORY_USER_WORDS)
		keys_set_word(reference, which, 0);
	if (!keys)
		return;
	if (reference->whole)
		store_release(&keys->keys, 0);
	if (holds_reference(load_relaxed(&keys->hold)) == reference)
		store_release(&keys->hold, 0);
}

void keys_withdraw_parts(const struct region *region)
{
	const struct region_reference *reference = holds_at(region->references);

	for (; reference; reference = holds_at(reference->next_in_region)) {
		if (!reference->whole)
			keys_withdraw(region, reference);
	}
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

/* Verify mode: compare with the driver. */
static __attribute__((noinline)) bool keys_is_confirmed(uint64_t address)
{
	struct allocation allocation;

	return memory_find(address, &allocation) && memory_check(&allocation);
}

/* The keys beside the record of the allocation that contains the whole range, found from `word`; 0:
 * none. */
LOOKUP_INLINE uint64_t keys_read_word(const struct domain *domain, unsigned int which,
				      uint64_t word, uint64_t address, uint64_t length, int access)
{
	struct found found;
	uint64_t value;

	if (!lookup_from(word, address, &found) || length > found.size - found.offset ||
	    load_relaxed(&domain->access) != access)
		return 0;
	value = load_acquire(&found.record->user_words[which]);
	return lookup_is_same(&found) ? value : 0;
}

/* The keys in the domain's array; 0: none. Kept memory hides the user words alone. */
static uint64_t keys_read_array(const struct domain *domain, uint64_t address, uint64_t length,
				int access)
{
	struct found found;
	struct keys *keys;
	uint64_t value;

	if (!lookup(address, &found) || length > found.size - found.offset ||
	    load_relaxed(&domain->access) != access ||
	    found.slot >= load_acquire(&domain->keys.ready))
		return 0;
	keys = keys_at(domain, found.slot);
	if (load_acquire(&keys->allocation) != found.generation ||
	    (load_acquire(&found.record->traits) & TRAIT_HIDDEN))
		return 0;
	value = load_acquire(&keys->keys);
	return lookup_is_same(&found) ? value : 0;
}

LOOKUP_INLINE bool keys_return(uint64_t value, uint32_t *lkey, uint32_t *rkey)
{
	if (!value)
		return false;
	*lkey = (uint32_t)(value >> 32);
	*rkey = (uint32_t)value;
	statistics_tally(TALLY_look_ups);
	return true;
}

/* Three functions, so that the common paths save and restore no registers. registration_find()
 * handles a block with one allocation from its start; keys_find_inside() a block in which
 * allocations begin. keys_find() handles the rest: a domain without a user_word, a thread that
 * counts for the first time, and verify mode. */
static __attribute__((noinline)) bool keys_find(const struct domain *domain, uint64_t address,
						uint64_t length, int access, uint32_t *lkey,
						uint32_t *rkey)
{
	unsigned int which = load_relaxed(&domain->user_word);
	uint64_t value = which < MEMORY_USER_WORDS
				 ? keys_read_word(domain, which, lookup_block(address), address,
						  length, access)
				 : keys_read_array(domain, address, length, access);

	if (value && memory_is_verified() && !keys_is_confirmed(address))
		return false;
	return keys_return(value, lkey, rkey);
}

static __attribute__((noinline)) bool keys_find_inside(const struct domain *domain,
						       uint64_t address, uint64_t length,
						       int access, uint32_t *lkey, uint32_t *rkey)
{
	unsigned int which = load_relaxed(&domain->user_word);

	if (__builtin_expect(which >= MEMORY_USER_WORDS || !statistics_mine || memory_is_verified(),
			     0))
		return keys_find(domain, address, length, access, lkey, rkey);
	return keys_return(
		keys_read_word(domain, which, lookup_block(address), address, length, access), lkey,
		rkey);
}

bool registration_find(const struct domain *domain, uint64_t address, uint64_t length, int access,
		       uint32_t *lkey, uint32_t *rkey)
{
	uint64_t word = lookup_block(address), value;
	struct tallies *counters = statistics_mine;
	unsigned int which;
	struct found found;

	if (lookup_entry_inside(word))
		return keys_find_inside(domain, address, length, access, lkey, rkey);
	if (!lookup_at((uint32_t)word, address, &found) || length > found.size - found.offset)
		return false;
	which = load_relaxed(&domain->user_word);
	if (__builtin_expect(which >= MEMORY_USER_WORDS || !counters || memory_is_verified(), 0))
		return keys_find(domain, address, length, access, lkey, rkey);
	value = load_acquire(&found.record->user_words[which]);
	if (load_relaxed(&domain->access) != access || !value || !lookup_is_same(&found))
		return false;
	*lkey = (uint32_t)(value >> 32);
	*rkey = (uint32_t)value;
	statistics_tally_own(counters, TALLY_look_ups);
	return true;
}
