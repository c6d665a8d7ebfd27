/* SPDX-License-Identifier: BSD-3-Clause */
/* client_mr.c -- table of client MRs, by address of the provider's struct
 *
 * The kernel's handle cannot be the key: the kernel reuses it as soon as a registration ends.
 */
#include "base/atomics.h"
#include "registration/internal.h"

#include <errno.h>

#include "base/pool.h"
#include "base/process.h"
#include "registration/leases.h"
#include "report/statistics.h"

#define BUCKETS (1u << 18)

/* A client MR is revoked when its memory ends: it has no region, and stays in the table until its
 * client deregisters it. */
struct client_mr {
	struct client_mr *next_free;
	_Atomic(const void *) key;
	struct region *region; /* NULL: revoked */
	uint64_t allocation;
	_Atomic(struct client_mr *) bucket_next;
	LIST_ENTRY(client_mr) in_region;
};

/* Single pointer stores change a chain, so a forked child finds every chain intact. */
static _Atomic(struct client_mr *) buckets[BUCKETS];
static struct pool client_mr_pool = POOL_INITIALIZER(struct client_mr);

/* Providers allocate their structs with malloc. Adjacent structs have adjacent buckets, so few
 * client MRs touch little of the table. */
static _Atomic(struct client_mr *) *client_mr_bucket(const void *key)
{
	uintptr_t line = (uintptr_t)key >> 6;

	return &buckets[(line ^ (line >> 18) * 0x9e3779b1u) % BUCKETS];
}

/* Links are stored with release, so a reader without the lock, in a forked child, finds complete
 * client MRs. No stronger order is needed. */

/* The link to the key's client MR, or the empty end of its chain. */
static _Atomic(struct client_mr *) *client_mr_link(const void *key)
{
	_Atomic(struct client_mr *) *link = client_mr_bucket(key);
	struct client_mr *client_mr;

	while ((client_mr = load_relaxed(link)) && load_relaxed(&client_mr->key) != key)
		link = &client_mr->bucket_next;
	return link;
}

static void client_mr_leave_region(struct client_mr *client_mr)
{
	struct region *region = client_mr->region;

	if (!region)
		return;
	LIST_REMOVE(client_mr, in_region);
	client_mr->region = NULL;
	if (!--region->client_mrs)
		pin_limit_set_idle(region);
}

static bool client_mr_take_out(const void *key, bool *revoked)
{
	_Atomic(struct client_mr *) *link = client_mr_link(key);
	struct client_mr *client_mr = load_relaxed(link);

	if (!client_mr)
		return false;
	*revoked = !client_mr->region;
	client_mr_leave_region(client_mr);
	store_release(link, load_relaxed(&client_mr->bucket_next));
	pool_put(&client_mr_pool, client_mr);
	return true;
}

bool client_mr_remove(const void *key, bool *revoked)
{
	/* Search the leases last: that search visits each thread's. */
	if (client_mr_take_out(key, revoked))
		return true;
	leases_return(key);
	return client_mr_take_out(key, revoked);
}

struct client_mr *client_mr_spare(void)
{
	return pool_get(&client_mr_pool);
}

void client_mr_adopt(struct client_mr *client_mr, const void *key, struct region *region,
		     uint64_t allocation)
{
	bool revoked;

	client_mr_take_out(key, &revoked);
	store_release(&client_mr->key, key);
	client_mr->region = region;
	client_mr->allocation = allocation;
	store_release(&client_mr->bucket_next, load_relaxed(client_mr_bucket(key)));
	LIST_INSERT_HEAD(&region->held, client_mr, in_region);
	region->client_mrs++;
	pin_limit_set_busy(region);
	store_release(client_mr_bucket(key), client_mr);
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
	return load_relaxed(client_mr_bucket(key));
}

/* A forked child needs no lock here: it has no other thread, and chains are always intact. */
static bool client_mr_exists(const void *key)
{
	return load_relaxed(client_mr_link(key)) || leases_have(key);
}

/* False: there is none. */
static bool client_mr_forget(const void *key)
{
	struct client_mr *client_mr = load_relaxed(client_mr_link(key));

	/* The provider frees its struct after this call and may reuse the address for a
	 * registration of the child. */
	if (client_mr)
		store_release(&client_mr->key, NULL);
	return leases_forget(key) || client_mr;
}

void client_mr_revoke(struct region *region, uint64_t allocation)
{
	struct client_mr *next;

	for (struct client_mr *client_mr = LIST_FIRST(&region->held); client_mr; client_mr = next) {
		next = LIST_NEXT(client_mr, in_region);
		if (allocation && client_mr->allocation != allocation)
			continue;
		client_mr_leave_region(client_mr);
		statistics_count(revoked);
	}
}

/* ---- calls of clients ---- */

bool registration_drop(const void *client_mr)
{
	bool found, revoked = false;

	/* In a forked child, too: its copy of the parent's leases is its own memory. */
	if (leases_drop(client_mr))
		return true;
	/* Without CUDA there is no client MR. */
	if (!process_is_active())
		return false;
	if (process_is_forked())
		return client_mr_forget(client_mr);
	pthread_mutex_lock(&registration_lock);
	found = leases_give(client_mr) || client_mr_remove(client_mr, &revoked);
	pthread_mutex_unlock(&registration_lock);
	if (found && revoked)
		statistics_count(late_deregistrations);
	return found;
}

bool registration_holds(const void *client_mr)
{
	bool found;

	if (!process_is_active())
		return false;
	/* A thread that the child does not have may have held the parent's lock at the fork. */
	if (process_is_forked())
		return client_mr_exists(client_mr);
	pthread_mutex_lock(&registration_lock);
	found = client_mr_exists(client_mr);
	pthread_mutex_unlock(&registration_lock);
	return found;
}

/* With the lock held. NULL: not a region of peerpin's. */
static struct region *client_mr_find_region(const struct ibv_context *context,
					    uint32_t kernel_handle)
{
	struct region *region = NULL;

	for (struct domain *domain = domains; domain && !region; domain = domain->all_next) {
		if (domain->owner->context != context)
			continue;
		region = LIST_FIRST(&domain->regions);
		while (region && (region->state != REGION_READY ||
				  region->keys.kernel_handle != kernel_handle))
			region = LIST_NEXT(region, in_domain);
	}
	return region;
}

/* The allocation is unknown, so the client MR stays until the region ends. */
void registration_imported(const void *client_mr, const struct ibv_context *context,
			   uint32_t kernel_handle)
{
	int saved_errno = errno;
	struct region *region;

	if (!process_is_active())
		return;
	pthread_mutex_lock(&registration_lock);
	region = client_mr_find_region(context, kernel_handle);
	if (region)
		client_mr_insert(client_mr, region, 0);
	pthread_mutex_unlock(&registration_lock);
	errno = saved_errno;
}
