/* SPDX-License-Identifier: BSD-3-Clause */
/* entry.c -- entries: the regions that serve an allocation in a domain
 *
 * Each domain has an array, indexed by the allocation's slot. A slot may be reused before the
 * freeing event of its last allocation takes the lock, because the memory layer ends a record
 * first. So entries carry the allocation's id, and the next allocation of the slot ends what the
 * event would.
 */
#include "registration/entry.h"

#include "base/atomics.h"
#include "base/system.h"
#include "memory/lookup.h"
#include "registration/domain.h"
#include "registration/lock.h"
#include "report/statistics.h"

_Static_assert(POLICY_PARTS < 1 << 3 && POLICY_FAILURES < 1 << 2 && POLICY_MEMORY <= 1 << 5,
	       "struct entry has room for these numbers");
_Static_assert(sizeof(struct entry) == 64, "an entry is a cache line");

#define PLACES (1 + POLICY_PARTS)

static struct entry *entry_at(const struct domain *domain, uint32_t slot)
{
	return (struct entry *)domain->entries.base + slot;
}

struct entry *entry_of(const struct domain *domain, const struct allocation *allocation)
{
	struct entry *entry = allocation->slot < load_relaxed(&domain->entries.ready)
				      ? entry_at(domain, allocation->slot)
				      : NULL;

	registration_assert_held();
	return entry && load_relaxed(&entry->allocation) == allocation->id ? entry : NULL;
}

/* ---- regions of an entry ---- */

static unsigned int entry_first_place(const struct domain *domain)
{
	return domain->owner->own_keys ? 1 : 0;
}

struct entry_walk entry_walk(const struct domain *domain, const struct entry *entry)
{
	registration_assert_held();
	return (struct entry_walk){
		.entry = entry,
		.own = entry && domain->owner->own_keys ? LIST_FIRST(&entry->own) : NULL,
		.place = entry ? entry_first_place(domain) : PLACES,
	};
}

struct region *entry_next(struct entry_walk *walk)
{
	struct region *region = walk->own;

	if (region)
		walk->own = LIST_NEXT(region, in_entry);
	while (!region && walk->place < PLACES)
		region = holds_region(walk->entry->regions[walk->place++]);
	return region;
}

struct region *entry_whole(const struct domain *domain, const struct entry *entry,
			   const struct region_range *whole)
{
	struct entry_walk walk = entry_walk(domain, entry);
	struct region *region;

	while ((region = entry_next(&walk)) && !region_contains(region, whole->base, whole->length))
		;
	return region;
}

/* The allocation has been freed, or the place is for another region. */
static void entry_unname(struct entry *entry, struct region *region, struct region **ending)
{
	if (holds_hits(load_relaxed(&entry->hold)) == region->hits)
		store_release(&entry->hold, 0);
	if (!--region->entries)
		region_end(region, ending);
}

static bool entry_is_idle(uint64_t hold)
{
	const struct region *region = holds_region(hold);

	return !region || !region_is_held(region);
}

/* A place is unused, or its region idle. The least recently used of these; NULL: none. */
static uint64_t *entry_find_place(struct entry *entry)
{
	uint32_t now = load_relaxed(&holds_time), age, oldest = 0;
	const struct region *region;
	uint64_t *found = NULL;

	for (unsigned int i = 1; i < PLACES; i++) {
		region = holds_region(entry->regions[i]);
		if (!region)
			return &entry->regions[i];
		age = now - region_used_at(region);
		if (!region_is_held(region) && (!found || age > oldest)) {
			found = &entry->regions[i];
			oldest = age;
		}
	}
	return found;
}

bool entry_has_place(const struct domain *domain, const struct entry *entry,
		     const struct region_range *range)
{
	bool idle = domain->owner->own_keys || (range->whole && entry_is_idle(entry->regions[0]));

	for (unsigned int i = 1; !range->whole && !idle && i < PLACES; i++)
		idle = entry_is_idle(entry->regions[i]);
	return idle;
}

/* A hit may take a region that was idle. Its end takes it from the entries of all allocations:
 * while only another one named it, a late hit of this allocation would end with that one. */
static bool entry_empty(uint64_t *place, struct region **ending)
{
	struct region *region = holds_region(*place);

	if (region && (region_is_held(region) || !region_claim(region)))
		return false;
	if (region) {
		add_relaxed(&holds_time, 1);
		region_end(region, ending);
	}
	*place = 0;
	return true;
}

bool entry_name(struct domain *domain, struct entry *entry, struct region *region,
		const struct region_range *range, struct region **ending)
{
	uint64_t *place;

	registration_assert_held();
	if (domain->owner->own_keys) {
		LIST_INSERT_HEAD(&entry->own, region, in_entry);
		region->listed = true;
	} else {
		place = range->whole ? &entry->regions[0] : entry_find_place(entry);
		if (!place || !entry_empty(place, ending))
			return false;
		*place = holds_of(region->hits);
	}
	region->entries++;
	if (!range->whole && entry->made < POLICY_PARTS)
		entry->made++;
	return true;
}

void entry_end_parts(const struct domain *domain, const struct entry *entry,
		     const struct region *by, struct region **ending)
{
	struct entry_walk walk = entry_walk(domain, entry);
	struct region *region;

	while ((region = entry_next(&walk))) {
		if (region->length < by->length && region->entries == 1 &&
		    region_contains(by, region->base, region->length) && !region_is_held(region) &&
		    region_claim(region))
			region_end(region, ending);
	}
}

