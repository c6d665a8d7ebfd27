/* SPDX-License-Identifier: BSD-3-Clause */
/* region_use.c -- use of a region by clients: client MRs, imports, last use */
#include "registration/region_use.h"

#include "base/atomics.h"
#include "registration/holds.h"
#include "registration/keys.h"
#include "registration/references.h"
#include "registration/lock.h"

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

bool region_is_idle(const struct region *region)
{
	return !region_is_held(region);
}

bool region_may_end(const struct region *region)
{
	return !region->users && region_is_idle(region);
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
		keys_publish_all(region);
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
