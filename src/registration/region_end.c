/* SPDX-License-Identifier: BSD-3-Clause */
/* region_end.c -- end and deregistration of a region
 *
 * A thread that ends a region waits for its registration first. An ended region is in the list of
 * retiring regions until deregistered: region_await_range() and region_await_owner() wait for that.
 */
#include "registration/region_end.h"

#include "base/system.h"
#include "registration/cost.h"
#include "registration/holds.h"
#include "registration/learning.h"
#include "registration/pin_limit.h"
#include "registration/ready_exports.h"
#include "registration/region.h"
#include "registration/region_report.h"
#include "registration/session.h"
#include "report/statistics.h"
#include "report/trace.h"

static LIST_HEAD(, region) retiring; /* ended, possibly still registered */

static void region_finish_retiring(struct region *region)
{
	session_check(region->ended && !region->references && region->users);
	LIST_REMOVE(region, in_domain);
	pin_limit_remove(region);
	region_release_user(region);
	session_wake();
}

/* A thread is in the driver or the kernel with the region's memory and domain, or the worker has a
 * dma-buf open, which would keep freed memory allocated. */
static bool region_is_in_flight(const struct region *region)
{
	return region->state == REGION_REGISTERING || region->with_worker;
}

/* Without sleeping for twice the region's usual time: the wake-up of a thread may take longer than
 * a registration. */
void region_wait(const struct region *region, uint64_t since)
{
	session_sleep_after(since + 2 * cost_usual(region->owner->adapter, region->length),
			    region->with_worker);
}

static void region_await_flight(const struct region *region)
{
	for (uint64_t since = system_clock(); region_is_in_flight(region);)
		region_wait(region, since);
}

void region_end(struct region *region)
{
	session_assert();
	session_check(!region->ended);
	region->users++;
	region->ended = true;
	ready_export_end(region);
	pin_limit_set_evictable(region, false);
	region_leave_indexes(region);
	LIST_INSERT_HEAD(&retiring, region, in_domain);
	/* The wait ends the session, and so deregisters the regions ended so far: the registering
	 * thread may wait for them, in a free inside pin(). */
	if (region_is_in_flight(region))
		region_await_flight(region);
	if (!region->used)
		learning_unused(region->domain, &region->learning_kind);
	if (region->mr)
		session_add_ended(region);
	else
		region_finish_retiring(region);
}

bool region_end_references(const struct allocation *allocation, uint64_t *since)
{
	struct region_reference *reference = region_first_in_slot(allocation->slot), *next;
	struct region *region;
	bool any = false;

	while (reference) {
		next = holds_at(reference->next_in_slot);
		if (reference->allocation != allocation->id) {
			reference = next;
			continue;
		}
		any = true;
		region = reference->region;
		region_remove_reference(reference);
		if (region->references && !region->spans) {
			reference = next;
			continue;
		}
		region->freed = true;
		if (!*since && (region->mr || region->users))
			*since = system_clock();
		region_end(region);
		/* region_end() may have dropped the lock. */
		reference = region_first_in_slot(allocation->slot);
	}
	return any;
}

static void region_unpin(struct region *region)
{
	uint64_t start = region_is_reported() ? system_clock() : 0;
	int error = region->method->unpin(region->mr);

	region_report_ended(region, error, start);
	statistics_count(deregistrations);
	if (region->freed)
		statistics_count(invalidated);
	statistics_pinned(-(int64_t)region->length);
	if (trace_is_on())
		trace_pinned(statistics_get(pinned_bytes));
	if (region->used)
		return;
	statistics_take(never_used_pinned, 1);
}

void region_unpin_all(struct region *ending)
{
	struct region *region;
	int held;

	while ((region = ending)) {
		ending = region->ending_next;
		held = system_hold_cancellation();
		region_unpin(region);
		lock_take(&registration_lock);
		region_finish_retiring(region);
		lock_drop(&registration_lock);
		system_release_cancellation(held);
	}
}

static bool region_overlaps(const struct region *region, uint64_t base, uint64_t size)
{
	return region->base < base + size && base < region->base + region->length;
}

void region_await_range(uint64_t base, uint64_t size, uint64_t *since)
{
	struct region *region;

	session_assert();
	session_flush();
	do {
		LIST_FOREACH(region, &retiring, in_domain) {
			if (region_overlaps(region, base, size))
				break;
		}
		if (region && !*since)
			*since = system_clock();
		if (region)
			session_sleep(true);
	} while (region);
}

void region_await_owner(const struct protection_domain *owner)
{
	struct region *region;

	session_assert();
	session_flush();
	do {
		LIST_FOREACH(region, &retiring, in_domain) {
			if (region->owner == owner)
				break;
		}
		if (region)
			session_sleep(true);
	} while (region);
}
