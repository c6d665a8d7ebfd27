/* SPDX-License-Identifier: BSD-3-Clause */
/* keys.c -- from an address to the keys of its region, on each use and without a lock
 *
 * The first two domains have their keys in the notes beside each record: a look-up touches one cache line for the
 * allocation and its keys. Memory stores a note only while the allocation lives, and a reader asks at its end whether it
 * still does: no keys of an allocation that has ended are ever handed out.
 *
 * Further domains have an array each, by the slot that memory gave the allocation. A slot may be another allocation's
 * before the keys of the last one are withdrawn, since memory ends a record before it tells of it. So there the keys
 * carry the id that they are for.
 */
#include "registration/internal.h"

#include "base/statistics.h"
#include "memory/lookup.h"

#define KEYS_MAX (1u << 22)

#define store(word, value) atomic_store_explicit((word), (value), memory_order_release)

static bool noted[MEMORY_NOTES]; /* which notes have a domain; guarded by registration_lock */

void keys_begin(struct domain *domain)
{
	unsigned int which = 0;

	while (which < MEMORY_NOTES && noted[which])
		which++;
	if (which < MEMORY_NOTES)
		noted[which] = true;
	atomic_store_explicit(&domain->note, which, memory_order_relaxed);
	/* The array stays with the struct, which a look-up may still be reading that began in another domain. */
	if (!domain->keys.size)
		domain->keys = (struct arena)ARENA_INITIALIZER(struct keys, KEYS_MAX);
}

void keys_end(struct domain *domain)
{
	unsigned int which = atomic_exchange_explicit(&domain->note, MEMORY_NOTES, memory_order_relaxed);

	if (which < MEMORY_NOTES)
		noted[which] = false;
}

static struct keys *keys_of(const struct domain *domain, uint32_t slot)
{
	return (struct keys *)domain->keys.base + slot;
}

static uint64_t value_of(const struct region *region)
{
	return (uint64_t)region->keys.lkey << 32 | region->keys.rkey;
}

/* The allocation may have ended, and its being freed() wait for the lock: the slot may be another's by now, whose keys must stay.
 * One that lives has had it since before this lock was taken. And keys that stand there already are not
 * taken away from who looks them up at this moment. */
static void publish_in_array(struct domain *domain, const struct region_reference *reference, uint64_t value)
{
	struct allocation allocation = { .id = reference->allocation, .slot = reference->slot };
	struct keys *keys;

	if (!memory_is_alive(&allocation) || arena_grow(&domain->keys, reference->slot + 1))
		return;
	keys = keys_of(domain, reference->slot);
	if (lookup_load(&keys->allocation) == reference->allocation && lookup_load(&keys->keys) == value)
		return;
	store(&keys->allocation, 0);
	store(&keys->keys, value);
	store(&keys->allocation, reference->allocation);
}

static void note(const struct region_reference *reference, unsigned int which, uint64_t value)
{
	struct allocation allocation = { .id = reference->allocation, .slot = reference->slot };

	memory_note(&allocation, which, value);
}

void keys_publish(const struct region *region, const struct region_reference *reference)
{
	unsigned int which = atomic_load_explicit(&region->domain->note, memory_order_relaxed);

	if (region->ended || region->state != REGION_READY)
		return;
	if (which < MEMORY_NOTES)
		note(reference, which, value_of(region));
	else
		publish_in_array(region->domain, reference, value_of(region));
}

void keys_publish_all(const struct region *region)
{
	for (const struct region_reference *reference = region->references; reference;
	     reference = reference->region_next)
		keys_publish(region, reference);
}

void keys_withdraw(const struct region *region, const struct region_reference *reference)
{
	unsigned int which = atomic_load_explicit(&region->domain->note, memory_order_relaxed);
	struct keys *keys;

	if (which < MEMORY_NOTES) {
		note(reference, which, 0);
		return;
	}
	if (reference->slot >= atomic_load_explicit(&region->domain->keys.ready, memory_order_relaxed))
		return;
	keys = keys_of(region->domain, reference->slot);
	if (lookup_load(&keys->allocation) == reference->allocation)
		store(&keys->allocation, 0);
}