/* ---- begin and end of an entry ---- */

/* True: it named a region. */
static bool entry_end(const struct domain *domain, struct entry *entry, struct region **ending)
{
	struct entry_walk walk = entry_walk(domain, entry);
	struct region *region;
	bool any = false;

	store_release(&entry->allocation, 0);
	store_release(&entry->hold, 0);
	while ((region = entry_next(&walk))) {
		any = true;
		region->freed = region->entries == 1;
		entry_unname(entry, region, ending);
	}
	for (unsigned int i = 0; i < PLACES; i++)
		entry->regions[i] = 0;
	entry->made = entry->requested = 0;
	entry->failures = entry->whole_failures = entry->forwards = 0;
	return any;
}

struct entry *entry_claim(struct domain *domain, const struct allocation *allocation,
			  struct region **ending)
{
	struct entry *entry;

	registration_assert_held();
	if (arena_grow(&domain->entries, allocation->slot + 1))
		return NULL;
	entry = entry_at(domain, allocation->slot);
	if (load_relaxed(&entry->allocation) > allocation->id)
		return NULL;
	if (load_relaxed(&entry->allocation) != allocation->id) {
		entry_end(domain, entry, ending);
		store_release(&entry->allocation, allocation->id);
	}
	return entry;
}

/* The next span in the domain that needs the mapping; NULL: none. `last`: NULL at first. */
static struct region *entry_next_span(const struct domain *domain, const struct allocation *mapping,
				      const struct region *last)
{
	struct region *region = last ? LIST_NEXT(last, in_entry) : LIST_FIRST(&domain->spans);

	while (region && !region_overlaps(region, mapping->base, mapping->size))
		region = LIST_NEXT(region, in_entry);
	return region;
}

/* True: there was one. */
static bool entry_end_spans(const struct domain *domain, const struct allocation *mapping,
			    struct region **ending)
{
	struct region *region;
	bool any = false;

	while ((region = entry_next_span(domain, mapping, NULL))) {
		region->freed = any = true;
		region_end(region, ending);
	}
	return any;
}

bool entry_end_all(const struct allocation *allocation, struct region **ending, uint64_t *since)
{
	struct domain *domain = NULL;
	struct region *before;
	struct entry *entry;
	bool any = false;

	registration_assert_held();
	while ((domain = domain_after(domain, domain ? domain->number : 0))) {
		if (allocation->gone)
			region_unshare_around(domain, allocation);
		entry = entry_of(domain, allocation);
		before = *ending;
		any |= entry && entry_end(domain, entry, ending);
		any |= entry_end_spans(domain, allocation, ending);
		if (!*since && *ending != before)
			*since = system_clock();
	}
	return any;
}

bool entry_is_in_use(const struct allocation *allocation)
{
	const struct region *region = NULL;
	struct domain *domain = NULL;
	struct entry_walk walk;

	registration_assert_held();
	while (!region && (domain = domain_after(domain, domain ? domain->number : 0))) {
		walk = entry_walk(domain, entry_of(domain, allocation));
		while ((region = entry_next(&walk)) && !region_is_held(region))
			;
		if (region)
			break;
		do {
			region = entry_next_span(domain, allocation, region);
		} while (region && !region_is_held(region));
	}
	return region;
}

/* ---- failures ---- */

/* After POLICY_FAILURES further tries of parts are rare: another part may work. The whole is not
 * tried again. */
bool entry_count_failure(struct entry *entry, bool whole)
{
	bool first = !entry->failures && !whole;

	registration_assert_held();
	if (whole) {
		entry->whole_failures += entry->whole_failures < POLICY_FAILURES;
		return false;
	}
	entry->failures += entry->failures < POLICY_FAILURES;
	entry->forwards = entry->failures < POLICY_FAILURES ? 0 : POLICY_MEMORY - 1;
	return first;
}

bool entry_may_try(struct entry *entry, bool whole)
{
	registration_assert_held();
	if (whole ? entry->whole_failures < POLICY_FAILURES : !entry->forwards)
		return true;
	entry->forwards -= !whole;
	return false;
}

/* ---- hits ---- */

/* A published hold of a region that contains this one stays: the last one for a part would
 * otherwise replace the one for the whole. Hits neither use spans nor unique keys. */
void entry_publish(struct entry *entry, struct region *region)
{
	const struct region *published = holds_region(load_relaxed(&entry->hold));

	registration_assert_held();
	if (region->spans || region->owner->own_keys ||
	    (published && region_contains(published, region->base, region->length)))
		return;
	store_release(&entry->hold, holds_of(region->hits));
}

uint64_t entry_find_hold(const struct domain *domain, const struct found *found, uint64_t address,
			 uint64_t length, struct registration_keys *to)
{
	const struct region_hits *hits;
	uint64_t hold, value;
	struct entry *entry;

	if (found->slot >= load_acquire(&domain->entries.ready))
		return 0;
	entry = entry_at(domain, found->slot);
	if (load_acquire(&entry->allocation) != found->generation)
		return 0;
	hold = load_acquire(&entry->hold);
	hits = holds_hits(hold);
	if (!hold || !holds_serve(hits, address, length))
		return 0;
	value = load_acquire(&hits->keys);
	*to = (struct registration_keys){ .kernel_handle = load_acquire(&hits->kernel_handle),
					  .lkey = (uint32_t)(value >> 32),
					  .rkey = (uint32_t)value };
	return hold;
}
