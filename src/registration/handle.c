/* SPDX-License-Identifier: BSD-3-Clause */
/* handle.c -- what clients hold, by the address of the provider's struct
 *
 * Never by the kernel's handle number: that comes back for another registration as soon as this one is gone.
 */
#include "registration/internal.h"

#include <errno.h>
#include <stdatomic.h>

#include "base/pool.h"
#include "base/statistics.h"
#include "registration/leases.h"

#define BUCKETS (1u << 18)

/* A handle with its memory gone is revoked: it has no region, and stays known until its client drops it. */
struct handle {
	struct handle *next_free;
	_Atomic(const void *) key;
	struct region *region; /* NULL: revoked */
	uint64_t allocation;
	_Atomic(struct handle *) bucket_next;
	struct handle *region_previous, *region_next;
};

/* Chains are changed by single pointer stores, so that a forked child finds them whole. */
static _Atomic(struct handle *) buckets[BUCKETS];
static struct pool handle_pool = POOL_INITIALIZER(struct handle);

/* Providers' structs come from malloc: what lies side by side there comes side by side here, so that few handles touch
 * little of the table. */
static _Atomic(struct handle *) *bucket_of(const void *key)
{
	uintptr_t line = (uintptr_t)key >> 6;

	return &buckets[(line ^ (line >> 18) * 0x9e3779b1u) % BUCKETS];
}

/* All links are stored with release, so that whoever follows them without the lock, in a forked child, finds whole handles;
 * more order than that nobody needs. */
#define load(place)	    atomic_load_explicit((place), memory_order_relaxed)
#define store(place, value) atomic_store_explicit((place), (value), memory_order_release)

/* The link that points to the key's handle, or the empty end of its chain. */
static _Atomic(struct handle *) *place_of(const void *key)
{
	_Atomic(struct handle *) *place = bucket_of(key);
	struct handle *handle;

	while ((handle = load(place)) && load(&handle->key) != key)
		place = &handle->bucket_next;
	return place;
}

static void leave_region(struct handle *handle)
{
	struct region *region = handle->region;

	if (!region)
		return;
	if (handle->region_previous)
		handle->region_previous->region_next = handle->region_next;
	else
		region->held = handle->region_next;
	if (handle->region_next)
		handle->region_next->region_previous = handle->region_previous;
	handle->region = NULL;
	if (!--region->handles)
		budget_set_idle(region);
}

static bool take_out(const void *key, bool *revoked)
{
	_Atomic(struct handle *) *place = place_of(key);
	struct handle *handle = load(place);

	if (!handle)
		return false;
	*revoked = !handle->region;
	leave_region(handle);
	store(place, load(&handle->bucket_next));
	pool_put(&handle_pool, handle);
	return true;
}

bool handle_remove(const void *key, bool *revoked)
{
	/* Whose lease it is takes a look at each thread's, so that comes second. */
	if (take_out(key, revoked))
		return true;
	leases_return(key);
	return take_out(key, revoked);
}

struct handle *handle_spare(void)
{
	return pool_get(&handle_pool);
}

void handle_adopt(struct handle *handle, const void *key, struct region *region, uint64_t allocation)
{
	bool revoked;

	take_out(key, &revoked);
	store(&handle->key, key);
	handle->region = region;
	handle->allocation = allocation;
	store(&handle->bucket_next, load(bucket_of(key)));
	handle->region_previous = NULL;
	handle->region_next = region->held;
	if (region->held)
		region->held->region_previous = handle;
	region->held = handle;
	region->handles++;
	budget_set_busy(region);
	store(bucket_of(key), handle);
}

int handle_insert(const void *key, struct region *region, uint64_t allocation)
{
	struct handle *handle;

	leases_return(key);
	handle = handle_spare();
	if (!handle)
		return -ENOMEM;
	handle_adopt(handle, key, region, allocation);
	return 0;
}

bool handle_may_exist(const void *key)
{
	return load(bucket_of(key));
}

bool handle_exists(const void *key)
{
	return load(place_of(key)) || leases_have(key);
}

bool handle_forget(const void *key)
{
	struct handle *handle = load(place_of(key));

	/* The provider frees its struct next, and may put another registration of the child's there. */
	if (handle)
		store(&handle->key, NULL);
	return leases_forget(key) || handle;
}

void handle_revoke(struct region *region, uint64_t allocation)
{
	struct handle *next;

	for (struct handle *handle = region->held; handle; handle = next) {
		next = handle->region_next;
		if (allocation && handle->allocation != allocation)
			continue;
		leave_region(handle);
		statistics_count(revoked);
	}
}
