/* SPDX-License-Identifier: BSD-3-Clause */
/* client_mr.c -- what clients hold, by the address of the provider's struct
 *
 * Never by the kernel's client MR number: that comes back for another registration as soon as this one is gone.
 */
#include "registration/internal.h"

#include <errno.h>
#include <stdatomic.h>

#include "base/pool.h"
#include "base/statistics.h"
#include "registration/leases.h"

#define BUCKETS (1u << 18)

/* A client MR with its memory gone is revoked: it has no region, and stays known until its client drops it. */
struct client_mr {
	struct client_mr *next_free;
	_Atomic(const void *) key;
	struct region *region; /* NULL: revoked */
	uint64_t allocation;
	_Atomic(struct client_mr *) bucket_next;
	struct client_mr *region_previous, *region_next;
};

/* Chains are changed by single pointer stores, so that a forked child finds them whole. */
static _Atomic(struct client_mr *) buckets[BUCKETS];
static struct pool client_mr_pool = POOL_INITIALIZER(struct client_mr);

/* Providers' structs come from malloc: what lies side by side there comes side by side here, so that few client MRs touch
 * little of the table. */
static _Atomic(struct client_mr *) *bucket_of(const void *key)
{
	uintptr_t line = (uintptr_t)key >> 6;

	return &buckets[(line ^ (line >> 18) * 0x9e3779b1u) % BUCKETS];
}

/* All links are stored with release, so that whoever follows them without the lock, in a forked child, finds whole client MRs;
 * more order than that nobody needs. */
#define load(place)	    atomic_load_explicit((place), memory_order_relaxed)
#define store(place, value) atomic_store_explicit((place), (value), memory_order_release)

/* The link that points to the key's client MR, or the empty end of its chain. */
static _Atomic(struct client_mr *) *place_of(const void *key)
{
	_Atomic(struct client_mr *) *place = bucket_of(key);
	struct client_mr *client_mr;

	while ((client_mr = load(place)) && load(&client_mr->key) != key)
		place = &client_mr->bucket_next;
	return place;
}

static void leave_region(struct client_mr *client_mr)
{
	struct region *region = client_mr->region;

	if (!region)
		return;
	if (client_mr->region_previous)
		client_mr->region_previous->region_next = client_mr->region_next;
	else
		region->held = client_mr->region_next;
	if (client_mr->region_next)
		client_mr->region_next->region_previous = client_mr->region_previous;
	client_mr->region = NULL;
	if (!--region->client_mrs)
		pin_limit_set_idle(region);
}

static bool take_out(const void *key, bool *revoked)
{
	_Atomic(struct client_mr *) *place = place_of(key);
	struct client_mr *client_mr = load(place);

	if (!client_mr)
		return false;
	*revoked = !client_mr->region;
	leave_region(client_mr);
	store(place, load(&client_mr->bucket_next));
	pool_put(&client_mr_pool, client_mr);
	return true;
}

bool client_mr_remove(const void *key, bool *revoked)
{
	/* Whose lease it is takes a look at each thread's, so that comes second. */
	if (take_out(key, revoked))
		return true;
	leases_return(key);
	return take_out(key, revoked);
}

struct client_mr *client_mr_spare(void)
{
	return pool_get(&client_mr_pool);
}

void client_mr_adopt(struct client_mr *client_mr, const void *key, struct region *region, uint64_t allocation)
{
	bool revoked;

	take_out(key, &revoked);
	store(&client_mr->key, key);
	client_mr->region = region;
	client_mr->allocation = allocation;
	store(&client_mr->bucket_next, load(bucket_of(key)));
	client_mr->region_previous = NULL;
	client_mr->region_next = region->held;
	if (region->held)
		region->held->region_previous = client_mr;
	region->held = client_mr;
	region->client_mrs++;
	pin_limit_set_busy(region);
	store(bucket_of(key), client_mr);
}

int client_mr_insert(const void *key, struct region *region, uint64_t allocation)
{
	struct client_mr *client_mr;

	leases_return(key);
	client_mr = client_mr_spare();
	if (!client_mr)
		return -ENOMEM;
	client_mr_adopt(client_mr, key, region, allocation);
	return 0;
}

bool client_mr_may_exist(const void *key)
{
	return load(bucket_of(key));
}

bool client_mr_exists(const void *key)
{
	return load(place_of(key)) || leases_have(key);
}

bool client_mr_forget(const void *key)
{
	struct client_mr *client_mr = load(place_of(key));

	/* The provider frees its struct next, and may put another registration of the child's there. */
	if (client_mr)
		store(&client_mr->key, NULL);
	return leases_forget(key) || client_mr;
}

void client_mr_revoke(struct region *region, uint64_t allocation)
{
	struct client_mr *next;

	for (struct client_mr *client_mr = region->held; client_mr; client_mr = next) {
		next = client_mr->region_next;
		if (allocation && client_mr->allocation != allocation)
			continue;
		leave_region(client_mr);
		statistics_count(revoked);
	}
}
