/* SPDX-License-Identifier: BSD-3-Clause */
/* keys.c -- from an address to the keys of its region, on each use and without a lock
 *
 * Each domain has an array of keys, by the place that memory gave the allocation. A place may be another allocation's
 * before the keys of the last one are withdrawn, since memory ends a record before it tells of it. So the keys carry
 * the id that they are for, and a reader that has found them asks once more whether the record is still that
 * allocation's: no keys of an allocation that has ended are ever handed out.
 */
#include "registration/internal.h"

#include "base/statistics.h"
#include "memory/lookup.h"

#define KEYS_MAX (1u << 22)

#define store(place, value) atomic_store_explicit((place), (value), memory_order_release)

static struct keys *keys_of(const struct domain *domain, uint32_t place)
{
	return (struct keys *)domain->keys.base + place;
}

void keys_publish(const struct region *region, const struct tenancy *tenancy)
{
	struct domain *domain = region->domain;
	struct keys *keys;

	if (region->ended || region->state != REGION_READY)
		return;
	if (!domain->keys.size)
		domain->keys = (struct arena)ARENA_INITIALIZER(struct keys, KEYS_MAX);
	if (arena_grow(&domain->keys, tenancy->place + 1))
		return;
	keys = keys_of(domain, tenancy->place);
	store(&keys->allocation, 0);
	store(&keys->keys, (uint64_t)region->keys.lkey << 32 | region->keys.rkey);
	store(&keys->allocation, tenancy->allocation);
}

void keys_publish_all(const struct region *region)
{
	for (const struct tenancy *tenancy = region->tenancies; tenancy; tenancy = tenancy->region_next)
		keys_publish(region, tenancy);
}

void keys_withdraw(const struct region *region, const struct tenancy *tenancy)
{
	struct keys *keys;

	if (tenancy->place >= atomic_load_explicit(&region->domain->keys.ready, memory_order_relaxed))
		return;
	keys = keys_of(region->domain, tenancy->place);
	if (lookup_load(&keys->allocation) == tenancy->allocation)
		store(&keys->allocation, 0);
}

/* Where every use is compared with the driver. */
static __attribute__((noinline)) bool is_confirmed(uint64_t address)
{
	struct allocation allocation;

	return memory_find(address, &allocation) && memory_check(&allocation);
}

bool registration_find(const struct domain *domain, uint64_t address, uint64_t length, int access,
		       uint32_t *lkey, uint32_t *rkey)
{
	uint64_t generation, offset, value;
	struct record *record = lookup(address, &generation);
	struct keys *keys;
	uint32_t place;

	if (!record || atomic_load_explicit(&domain->access, memory_order_relaxed) != access)
		return false;
	offset = address - lookup_load(&record->base);
	if (length > lookup_load(&record->size) - offset)
		return false;
	place = (uint32_t)(record - lookup_records);
	if (place >= lookup_load(&domain->keys.ready))
		return false;
	keys = keys_of(domain, place);
	if (lookup_load(&keys->allocation) != generation)
		return false;
	value = lookup_load(&keys->keys);
	if (!lookup_is_same(record, generation))
		return false;
	if (__builtin_expect(memory_is_distrusted(), 0) && !is_confirmed(address))
		return false;
	*lkey = (uint32_t)(value >> 32);
	*rkey = (uint32_t)value;
	statistics_tally(TALLY_look_ups);
	return true;
}
