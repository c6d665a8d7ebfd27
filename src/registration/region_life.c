/* SPDX-License-Identifier: BSD-3-Clause */
/* region_life.c -- registration, end and deregistration of a region
 *
 * A thread registers a region without the lock, and other threads wait for it. A thread that ends a
 * region waits for its registration first. An ended region is in the list of retiring regions until
 * deregistered: region_await_range() and region_await_owner() wait for that.
 */
#include "base/atomics.h"
#include "registration/background.h"
#include "registration/internal.h"

#include <errno.h>

#include "base/kernel.h"
#include "base/system.h"
#include "registration/pinning.h"
#include "report/errors.h"
#include "report/statistics.h"
#include "report/trace.h"

/* Evictions for one registration that the adapter refuses. Each evicts twice as many bytes as the
 * last. */
#define EVICTIONS_MAX 4

static LIST_HEAD(, region) retiring; /* ended, possibly still registered */

static _Atomic unsigned int wakes; /* of region_settled; stored with the lock held */

static void region_wake(void)
{
	store_release(&wakes, load_relaxed(&wakes) + 1);
	system_wake(&region_settled);
}

/* Waits for region_wake(): without sleeping for twice the region's usual time from `since` on, as
 * the wake-up of a thread may take longer than a registration. */
static void region_wait(const struct region *region, uint64_t since)
{
	uint64_t awake = since + 2 * cost_usual(region->owner->adapter, region->length);
	unsigned int before = load_relaxed(&wakes);

	if (system_clock() >= awake) {
		system_wait(&region_settled, &registration_lock);
		return;
	}
	pthread_mutex_unlock(&registration_lock);
	while (load_acquire(&wakes) == before && system_clock() < awake)
		;
	pthread_mutex_lock(&registration_lock);
}

/* Counts one speculative region more (1) or less (-1). After a kill, or an end with the memory
 * live, the counters keep the values of that moment. */
static void region_count_unused(const struct region *region, int64_t change)
{
	statistics_add(never_used, change);
	statistics_add(never_used_bytes, change * (int64_t)region->length);
	statistics_add(never_used_ns, change * (int64_t)region->background_ns);
	statistics_add(never_used_pinned, change);
	statistics_add(never_used_pinned_bytes, change * (int64_t)region->length);
	statistics_add(never_used_sizes, change * (int64_t)region->size);
	if (change > 0)
		statistics_sort(never_used_bytes, region->size);
	else
		statistics_unsort(never_used_bytes, region->size);
}

void region_set_background_time(struct region *region, uint64_t nanoseconds)
{
	region->background_ns = nanoseconds;
	if (!region->used)
		statistics_add(never_used_ns, nanoseconds);
}

void region_set_used(struct region *region)
{
	if (region->used)
		return;
	region->used = true;
	if (region->state == REGION_READY)
		region_count_unused(region, -1);
}

/* A lack of memory is no evidence against spans. */
static void region_count_span(const struct region *region, int error)
{
	uint8_t *failures = &region->domain->span_failures;

	if (!error)
		*failures = SPANS_WORK;
	else if (error != -ENOMEM && !pinning_is_of_the_moment(error) && *failures < SPANS_WORK - 1)
		++*failures;
}

static void region_settle(struct region *region, int error, struct ibv_mr *mr)
{
	if (region->spans)
		region_count_span(region, error);
	if (error) {
		region->state = REGION_FAILED;
		region->failures +=
			!pinning_is_of_the_moment(error) && region->failures < UINT8_MAX;
		pin_limit_remove(region);
		region_count_failure(-error);
	} else {
		region->state = REGION_READY;
		region->mr = mr;
		region->keys = (struct registration_keys){ .kernel_handle = mr->handle,
							   .lkey = mr->lkey,
							   .rkey = mr->rkey };
		keys_publish_all(region);
		if (!region->ended)
			pin_limit_set_evictable(region, true);
		statistics_count(registrations);
		if (!region->used)
			region_count_unused(region, 1);
		statistics_add(registered_bytes, region->length);
		statistics_pinned(region->device, region->owner->adapter->counted_as,
				  (int64_t)region->length);
	}
	region_wake();
}

