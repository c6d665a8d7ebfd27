/* SPDX-License-Identifier: BSD-3-Clause */
/* region.c -- regions: ranges, flights, indexes, use, end and report
 *
 * The thread that ends a region deregisters it, without the lock. Until then it is in the list of
 * retiring regions, where region_await_range() and region_await_owner() find it; after that, while
 * its client MRs are not deregistered, in the list of its protection domain.
 */
#include "registration/region.h"

#include <errno.h>
#include <string.h>

#include "base/atomics.h"
#include "base/log.h"
#include "base/pool.h"
#include "base/system.h"
#include "registration/domain.h"
#include "registration/lock.h"
#include "registration/ready_exports.h"
#include "registration/room.h"
#include "report/callers.h"
#include "report/errors.h"
#include "report/statistics.h"
#include "report/trace.h"

#define RANGES (1u << 16)

struct arena holds_regions = ARENA_INITIALIZER(struct region_hits, HOLDS_REGIONS);
struct arena holds_pages =
	ARENA_INITIALIZER(struct holds_page, HOLDS_REGIONS / HOLDS_PAGE * HOLDS_STRIPES);
_Atomic uint32_t holds_time;

static struct pool region_pool = POOL_INITIALIZER(struct region);
static struct region *unused;
static struct region *shared[RANGES]; /* of a granule at most, by domain and base */
static struct region_list flights = TAILQ_HEAD_INITIALIZER(flights);
static struct region_list retiring = TAILQ_HEAD_INITIALIZER(retiring);

/* ---- ranges ---- */

static uint64_t region_round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) & ~(unit - 1);
}

/* Clients that bring dma-bufs export pages (ready_exports.c). */
struct region_range region_range_of(const struct allocation *allocation,
				    const struct domain *domain, uint64_t address, uint64_t length)
{
	uint64_t unit = allocation->integrated || domain->exports ? PAGE : GRANULE;
	uint64_t end = region_round_up(address + length, unit);
	struct region_range range = { .base = address & ~(unit - 1) };

	range.length = end - range.base;
	range.whole = range.base <= allocation->base &&
		      end >= allocation->base + memory_extent(allocation);
	return range;
}

struct region_range region_whole_of(const struct allocation *allocation,
				    const struct domain *domain)
{
	return region_range_of(allocation, domain, allocation->base, memory_extent(allocation));
}

/* ---- structs ---- */

/* A new struct gets the next number. */
static struct region *region_make(void)
{
	uint32_t number = holds_regions.used;
	struct region *region;

	if (arena_grow(&holds_regions, number + 1) ||
	    arena_grow(&holds_pages, (number / HOLDS_PAGE + 1) * HOLDS_STRIPES))
		return NULL;
	region = pool_get(&region_pool);
	if (!region)
		return NULL;
	region->hits = holds_hits(0) + arena_next(&holds_regions);
	region->hits->region = region;
	return region;
}

static struct region *region_take(void)
{
	struct region *region = unused;

	registration_assert_held();
	if (region)
		unused = region->next_unused;
	else
		region = region_make();
	if (!region)
		return NULL;
	registration_check(!holds_any(region->hits));
	*region = (struct region){ .hits = region->hits };
	store_relaxed(&region->hits->used_at, load_relaxed(&holds_time));
	return region;
}

static void region_put(struct region *region)
{
	region->owner = NULL;
	region->next_unused = unused;
	unused = region;
}

/* The first one of the list has no client MR left, or is moved to the end: true. */
static bool region_keep_revoked(struct protection_domain *owner)
{
	struct region *region = TAILQ_FIRST(&owner->revoked);

	TAILQ_REMOVE(&owner->revoked, region, in_list);
	if (!holds_any(region->hits)) {
		region_put(region);
		return false;
	}
	TAILQ_INSERT_TAIL(&owner->revoked, region, in_list);
	return true;
}

/* A deregistration by a client takes no lock, so it leaves the region in the list. Each region that
 * ends checks two others: the list is no longer than the most revoked client MRs that the client
 * had at once. */
static void region_put_ended(struct region *region)
{
	struct protection_domain *owner = region->owner;

	TAILQ_INSERT_HEAD(&owner->revoked, region, in_list);
	for (int checks = 3; checks && !TAILQ_EMPTY(&owner->revoked); checks--)
		region_keep_revoked(owner);
}

bool region_any_revoked(struct protection_domain *owner)
{
	const struct region *region;

	registration_assert_held();
	TAILQ_FOREACH(region, &retiring, in_list) {
		if (region->owner == owner && holds_any(region->hits))
			return true;
	}
	while (!TAILQ_EMPTY(&owner->revoked)) {
		if (region_keep_revoked(owner))
			return true;
	}
	return false;
}

