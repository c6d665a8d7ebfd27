/* SPDX-License-Identifier: BSD-3-Clause */
/* region_life.c -- registration of a region
 *
 * A thread registers a region without the lock, and other threads wait for it. region_end.c has its
 * end.
 */
#include "registration/region_life.h"

#include <errno.h>

#include "base/atomics.h"
#include "base/system.h"
#include "registration/adapter.h"
#include "registration/holds.h"
#include "registration/entry.h"
#include "registration/lock.h"
#include "registration/pin_limit.h"
#include "registration/pinning.h"
#include "registration/policy.h"
#include "registration/ready_exports.h"
#include "registration/region_end.h"
#include "registration/region_report.h"
#include "registration/room.h"
#include "report/errors.h"
#include "report/statistics.h"

/* Evictions for one registration that the adapter refuses. Each evicts twice as many bytes as the
 * last. */
#define EVICTIONS_MAX 4

/* Counts one speculative region more (1) or less (-1). After a kill, or an end with the memory
 * live, the counters keep the values of that moment. */
static void region_count_unused(const struct region *region, int64_t change)
{
	statistics_add(never_used, change);
	statistics_add(never_used_bytes, change * (int64_t)region->length);
	statistics_add(never_used_ns, change * (int64_t)region->background_ns);
	statistics_add(never_used_pinned, change);
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
	registration_assert_held();
	if (region->used)
		return;
	region->used = true;
	if (region->state == REGION_READY)
		region_count_unused(region, -1);
}

/* Of a span for its first mapping alone. A lack of memory is no evidence against spans, nor are
 * further failures of one first mapping. */
static void region_count_failures(const struct region *region, int error)
{
	const struct region_reference *reference = holds_at(region->references);
	uint8_t *of_spans = &region->domain->span_failures;

	for (; reference; reference = holds_at(reference->next_in_region)) {
		if (!reference->leads || !entry_count_failure(region->domain, reference))
			continue;
		if (region->spans && error != -ENOMEM && *of_spans < POLICY_FAILURES)
			++*of_spans;
	}
}

/* An optional registration that fails leaves the region as it was. A region that has ended
 * meanwhile is added to `ending`. */
static void region_settle(struct region *region, int error, bool optional, struct ibv_mr *mr,
			  struct region **ending)
{
	registration_check(region->state == REGION_REGISTERING && !region->mr);
	if (error) {
		region->state = optional ? REGION_IDLE : REGION_FAILED;
		if (!optional && !pinning_may_succeed_later(error))
			region_count_failures(region, error);
		pin_limit_remove(region);
		if (!own_thread_is_done())
			region_count_failure(-error);
	} else {
		region->state = REGION_READY;
		region->mr = mr;
		if (region->spans)
			region->domain->span_failures = SPANS_WORK;
		region->keys = (struct registration_keys){ .kernel_handle = mr->handle,
							   .lkey = mr->lkey,
							   .rkey = mr->rkey };
		entries_publish(region);
		if (!region->ended)
			pin_limit_set_evictable(region, true);
		statistics_count(registrations);
		if (!region->used)
			region_count_unused(region, 1);
		statistics_pinned((int64_t)region->length);
	}
	if (region->ended && !region->with_worker)
		region_retire(region, ending);
	registration_wake();
}

static struct pin_request region_pin_request(const struct region *region)
{
	return (struct pin_request){ .pd = region->owner->pd,
				     .base = region->base,
				     .length = region->length,
				     .access = region->domain->access & ~DOMAIN_PCIE,
				     .pcie = region->domain->access & DOMAIN_PCIE,
				     .device = region->device,
				     .context = region->context,
				     .dma_buf_only = region->dma_buf_only,
				     .own_blocks = region->context && !region->dma_buf_only &&
						   region->size >= BLOCK };
}

static int region_pin(struct region *region, const struct registration_request *client,
		      const struct dma_buf *source, struct pin_result *result,
		      struct region **ending)
{
	struct pin_request request = region_pin_request(region);
	uint64_t start = system_clock();
	int error;

