/* SPDX-License-Identifier: BSD-3-Clause */
/* client_mr.c -- table of client MRs, and the client's calls with one */
#include "registration/client_mr.h"

#include <errno.h>

#include "base/atomics.h"
#include "base/process.h"
#include "registration/holds.h"
#include "registration/internal.h"
#include "report/statistics.h"

#define BUCKETS (1u << 16)
#define ENTRIES 8 /* 100 000 client MRs: a full bucket for one of 30 000 */

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

/* Providers allocate their structs with malloc. Adjacent structs have adjacent buckets, so few
 * client MRs touch little of the table. */
static struct bucket *client_mr_bucket(const void *key)
{
	uintptr_t line = (uintptr_t)key >> 6;

	return &buckets[(line ^ (line >> 16) * 0x9e3779b1u) % BUCKETS];
}

static struct entry *client_mr_find(const void *key)
{
	struct bucket *bucket = client_mr_bucket(key);

	for (unsigned int i = 0; i < ENTRIES; i++) {
		if (load_acquire(&bucket->entries[i].key) == (uintptr_t)key)
			return &bucket->entries[i];
	}
	return NULL;
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
	return hold;
}

bool client_mr_add(const void *key, uint64_t hold)
{
	struct bucket *bucket = client_mr_bucket(key);
	struct entry *free = NULL;
	uintptr_t other;

	for (unsigned int i = ENTRIES; i--;) {
		other = load_relaxed(&bucket->entries[i].key);
		/* A change of the client MR, or the provider has reused the address without a
		 * deregistration that peerpin intercepted. The entry stays: no other thread gets
		 * it. */
		if (other == (uintptr_t)key) {
			holds_drop(exchange_relaxed(&bucket->entries[i].hold, hold));
			return true;
		}
		if (!other)
			free = &bucket->entries[i];
	}
	/* Another thread may take the entry first: then the next one from here, if any. */
	for (; free && free < bucket->entries + ENTRIES; free++) {
		other = 0;
		if (!replace_seq_cst(&free->key, &other, (uintptr_t)key | CLAIMED))
			continue;
		store_relaxed(&free->hold, hold);
		store_release(&free->key, (uintptr_t)key);
		return true;
	}
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
		region_import(region, client_mr);
	pthread_mutex_unlock(&registration_lock);
	errno = saved_errno;
}