void region_count_leaked(const struct region *region)
{
	unsigned int count = holds_count(region->hits);

	if (!count)
		return;
	callers_find(region->owner->caller, FINDING_leaked, count, count * region->length, 0);
	if (region->freed)
		callers_find(region->owner->caller, FINDING_outlived, count, count * region->length,
			     0);
}

void region_forget_revoked(struct protection_domain *owner)
{
	struct region *region;

	registration_assert_held();
	while ((region = TAILQ_FIRST(&owner->revoked))) {
		TAILQ_REMOVE(&owner->revoked, region, in_list);
		if (region->freed)
			region_count_leaked(region);
		holds_forget(region->hits);
		region_put(region);
	}
}

/* ---- regions of a granule, or page ---- */

/* Allocations share a region of one granule, or page: of a longer range they would overlap. With
 * unique keys each region has one entry. */
static bool region_may_be_shared(const struct domain *domain, uint64_t length)
{
	return length <= GRANULE && !domain->owner->own_keys;
}

/* Adjacent granules, and adjacent blocks of 2 MiB, have adjacent buckets: the touched part of the
 * table grows with the number of regions. Equal ranges of many domains have different buckets. */
static struct region **region_bucket(const struct domain *domain, uint64_t base)
{
	uint64_t granule = base / GRANULE;

	return &shared[(granule / 32 + granule % 32 * (RANGES / 32 + 1) +
			domain->number * 0x9e3779b1u) %
		       RANGES];
}

/* A block of the driver is of one context. So where the contexts differ, the driver has freed the
 * block that the region reaches, and the event is late. */
struct region *region_find_shared(const struct domain *domain, CUcontext context,
				  const struct region_range *range)
{
	struct region *region = region_may_be_shared(domain, range->length)
					? *region_bucket(domain, range->base)
					: NULL;

	registration_assert_held();
	while (region && (!region_is_of(region, range) || region->domain != domain ||
			  region->context != context))
		region = region->range_next;
	return region;
}

static void region_share(struct region *region)
{
	struct region **bucket = region_bucket(region->domain, region->base);

	region->range_next = *bucket;
	*bucket = region;
	region->shared = true;
}

static void region_unshare(struct region *region)
{
	struct region **link = region_bucket(region->domain, region->base);

	if (!region->shared)
		return;
	while (*link != region)
		link = &(*link)->range_next;
	*link = region->range_next;
	region->shared = false;
}

static void region_unshare_in(const struct domain *domain, uint64_t granule,
			      const struct allocation *allocation)
{
	struct region *region = *region_bucket(domain, granule * GRANULE), *next;

	for (; region; region = next) {
		next = region->range_next;
		if (region->domain == domain &&
		    region_overlaps(region, allocation->base, allocation->size))
			region_unshare(region);
	}
}

/* Regions of others reach its two ends alone, and begin in one of two granules there. */
void region_unshare_around(const struct domain *domain, const struct allocation *allocation)
{
	uint64_t first = allocation->base / GRANULE;
	uint64_t last = (allocation->base + allocation->size - 1) / GRANULE;

	registration_assert_held();
	region_unshare_in(domain, first - 1, allocation);
	region_unshare_in(domain, first, allocation);
	region_unshare_in(domain, last - 1, allocation);
	region_unshare_in(domain, last, allocation);
}

/* ---- use by clients ---- */

/* Counts one speculative region more (1) or less (-1). After a kill, or an end with the memory
 * live, the counters keep the values of that moment. */
static void region_count_unused(const struct region *region, int64_t change)
{
	statistics_add(never_used, change);
	statistics_add(never_used_bytes, change * (int64_t)region->length);
	statistics_add(never_used_ns, change * (int64_t)region->background_ns);
	statistics_add(never_used_sizes, change * (int64_t)region->size);
	if (change > 0)
		statistics_sort(never_used_bytes, region->size);
	else
		statistics_unsort(never_used_bytes, region->size);
}

void region_set_used(struct region *region)
{
	registration_assert_held();
	if (region->used)
		return;
	region->used = true;
	region_count_unused(region, -1);
}

uint64_t region_take_import(struct region *region)
{
	registration_assert_held();
	if (!region->imported)
		region->imported = region_take();
	if (!region->imported)
		return 0;
	region->imported->owner = region->owner;
	store_relaxed(&region->imported->hits->caller, region->owner->caller);
	store_release(&region->imported->hits->length, region->length);
	return holds_take(holds_of(region->imported->hits));
}

/* ---- flights ---- */

struct region *region_begin(struct domain *domain, const struct allocation *allocation,
			    const struct region_range *range)
{
	struct region *region = region_take();

	if (!region)
		return NULL;
	region->domain = domain;
	region->owner = domain->owner;
	region->base = range->base;
	region->length = range->length;
	region->allocation = allocation->id;
	region->context = allocation->context;
	region->device = allocation->device;
	region->size = range->spans ? range->length : allocation->size;
	region->spans = range->spans;
	region->dma_buf_only = !memory_is_registrable(allocation);
	TAILQ_INSERT_TAIL(&flights, region, in_list);
	return region;
}