void region_unpin_ended(struct region *ending)
{
	if (!ending)
		return;
	pthread_mutex_unlock(&registration_lock);
	region_unpin_all(ending);
	pthread_mutex_lock(&registration_lock);
}

/* On a steep adapter the worker gives up regions of unknown kinds. */
static void region_count_cost(const struct region *region, uint64_t nanoseconds)
{
	enum cost_change change = cost_add(region->owner->adapter, region->length, nanoseconds);

	if (change == COST_UNCHANGED)
		return;
	if (change == COST_STEEP) {
		background_give_up_unknown();
	} else {
		learning_reconsider();
		background_queue_all();
	}
	pthread_mutex_unlock(&registration_lock);
	if (change == COST_STEEP)
		region_report_steep(region, nanoseconds);
	background_wake();
	pthread_mutex_lock(&registration_lock);
}

static struct pin_request region_pin_request(const struct region *region)
{
	return (struct pin_request){ .pd = region->owner->pd,
				     .base = region->base,
				     .length = region->length,
				     .access = region->domain->access,
				     .device = region->device,
				     .context = region->context,
				     .dma_buf_only = region->dma_buf_only };
}

static int region_pin(struct region *region, const struct registration_request *client,
		      const struct dma_buf *source, struct ibv_mr **mr)
{
	struct pin_request request = region_pin_request(region);
	uint64_t start = system_clock(), duration;
	int error;

	request.source = *source;
	request.by_address = client && !client->dma_buf;
	pthread_mutex_unlock(&registration_lock);
	errors_forget();
	error = pinning_pin(&request, mr, &region->method);
	duration = system_clock() - start;
	region_report_registered(&request, error, start);
	pthread_mutex_lock(&registration_lock);
	if (!error)
		region_count_cost(region, duration);
	return error;
}

/* True if the region fits, after evictions if `may_evict`. */
static bool region_reserve(struct region *region, bool may_evict)
{
	struct region *ending = NULL;
	bool fits;

	adapter_describe(region->owner->adapter, region->device);
	pin_limit_describe(region->device);
	fits = pin_limit_allows(region);
	if (!fits && may_evict)
		fits = pin_limit_evict_for(region, &ending);
	/* Count the bytes before dropping the lock: the evicted bytes are reserved for this
	 * region. */
	if (fits)
		pin_limit_add(region);
	region_unpin_ended(ending);
	return fits;
}

static void region_make_ready(struct region *region, const struct registration_request *client,
			      const struct dma_buf *source)
{
	uint64_t bytes = region->length, learnt = 0;
	struct region *ending = NULL;
	struct errors_room room;
	struct ibv_mr *mr = NULL;
	int error;

	if (!region_reserve(region, client)) {
		region->state = REGION_IDLE;
		statistics_count(over_pin_limit);
		region_wake();
		return;
	}
	error = region_pin(region, client, source, &mr);
	for (int i = 0; error == -ENOMEM && !region->ended && i < EVICTIONS_MAX; i++, bytes *= 2) {
		learnt = pin_limit_refused(region);
		ending = NULL;
		if (!client ||
		    !pin_limit_evict(region->owner->adapter, region->device, bytes, &ending))
			break;
		region_unpin_ended(ending);
		error = region_pin(region, client, source, &mr);
	}
	if (!error && client)
		pin_limit_granted(region);
	if (error || learnt) {
		room = (struct errors_room){ .regions = adapter_regions(region->owner->adapter),
					     .region_limit = region->owner->adapter->region_limit,
					     .bar1 = pin_limit_bar1(region->device) };
		pthread_mutex_unlock(&registration_lock);
		region_report_pin_limit(region->device, learnt);
		if (error)
			region_log_failure(region, error, &room);
		pthread_mutex_lock(&registration_lock);
	}
	region_settle(region, error, mr);
}

