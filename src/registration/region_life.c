/* SPDX-License-Identifier: BSD-3-Clause */
/* region_life.c -- how a region is registered once, ends, and is deregistered
 *
 * Whoever registers one does it without the lock, and others wait for it; whoever ends one awaits that first. An ended region that
 * is still registered is among those that retire until it is deregistered, so that nobody goes on before.
 */
#include "registration/internal.h"

#include <errno.h>

#include "base/errors.h"
#include "base/statistics.h"
#include "base/system.h"
#include "base/trace.h"
#include "registration/leases.h"
#include "registration/pinning.h"

/* How often room is made for one registration that the adapter refuses, each time twice as much. */
#define EVICTIONS_MAX 4

static struct region *retiring; /* ended, but perhaps still registered */

/* One more that nobody has asked for (1), or one less (-1). Who is killed, or ends with its memory alive, leaves what is true at
 * that moment. */
static void count_unused(const struct region *region, int64_t change)
{
	statistics_add(never_used, change);
	statistics_add(never_used_bytes, change * (int64_t)region->length);
	statistics_add(never_used_ns, change * (int64_t)region->ahead_ns);
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
	region->ahead_ns = nanoseconds;
	if (!region->used)
		statistics_add(never_used_ns, nanoseconds);
}

void region_set_used(struct region *region)
{
	if (region->used)
		return;
	region->used = true;
	if (region->state == REGION_READY)
		count_unused(region, -1);
}

static void settle(struct region *region, int error, struct ibv_mr *mr)
{
	if (error) {
		region->state = REGION_FAILED;
		region->failures += !pinning_is_of_the_moment(error) && region->failures < UINT8_MAX;
		pin_limit_remove(region);
		region_count_failure(-error);
	} else {
		region->state = REGION_READY;
		region->mr = mr;
		region->keys = (struct registration_keys){ .kernel_handle = mr->handle,
							   .lkey = mr->lkey,
							   .rkey = mr->rkey };
		keys_publish_all(region);
		pin_limit_set_idle(region);
		statistics_count(registrations);
		if (!region->used)
			count_unused(region, 1);
		statistics_add(registered_bytes, region->length);
		statistics_pinned(region->device, region->owner->adapter->counted_as,
				  (int64_t)region->length);
	}
	system_wake(&region_settled);
}

/* What is unpinned for another one's sake, with the lock dropped. */
static void evict_all(struct region *ending)
{
	pthread_mutex_unlock(&registration_lock);
	region_unpin_all(ending);
	pthread_mutex_lock(&registration_lock);
}

static int pin(struct region *region, struct ibv_mr **mr)
{
	struct pin_request request = { .pd = region->owner->pd,
				       .base = region->base,
				       .length = region->length,
				       .access = region->domain->access,
				       .device = region->device,
				       .context = region->context,
				       .dma_buf_only = region->dma_buf_only };
	uint64_t start = statistics_clock();
	int error;

	pthread_mutex_unlock(&registration_lock);
	errors_forget();
	error = registration_backend->pin(&request, mr);
	region_report_registered(&request, error, start);
	pthread_mutex_lock(&registration_lock);
	return error;
}

/* Room for the region, by ending others if need be. */
static bool make_room(struct region *region, bool may_evict)
{
	struct region *ending = NULL;
	bool room;

	adapter_describe(region->owner->adapter, region->device);
	pin_limit_describe(region->device);
	room = pin_limit_has_room(region);
	if (!room && may_evict)
		room = pin_limit_make_room(region, &ending);
	/* Before the lock is dropped: what goes now makes room for this region and no other. */
	if (room)
		pin_limit_add(region);
	if (ending)
		evict_all(ending);
	return room;
}

