/* SPDX-License-Identifier: BSD-3-Clause */
/* region_end.c -- end and deregistration of a region
 *
 * A region in flight that ends is deregistered by the thread that registers it, any other by the
 * thread that ends it. An ended region is in the list of retiring regions until then:
 * region_await_range() and region_await_owner() wait for that.
 */
#include "registration/region_end.h"

#include "base/system.h"
#include "registration/domain.h"
#include "registration/holds.h"
#include "registration/lock.h"
#include "registration/methods.h"
#include "registration/pin_limit.h"
#include "registration/ready_exports.h"
#include "registration/region.h"
#include "registration/region_report.h"
#include "report/statistics.h"
#include "report/trace.h"

static LIST_HEAD(, region) retiring; /* ended, possibly still registered */

static void region_finish_retiring(struct region *region)
{
	registration_check(region->ended && !region->references && region->users);
	LIST_REMOVE(region, in_domain);
	pin_limit_remove(region);
	region_release_user(region);
	registration_wake();
}

/* A thread is in the driver or the kernel with the region's memory and domain, or the worker has a
 * dma-buf open, which would keep freed memory allocated. */
static bool region_is_in_flight(const struct region *region)
{
	return region->state == REGION_REGISTERING || region->with_worker;
}

void region_end(struct region *region, struct region **ending)
{
	registration_assert_held();
	registration_check(!region->ended);
	region->users++;
	region->ended = true;
	ready_export_end(region);
	pin_limit_set_evictable(region, false);
	region_leave_indexes(region);
	LIST_INSERT_HEAD(&retiring, region, in_domain);
	if (region->speculative && !region->used)
		domain_count_vain(region->domain, region->size);
	if (!region_is_in_flight(region))
		region_retire(region, ending);
}

void region_retire(struct region *region, struct region **ending)
{
	registration_assert_held();
	if (!region->mr) {
		region_finish_retiring(region);
		return;
	}
	region->ending_next = *ending;
	*ending = region;
}

static void region_end_references_in(struct domain *domain, const struct allocation *allocation,
				     struct region **ending, uint64_t *since)
{
	struct region_reference *reference;
	struct region *region;

	while ((reference = region_find_reference(domain, allocation->slot, allocation->id))) {
		region = reference->region;
		region_remove_reference(reference);
		if (region->references && !region->spans)
			continue;
		region->freed = true;
		if (!*since && (region->mr || region->users))
			*since = system_clock();
		region_end(region, ending);
	}
}

void region_end_references(const struct allocation *allocation, struct region **ending,
			   uint64_t *since)
{
	struct domain *domain = NULL;

	while ((domain = domain_after(domain, domain ? domain->number : 0)))
		region_end_references_in(domain, allocation, ending, since);
}

void region_end_parts(const struct allocation *allocation, struct domain *domain,
		      const struct region *by, struct region **ending)
{
	struct region_reference *reference, *next;
	struct region *region;

	registration_assert_held();
	for (reference = region_find_reference(domain, allocation->slot, allocation->id); reference;
	     reference = next) {
		next = region_next_reference(reference);
		region = reference->region;
		if (region != by && !reference->whole && !region->spans &&
		    region->base >= by->base &&
		    region->base + region->length <= by->base + by->length &&
		    region_may_end(region) && !region_is_shared(region) && region_claim(region))
			region_end(region, ending);
	}
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

void region_unpin_all(struct region **ending)
{
	struct region *region;
	int held;

	while ((region = *ending)) {
		*ending = region->ending_next;
		held = system_hold_cancellation();
		region_unpin(region);
		registration_lock();
		region_finish_retiring(region);
		registration_unlock();
		system_release_cancellation(held);
	}
}

void region_flush(struct region **ending)
{
	registration_assert_held();
	if (!*ending)
		return;
	registration_unlock();
	region_unpin_all(ending);
	registration_lock();
}

static bool region_overlaps(const struct region *region, uint64_t base, uint64_t size)
{
	return region->base < base + size && base < region->base + region->length;
}

void region_await_range(uint64_t base, uint64_t size, struct region **ending, uint64_t *since)
{
	struct region *region;

	registration_assert_held();
	region_flush(ending);
	do {
		LIST_FOREACH(region, &retiring, in_domain) {
			if (region_overlaps(region, base, size))
				break;
		}
		if (region && !*since)
			*since = system_clock();
		if (region)
			registration_sleep();
	} while (region);
}

void region_await_owner(const struct protection_domain *owner, struct region **ending)
{
	struct region *region;

	registration_assert_held();
	region_flush(ending);
	do {
		LIST_FOREACH(region, &retiring, in_domain) {
			if (region->owner == owner)
				break;
		}
		if (region)
			registration_sleep();
	} while (region);
}