	request.source = *source;
	request.by_address = client && !client->dma_buf;
	region_flush(ending);
	registration_unlock();
	error = pinning_pin(&request, result);
	region->method = result->method;
	region->from_source = !error && result->from_source;
	region_report_registered(&request, error, &result->failure, start);
	registration_lock();
	return error;
}

/* True if the region fits, after evictions if `may_evict`. */
static bool region_reserve(struct region *region, bool may_evict, struct region **ending)
{
	bool fits;

	adapter_describe(region->owner->adapter, region->device);
	room_describe(region->device);
	fits = pin_limit_allows(region);
	if (!fits && may_evict)
		fits = room_make_for(region, ending);
	/* Count the bytes before dropping the lock: the evicted bytes are reserved for this
	 * region. */
	if (fits)
		pin_limit_add(region);
	return fits;
}

static void region_make_ready(struct region *region, const struct registration_request *client,
			      bool optional, const struct dma_buf *source, struct region **ending)
{
	uint64_t bytes = region->length, learnt = 0;
	struct errors_room room;
	struct pin_result result;
	int error;

	if (!region_reserve(region, client && !optional, ending)) {
		region->state = REGION_IDLE;
		statistics_count(over_pin_limit);
		if (region->ended && !region->with_worker)
			region_retire(region, ending);
		registration_wake();
		return;
	}
	error = region_pin(region, client, source, &result, ending);
	for (int i = optional ? EVICTIONS_MAX : 0;
	     error == -ENOMEM && !region->ended && i < EVICTIONS_MAX; i++, bytes *= 2) {
		learnt = pin_limit_refused(region);
		if (!client || !room_make(region->owner->adapter, region->device, bytes, ending))
			break;
		error = region_pin(region, client, source, &result, ending);
	}
	if (!error && client)
		pin_limit_granted(region);
	if ((error && !optional) || learnt) {
		room = (struct errors_room){ .regions = adapter_regions(region->owner->adapter),
					     .region_limit = region->owner->adapter->region_limit,
					     .bar1 = pin_limit_bar1(region->device) };
		registration_unlock();
		region_report_pin_limit(region->device, learnt);
		/* Of the worker's failures clients notice nothing. */
		if (error && client && !result.reported)
			region_log_failure(region, error, result.failure, &room);
		registration_lock();
	}
	region_settle(region, error, optional, result.mr, ending);
}

/* The driver may reach a cancellation point, and other threads wait for the region: hold
 * cancellation. */
uint64_t region_register(struct region *region, const struct registration_request *client,
			 bool optional, struct region **ending)
{
	uint64_t start = system_clock();
	int held = system_hold_cancellation();
	struct dma_buf source = client->source;

	registration_assert_held();
	region_make_ready(region, client, optional, &source, ending);
	ready_export_keep(region, &source);
	system_release_cancellation(held);
	return system_clock() - start;
}

uint64_t region_register_prepared(struct region *region, struct region **ending)
{
	struct pin_request request = region_pin_request(region);
	uint64_t start = system_clock(), duration = 0;
	int held = system_hold_cancellation();

	registration_assert_held();
	/* Before the first unlock: an end then waits for this flight. */
	region->with_worker = true;
	region_flush(ending);
	if (!region->ended && pin_limit_allows(region)) {
		registration_unlock();
		pinning_prepare(&request);
		registration_lock();
	}
	if (!region->ended && region->state == REGION_IDLE) {
		region->state = REGION_REGISTERING;
		region_make_ready(region, NULL, false, &request.source, ending);
		duration = system_clock() - start;
		ready_export_keep(region, &request.source);
	}
	if (request.source.length) {
		registration_unlock();
		held_file_close(&request.source.file);
		registration_lock();
	}
	region->with_worker = false;
	/* A client that registers it meanwhile retires it. */
	if (region->ended && region->state != REGION_REGISTERING)
		region_retire(region, ending);
	system_release_cancellation(held);
	return duration;
}

void region_await_settled(struct region *region, struct region **ending)
{
	registration_assert_held();
	region_flush(ending);
	while (region->state == REGION_REGISTERING)
		registration_sleep();
}