static void make_ready(struct region *region, bool may_evict)
{
	uint64_t bytes = region->length, learnt = 0;
	struct region *ending = NULL;
	struct errors_room room;
	struct ibv_mr *mr = NULL;
	int error;

	if (!make_room(region, may_evict)) {
		region->state = REGION_IDLE;
		statistics_count(over_pin_limit);
		system_wake(&region_settled);
		return;
	}
	error = pin(region, &mr);
	for (int i = 0; error == -ENOMEM && i < EVICTIONS_MAX; i++, bytes *= 2) {
		learnt = pin_limit_refused(region);
		ending = NULL;
		if (!may_evict || !pin_limit_evict(region->owner->adapter, region->device, bytes, &ending))
			break;
		evict_all(ending);
		error = pin(region, &mr);
	}
	if (!error && may_evict)
		pin_limit_granted(region);
	if (error || learnt) {
		room = (struct errors_room){ .regions = adapter_regions(region->owner->adapter),
					     .region_limit = region->owner->adapter->region_limit };
		pthread_mutex_unlock(&registration_lock);
		region_report_pin_limit(region->device, learnt);
		if (error)
			region_complain(region, error, &room);
		pthread_mutex_lock(&registration_lock);
	}
	settle(region, error, mr);
}

/* A driver may call what threads are cancelled in, and others wait for the region. */
uint64_t region_register(struct region *region, bool may_evict)
{
	uint64_t start = statistics_clock();
	int held = system_hold_cancellation();

	make_ready(region, may_evict);
	system_release_cancellation(held);
	return statistics_clock() - start;
}

void region_await_settled(struct region *region)
{
	while (region->state == REGION_REGISTERING)
		system_wait(&region_settled, &registration_lock);
}

static void retired(struct region *region)
{
	struct region **place = &retiring;

	while (*place != region)
		place = &(*place)->domain_next;
	*place = region->domain_next;
	pin_limit_remove(region);
	region_release_user(region);
	system_wake(&region_settled);
}

void region_end(struct region *region, struct region **ending)
{
	region->users++;
	region->ended = true;
	leases_end(region);
	pin_limit_set_busy(region);
	region_leave_indexes(region);
	region->domain_next = retiring;
	retiring = region;
	/* Whoever is registering it may itself wait for what has been ended here: a free inside of pin(). */
	if (region->state == REGION_REGISTERING && *ending) {
		struct region *others = *ending;

		*ending = NULL;
		pthread_mutex_unlock(&registration_lock);
		region_unpin_all(others);
		pthread_mutex_lock(&registration_lock);
	}
	/* Whoever is registering it is in the kernel with memory and domain that must stay until it is out. */
	region_await_settled(region);
	if (!region->used)
		learning_wasted(region->domain, &region->kind);
	client_mr_revoke(region, 0);
	if (region->mr) {
		region->ending_next = *ending;
		*ending = region;
	} else {
		retired(region);
	}
}

static void unpin(struct region *region)
{
	uint64_t start = region_is_reported() ? statistics_clock() : 0;
	int error = registration_backend->unpin(region->mr);

	region_report_ended(region, error, start);
	statistics_count(deregistrations);
	if (region->freed)
		statistics_count(invalidated);
	statistics_pinned(region->device, region->owner->adapter->counted_as, -(int64_t)region->length);
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
		unpin(region);
		pthread_mutex_lock(&registration_lock);
		retired(region);
		pthread_mutex_unlock(&registration_lock);
		system_release_cancellation(held);
	}
}

static bool overlaps(const struct region *region, uint64_t base, uint64_t size)
{
	return region->base < base + size && base < region->base + region->length;
}

void region_await_range(uint64_t base, uint64_t size, uint64_t *since)
{
	struct region *region;

	do {
		for (region = retiring; region; region = region->domain_next) {
			if (overlaps(region, base, size))
				break;
		}
		if (region && !*since)
			*since = statistics_clock();
		if (region)
			system_wait(&region_settled, &registration_lock);
	} while (region);
}

void region_await_owner(const struct protection_domain *owner)
{
	struct region *region;

	do {
		for (region = retiring; region && region->owner != owner; region = region->domain_next)
			;
		if (region)
			system_wait(&region_settled, &registration_lock);
	} while (region);
}
