/* SPDX-License-Identifier: BSD-3-Clause */
/* references.c -- the references of all regions: unused, and ended with revoked client MRs */
#include "registration/references.h"

#include "base/atomics.h"
#include "registration/holds.h"
#include "registration/lock.h"

struct arena region_references = ARENA_INITIALIZER(struct region_reference, HOLDS_REFERENCES);
struct arena holds_pages =
	ARENA_INITIALIZER(struct holds_page, HOLDS_REFERENCES / HOLDS_PAGE * HOLDS_STRIPES);
_Atomic uint32_t holds_time;
static uint32_t unused_references; /* number of the first */

static bool references_grow(void)
{
	uint32_t number = region_references.used;

	return !arena_grow(&region_references, number + 1) &&
	       !arena_grow(&holds_pages, (number / HOLDS_PAGE + 1) * HOLDS_STRIPES);
}

struct region_reference *references_take(struct region *region)
{
	struct region_reference *reference = holds_at(unused_references);

	registration_assert_held();
	if (reference)
		unused_references = reference->next;
	else if (references_grow())
		reference = holds_reference(0) + arena_next(&region_references);
	else
		return NULL;
	registration_check(!holds_any(reference));
	reference->region = region;
	reference->used = reference->leads = false;
	store_relaxed(&reference->used_at, load_relaxed(&holds_time));
	return reference;
}

static void references_put_unused(struct region_reference *reference)
{
	reference->next = unused_references;
	unused_references = holds_number(reference);
}

/* ---- revoked ---- */

static struct region_reference *references_take_revoked(struct protection_domain *owner)
{
	struct region_reference *reference = holds_at(owner->revoked);

	if (reference)
		owner->revoked = reference->next;
	return reference;
}

/* Puts the reference at the end of the list; or, without client MRs, among the unused ones: false.
 */
static bool references_keep(struct protection_domain *owner, struct region_reference *reference)
{
	uint32_t number = holds_number(reference);

	if (!holds_any(reference)) {
		references_put_unused(reference);
		return false;
	}
	reference->owner = owner;
	reference->next = 0;
	if (owner->revoked)
		holds_at(owner->last_revoked)->next = number;
	else
		owner->revoked = number;
	owner->last_revoked = number;
	return true;
}

/* A deregistration takes no lock, so it leaves the reference in the list. Each
 * reference that ends checks two others: the list is no longer than the most revoked client MRs
 * that the client had at once. */
void references_put(struct protection_domain *owner, struct region_reference *reference)
{
	registration_assert_held();
	for (int others = 2; reference; others--) {
		references_keep(owner, reference);
		reference = others ? references_take_revoked(owner) : NULL;
	}
}

void references_forget(struct region_reference *reference)
{
	registration_assert_held();
	holds_forget(reference);
	references_put_unused(reference);
}

bool references_any_revoked(struct protection_domain *owner)
{
	struct region_reference *reference = references_take_revoked(owner);

	while (reference && !references_keep(owner, reference))
		reference = references_take_revoked(owner);
	return reference;
}

void references_forget_revoked(struct protection_domain *owner)
{
	struct region_reference *reference;

	while ((reference = references_take_revoked(owner)))
		references_forget(reference);
}