/* Where every use is compared with the driver. */
static __attribute__((noinline)) bool is_confirmed(uint64_t address)
{
	struct allocation allocation;

	return memory_find(address, &allocation) && memory_check(&allocation);
}

/* The keys beside the record of the allocation that contains all of the range, on the way from `word`; 0: none. */
LOOKUP_INLINE uint64_t read_note(const struct domain *domain, unsigned int which, uint64_t word,
				 uint64_t address, uint64_t length, int access)
{
	struct found found;
	uint64_t value;

	if (!lookup_from(word, address, &found) || length > found.size - found.offset ||
	    atomic_load_explicit(&domain->access, memory_order_relaxed) != access)
		return 0;
	value = lookup_load(&found.record->notes[which]);
	return lookup_is_same(&found) ? value : 0;
}

/* The same from the domain's array. */
static uint64_t read_array(const struct domain *domain, uint64_t address, uint64_t length, int access)
{
	struct found found;
	struct keys *keys;
	uint64_t value;

	if (!lookup(address, &found) || length > found.size - found.offset ||
	    atomic_load_explicit(&domain->access, memory_order_relaxed) != access ||
	    found.slot >= lookup_load(&domain->keys.ready))
		return 0;
	keys = keys_of(domain, found.slot);
	if (lookup_load(&keys->allocation) != found.generation)
		return 0;
	value = lookup_load(&keys->keys);
	return lookup_is_same(&found) ? value : 0;
}

LOOKUP_INLINE bool hand_out(uint64_t value, uint32_t *lkey, uint32_t *rkey)
{
	if (!value)
		return false;
	*lkey = (uint32_t)(value >> 32);
	*rkey = (uint32_t)value;
	statistics_tally(TALLY_look_ups);
	return true;
}

/*
 * Three functions, so that none of them saves and restores registers for what most calls do not do: the first takes what
 * begins with its block, the second what begins inside of one, the last all else: a domain without a note, a thread
 * that counts for the first time, uses that are compared with the driver.
 */
static __attribute__((noinline)) bool find(const struct domain *domain, uint64_t address, uint64_t length,
					   int access, uint32_t *lkey, uint32_t *rkey)
{
	unsigned int which = atomic_load_explicit(&domain->note, memory_order_relaxed);
	uint64_t value = which < MEMORY_NOTES
				 ? read_note(domain, which, lookup_block(address), address, length, access)
				 : read_array(domain, address, length, access);

	if (value && memory_is_verified() && !is_confirmed(address))
		return false;
	return hand_out(value, lkey, rkey);
}

static __attribute__((noinline)) bool find_inside(const struct domain *domain, uint64_t address,
						  uint64_t length, int access, uint32_t *lkey, uint32_t *rkey)
{
	unsigned int which = atomic_load_explicit(&domain->note, memory_order_relaxed);

	if (__builtin_expect(which >= MEMORY_NOTES || !statistics_mine || memory_is_verified(), 0))
		return find(domain, address, length, access, lkey, rkey);
	return hand_out(read_note(domain, which, lookup_block(address), address, length, access), lkey, rkey);
}

bool registration_find(const struct domain *domain, uint64_t address, uint64_t length, int access,
		       uint32_t *lkey, uint32_t *rkey)
{
	uint64_t word = lookup_block(address), value;
	struct tallies *mine = statistics_mine;
	unsigned int which;
	struct found found;

	if (entry_inside(word))
		return find_inside(domain, address, length, access, lkey, rkey);
	if (!lookup_at((uint32_t)word, address, &found) || length > found.size - found.offset)
		return false;
	which = atomic_load_explicit(&domain->note, memory_order_relaxed);
	if (__builtin_expect(which >= MEMORY_NOTES || !mine || memory_is_verified(), 0))
		return find(domain, address, length, access, lkey, rkey);
	value = lookup_load(&found.record->notes[which]);
	if (atomic_load_explicit(&domain->access, memory_order_relaxed) != access || !value ||
	    !lookup_is_same(&found))
		return false;
	*lkey = (uint32_t)(value >> 32);
	*rkey = (uint32_t)value;
	statistics_tally_own(mine, TALLY_look_ups);
	return true;
}