const struct region *region_find_flight(const struct domain *domain,
					const struct region_range *range)
{
	const struct region *region;

	registration_assert_held();
	TAILQ_FOREACH(region, &flights, in_list) {
		if (region->domain == domain && region_is_of(region, range) && !region->ended &&
		    !region->exporting)
			break;
	}
	return region;
}

bool region_any_flight(uint64_t base, uint64_t length, int device, bool pcie)
{
	const struct region *region;

	registration_assert_held();
	TAILQ_FOREACH(region, &flights, in_list) {
		if (region->base == base && region->length == length && region->device == device &&
		    !region->ended && !region->exporting && region->speculative &&
		    !(region->domain->access & DOMAIN_PCIE) == !pcie)
			break;
	}
	return region;
}

void region_abandon(struct region *region)
{
	registration_assert_held();
	TAILQ_REMOVE(&flights, region, in_list);
	room_release(region);
	region_put(region);
	registration_wake();
}

/* Range and keys are stored before an entry publishes the hold: a hit reads it before them. */
void region_enter(struct region *region)
{
	struct region_hits *hits = region->hits;

	registration_assert_held();
	registration_check(!region->ended && region->mr);
	region->entered = true;
	TAILQ_REMOVE(&flights, region, in_list);
	TAILQ_INSERT_HEAD(&region->domain->regions, region, in_list);
	if (region_may_be_shared(region->domain, region->length) && !region->alone)
		region_share(region);
	if (region->spans) {
		LIST_INSERT_HEAD(&region->domain->spans, region, in_entry);
		region->listed = true;
	}
	room_enter(region);
	store_release(&hits->base, region->base);
	store_release(&hits->length, region->length);
	store_release(&hits->keys, (uint64_t)region->keys.lkey << 32 | region->keys.rkey);
	store_release(&hits->kernel_handle, region->keys.kernel_handle);
	store_relaxed(&hits->caller, region->owner->caller);
	if (!region->used)
		region_count_unused(region, 1);
	registration_wake();
}

bool region_end_flights(const struct allocation *allocation)
{
	struct region *region;
	bool any = false;

	registration_assert_held();
	TAILQ_FOREACH(region, &flights, in_list) {
		bool overlaps = region_overlaps(region, allocation->base, allocation->size);

		/* As region_unshare_around(). */
		region->alone |= allocation->gone && overlaps;
		if (region->allocation != allocation->id && !(region->spans && overlaps))
			continue;
		region->ended = region->freed = true;
		any = true;
	}
	return any;
}

void region_end_flights_of(const struct protection_domain *owner)
{
	struct region *region;

	registration_assert_held();
	TAILQ_FOREACH(region, &flights, in_list)
		region->ended |= region->owner == owner;
}

/* ---- log, trace and the counters of failures ---- */

/* Groups errors by fix. */
void region_count_failure(int error)
{
	statistics_count(registrations_failed);
	switch (error) {
	case ENOMEM:
	case ENOSPC:
		statistics_count(failed_resources);
		break;
	case EFAULT:
		statistics_count(failed_address);
		break;
	case EINVAL:
		statistics_count(failed_argument);
		break;
	case EOPNOTSUPP:
	case EPROTONOSUPPORT:
	case ENOSYS:
	case 524: /* ENOTSUPP: internal to the kernel, but returned to user space */
		statistics_count(failed_support);
		break;
	default:
		statistics_count(failed_other);
	}
}

bool region_is_reported(void)
{
	return log_is_on(LOG_DEBUG) || trace_is_on();
}

void region_report_registered(const struct pin_request *request, int error,
			      const struct errors_text *failure, uint64_t start)
{
	if (trace_is_on()) {
		trace_span("register", start, request->base, request->length, request->device,
			   error ? strerror(-error) : "done");
		if (!error)
			trace_pinned(statistics_get(pinned_bytes) + request->length);
	}
	if (!log_is_on(LOG_DEBUG))
		return;
	log_message(LOG_DEBUG, "register 0x%llx, %llu bytes, access flags 0x%x, in %llu us: %s%s%s",
		    (unsigned long long)request->base, (unsigned long long)request->length,
		    request->access, (unsigned long long)(system_clock() - start) / 1000,
		    error ? errors_call_name(failure->call) : "done", error ? ": " : "",
		    error ? failure->cause : "");
}

void region_report_pin_limit(int device, uint64_t learnt)
{
	if (learnt)
		log_message(LOG_INFO,
			    "GPU %d: a registration was refused; the pin limit is now %llu bytes",
			    device, (unsigned long long)learnt);
}