/* The driver may reach a cancellation point, and other threads wait for the region: hold
 * cancellation. */
uint64_t region_register(struct region *region, const struct registration_request *client)
{
	uint64_t start = system_clock();
	int held = system_hold_cancellation();

	region_make_ready(region, client, &client->source);
	system_release_cancellation(held);
	return system_clock() - start;
}

uint64_t region_register_prepared(struct region *region)
{
	struct pin_request request = region_pin_request(region);
	uint64_t start = system_clock(), duration = 0;
	int held = system_hold_cancellation();

	region->with_worker = true;
	if (pin_limit_allows(region)) {
		pthread_mutex_unlock(&registration_lock);
		pinning_prepare(&request);
		pthread_mutex_lock(&registration_lock);
	}
	if (!region->ended && region->state == REGION_IDLE) {
		region->state = REGION_REGISTERING;
		region_make_ready(region, NULL, &request.source);
		duration = system_clock() - start;
	}
	if (request.source.length) {
		pthread_mutex_unlock(&registration_lock);
		kernel_close(request.source.fd);
		pthread_mutex_lock(&registration_lock);
	}
	region->with_worker = false;
	if (region->ended)
		region_wake();
	system_release_cancellation(held);
	return duration;
}

void region_await_settled(struct region *region)
{
	uint64_t since = system_clock();

	while (region->state == REGION_REGISTERING)
		region_wait(region, since);
}

static void region_finish_retiring(struct region *region)
{
	LIST_REMOVE(region, in_domain);
	pin_limit_remove(region);
	region_release_user(region);
	region_wake();
}

/* A thread is in the driver or the kernel with the region's memory and domain, or the worker has a
 * dma-buf open, which would keep freed memory allocated. */
static bool region_is_in_flight(const struct region *region)
{
	return region->state == REGION_REGISTERING || region->with_worker;
}

static void region_await_flight(const struct region *region)
{
	for (uint64_t since = system_clock(); region_is_in_flight(region);)
		region_wait(region, since);
}

void region_end(struct region *region, struct region **ending)
{
	region->users++;
	region->ended = true;
	pin_limit_set_evictable(region, false);
	region_leave_indexes(region);
	LIST_INSERT_HEAD(&retiring, region, in_domain);
	/* Deregister the regions ended so far before waiting: the registering thread may wait for
	 * them, in a free inside pin(). */
	if (region_is_in_flight(region) && *ending) {
		struct region *earlier = *ending;

		*ending = NULL;
		region_unpin_ended(earlier);
	}
	if (region_is_in_flight(region))
		region_await_flight(region);
	if (!region->used)
		learning_unused(region->domain, &region->kind);
	if (region->mr) {
		region->ending_next = *ending;
		*ending = region;
	} else {
		region_finish_retiring(region);
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
	statistics_pinned(region->device, region->owner->adapter->counted_as,
			  -(int64_t)region->length);
	if (trace_is_on())
		trace_pinned(statistics_get(pinned_bytes));
	if (region->used)
		return;
	statistics_take(never_used_pinned, 1);
	statistics_take(never_used_pinned_bytes, region->length);
}

void region_unpin_all(struct region *ending)
{
	struct region *region;
	int held;

	while ((region = ending)) {
		ending = region->ending_next;
		held = system_hold_cancellation();
		region_unpin(region);
		pthread_mutex_lock(&registration_lock);
		region_finish_retiring(region);
		pthread_mutex_unlock(&registration_lock);
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

	do {
		LIST_FOREACH(region, &retiring, in_domain) {
			if (region_overlaps(region, base, size))
				break;
		}
		if (region && !*since)
			*since = system_clock();
		if (region)
			system_wait(&region_settled, &registration_lock);
	} while (region);
}

void region_await_owner(const struct protection_domain *owner)
{
	struct region *region;

	do {
		LIST_FOREACH(region, &retiring, in_domain) {
			if (region->owner == owner)
				break;
		}
		if (region)
			system_wait(&region_settled, &registration_lock);
	} while (region);
}
