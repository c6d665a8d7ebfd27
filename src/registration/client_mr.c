/* SPDX-License-Identifier: BSD-3-Clause */
/* client_mr.c -- table of client MRs, and the client's calls with one */
#include "registration/client_mr.h"

#include <errno.h>

#include "base/atomics.h"
#include "base/process.h"
#include "registration/holds.h"
#include "registration/internal.h"
#include "report/statistics.h"

#define BUCKETS (1u << 17)
#define ENTRIES 4 /* one cache line */

/* Flag of a key, which is the address of a struct and therefore even: the hold is not stored yet.
 */
#define CLAIMED ((uintptr_t)1)

struct entry {
	_Atomic uintptr_t key; /* 0: free */
	_Atomic uint64_t hold;
};

static struct bucket {
	struct entry entries[ENTRIES];
} buckets[BUCKETS] __attribute__((aligned(64)));

/* Entries in the second bucket of their key. */
static _Atomic uint32_t client_mr_displaced;

/* Providers allocate their structs with malloc: at least 80 bytes each, so at most 4 begin in 256
 * bytes. Adjacent blocks have adjacent buckets, so few client MRs touch little of the table. */
static struct bucket *client_mr_first_bucket(const void *key)
{
	uintptr_t block = (uintptr_t)key >> 8;

	return &buckets[(block ^ (block >> 17) * 0x9e3779b1u) % BUCKETS];
}

/* Scattered, because full buckets are adjacent where blocks of two heaps share them. */
static struct bucket *client_mr_second_bucket(const void *key)
{
	return &buckets[((uintptr_t)key * 0x9e3779b97f4a7c15u >> 40) % BUCKETS];
}

static struct entry *client_mr_find_in(struct bucket *bucket, const void *key)
{
	for (unsigned int i = 0; i < ENTRIES; i++) {
		if (load_acquire(&bucket->entries[i].key) == (uintptr_t)key)
			return &bucket->entries[i];
	}
	return NULL;
}

static struct entry *client_mr_find(const void *key)
{
	struct entry *entry = client_mr_find_in(client_mr_first_bucket(key), key);

	return entry || !load_relaxed(&client_mr_displaced)
		       ? entry
		       : client_mr_find_in(client_mr_second_bucket(key), key);
}

/* A plain store suffices: a client deregisters a client MR once, and its address has no other use
 * before that. */
uint64_t client_mr_remove(const void *key)
{
	struct entry *entry = client_mr_find(key);
	uint64_t hold;

	if (!entry)
		return 0;
	hold = load_relaxed(&entry->hold);
	store_release(&entry->key, 0);
	if ((uintptr_t)entry / sizeof(struct bucket) !=
	    (uintptr_t)client_mr_first_bucket(key) / sizeof(struct bucket))
		subtract_relaxed(&client_mr_displaced, 1);
	return hold;
}

static bool client_mr_put_in(struct bucket *bucket, const void *key, uint64_t hold)
{
	struct entry *entry = bucket->entries;
	uintptr_t none;

	for (; entry < bucket->entries + ENTRIES; entry++) {
		none = 0;
		if (load_relaxed(&entry->key) ||
		    !replace_seq_cst(&entry->key, &none, (uintptr_t)key | CLAIMED))
			continue;
		store_relaxed(&entry->hold, hold);
		store_release(&entry->key, (uintptr_t)key);
		return true;
	}
	return false;
}

bool client_mr_add(const void *key, uint64_t hold)
{
	struct entry *entry = client_mr_find(key);

	/* A change of the client MR, or the provider has reused the address without a
	 * deregistration that peerpin intercepted. The entry stays: no other thread gets it. */
	if (entry) {
		holds_drop(exchange_relaxed(&entry->hold, hold));
		return true;
	}
	if (client_mr_put_in(client_mr_first_bucket(key), key, hold))
		return true;
	add_relaxed(&client_mr_displaced, 1);
	if (client_mr_put_in(client_mr_second_bucket(key), key, hold))
		return true;
	subtract_relaxed(&client_mr_displaced, 1);
	return false;
}

/* ---- calls of clients ---- */

bool registration_drop(const void *client_mr)
{
	uint64_t hold;

	/* Without CUDA there is no client MR. In a forked child the tables are its own memory. */
	if (!process_is_active())
		return false;
	hold = client_mr_remove(client_mr);
	if (hold && !holds_drop(hold))
		statistics_count(late_deregistrations);
	return hold;
}

bool registration_holds(const void *client_mr)
{
	return process_is_active() && client_mr_find(client_mr);
}

/* With the lock held. NULL: not a region of peerpin's. */
static struct region *client_mr_find_region(const struct ibv_context *context,
					    uint32_t kernel_handle)
{
	for (struct protection_domain *owner = protection_domains; owner; owner = owner->next) {
		struct domain *domain = owner->context == context ? owner->domains : NULL;
		struct region *region;

		for (; domain; domain = domain->next) {
			LIST_FOREACH(region, &domain->regions, in_domain) {
				if (region->state == REGION_READY &&
				    region->keys.kernel_handle == kernel_handle)
					return region;
			}
		}
	}
	return NULL;
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
		region_import(region, client_mr);
	pthread_mutex_unlock(&registration_lock);
	errno = saved_errno;
}