void region_log_failure(const struct region *region, int error, struct errors_text failure,
			struct errors_room *room)
{
	char description[256];

	if (error == -ENOMEM &&
	    (failure.call == ERRORS_REG_MR || failure.call == ERRORS_REG_DMABUF)) {
		room->wanted = region->length;
		room->pinned = statistics_get(pinned_bytes);
		room->lockable = errors_lockable();
		failure = errors_no_room(failure.call, room);
		errors_describe(&failure, description, sizeof(description));
		log_once(LOG_WARN,
			 "GPU memory at 0x%llx, %llu bytes, does not fit on the adapter even after "
			 "evictions: %s. The client registration is forwarded. %s",
			 (unsigned long long)region->base, (unsigned long long)region->length,
			 description, failure.fix);
		return;
	}
	errors_describe(&failure, description, sizeof(description));
	log_once(LOG_WARN,
		 "GPU memory at 0x%llx, %llu bytes, could not be registered: %s. Client "
		 "registrations of this memory are forwarded. %s",
		 (unsigned long long)region->base, (unsigned long long)region->length, description,
		 failure.fix);
}

void region_report_ended(const struct region *region, int error, uint64_t start)
{
	struct errors_text failure = { .cause = "done" };
	char description[256];

	if (error)
		failure = errors_look_up(ERRORS_DEREG_MR, -error);
	if (log_is_on(LOG_DEBUG))
		log_message(LOG_DEBUG, "deregister 0x%llx, %llu bytes%s%s, in %llu us: %s",
			    (unsigned long long)region->base, (unsigned long long)region->length,
			    region->evicted ? ", evicted" : "", region->used ? "" : ", never used",
			    (unsigned long long)(system_clock() - start) / 1000, failure.cause);
	if (error) {
		statistics_count(deregistrations_failed);
		errors_describe(&failure, description, sizeof(description));
		log_once(LOG_ERROR,
			 "GPU memory at 0x%llx could not be deregistered: %s. The adapter may "
			 "still access that memory. %s",
			 (unsigned long long)region->base, description, failure.fix);
	}
	if (trace_is_on())
		trace_span(region->evicted ? "evict" : "deregister", start, region->base,
			   region->length, region->device, failure.cause);
}

/* ---- the end ---- */

static void region_leave_indexes(struct region *region)
{
	region_unshare(region);
	if (region->listed)
		LIST_REMOVE(region, in_entry);
	TAILQ_REMOVE(&region->domain->regions, region, in_list);
	room_leave(region);
	ready_export_end(region);
}

static void region_revoke(struct region *region)
{
	/* Its device is being closed. */
	if (!region->freed)
		region_count_leaked(region);
	statistics_add(revoked, holds_end(region->hits));
	if (!region->imported)
		return;
	statistics_add(revoked, holds_end(region->imported->hits));
	holds_forget(region->imported->hits);
	region_put(region->imported);
	region->imported = NULL;
}

void region_end(struct region *region, struct region **ending)
{
	registration_assert_held();
	if (region->entered) {
		registration_check(!region->ended);
		region_leave_indexes(region);
	} else {
		TAILQ_REMOVE(&flights, region, in_list);
		if (!region->used)
			region_count_unused(region, 1);
	}
	region_revoke(region);
	region->ended = true;
	TAILQ_INSERT_HEAD(&retiring, region, in_list);
	region->ending_next = *ending;
	*ending = region;
	if (region->speculative && !region->used)
		domain_count_vain(region->domain, region->size);
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
}

static void region_finish(struct region *region)
{
	registration_assert_held();
	TAILQ_REMOVE(&retiring, region, in_list);
	room_release(region);
	region_put_ended(region);
	registration_wake();
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
		region_finish(region);
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

/* One of the list that ends, of the range, or of the protection domain; NULL: none. */
static const struct region *region_find_ending(const struct region_list *list, uint64_t base,
					       uint64_t size, const struct protection_domain *owner)
{
	const struct region *region;

	TAILQ_FOREACH(region, list, in_list) {
		if (region->ended &&
		    (owner ? region->owner == owner : region_overlaps(region, base, size)))
			break;
	}
	return region;
}

static void region_await(uint64_t base, uint64_t size, const struct protection_domain *owner,
			 struct region **ending, uint64_t *since)
{
	registration_assert_held();
	region_flush(ending);
	while (region_find_ending(&retiring, base, size, owner) ||
	       region_find_ending(&flights, base, size, owner)) {
		if (!*since)
			*since = system_clock();
		registration_sleep();
	}
}

void region_await_range(uint64_t base, uint64_t size, struct region **ending, uint64_t *since)
{
	region_await(base, size, NULL, ending, since);
}

void region_await_owner(const struct protection_domain *owner, struct region **ending)
{
	uint64_t since = 0;

	region_await(0, 0, owner, ending, &since);
}
