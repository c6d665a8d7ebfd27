/* SPDX-License-Identifier: BSD-3-Clause */
/* client_mr.c -- table of client MRs, and the client's calls with one */
#include "registration/client_mr.h"

#include <errno.h>

#include "base/atomics.h"
#include "base/kernel.h"
#include "base/pool.h"
#include "base/process.h"
#include "registration/adapter.h"
#include "registration/domain.h"
#include "registration/holds.h"
#include "registration/lock.h"
#include "registration/region.h"
#include "registration/verbs_abi.h"
#include "report/callers.h"
#include "report/statistics.h"

/* A radix tree of addresses: root, nodes, leaves. A leaf's entry is for 32 bytes, in which at most
 * one of a provider's structs begins. The tree has addresses of 48 bits: the kernel gives out
 * higher ones only by request. */
#define ENTRY_BITS 5
#define LEAF_BITS  13
#define NODE_BITS  15
#define ROOT_BITS  15

_Static_assert(sizeof(struct ibv_mr) >= 1u << ENTRY_BITS, "two structs may begin in one entry");
_Static_assert(HOLDS_STRIPES <= 1u << (64 - ENTRY_BITS - HOLDS_STRIPE_SHIFT),
	       "a stripe has too many bits");

/* 0: free. Else a hold, with the address within the entry in the highest bits: a struct that ended
 * without a deregistration that peerpin intercepted is not taken for one that begins beside it. */
typedef _Atomic uint64_t client_mr_entry;

#define HOLD_BITS (64 - ENTRY_BITS)

struct client_mr_leaf {
	client_mr_entry entries[1 << LEAF_BITS];
};

struct client_mr_node {
	_Atomic(void *) leaves[1 << NODE_BITS];
};

static _Atomic(void *) client_mr_root[1 << ROOT_BITS];

static void *client_mr_make(_Atomic(void *) *place, size_t size)
{
	void *found = NULL, *made = pool_map(size);

	if (!made || replace_seq_cst(place, &found, made))
		return made;
	kernel_unmap(made, size);
	return found;
}

/* The node or leaf at `place`. Without one it is made if a size is given. */
static inline void *client_mr_below(_Atomic(void *) *place, size_t size)
{
	void *found = load_acquire(place);

	return found || !size ? found : client_mr_make(place, size);
}

/* The entry for `key`. NULL: there is none; with `make`: no memory, or an address above 48 bits. */
static inline client_mr_entry *client_mr_at(const void *key, bool make)
{
	uintptr_t at = (uintptr_t)key >> ENTRY_BITS;
	struct client_mr_node *node;
	struct client_mr_leaf *leaf = NULL;

	if (at >> (ROOT_BITS + NODE_BITS + LEAF_BITS))
		return NULL;
	node = client_mr_below(&client_mr_root[at >> (LEAF_BITS + NODE_BITS)],
			       make ? sizeof(*node) : 0);
	if (node)
		leaf = client_mr_below(&node->leaves[at >> LEAF_BITS & ((1 << NODE_BITS) - 1)],
				       make ? sizeof(*leaf) : 0);
	return leaf ? &leaf->entries[at & ((1 << LEAF_BITS) - 1)] : NULL;
}

static inline uint64_t client_mr_tag(const void *key)
{
	return (uintptr_t)key << HOLD_BITS;
}

static inline uint64_t client_mr_hold(uint64_t value)
{
	return value & (((uint64_t)1 << HOLD_BITS) - 1);
}

/* The hold; 0: there is none. */
static inline uint64_t client_mr_read(const void *key, client_mr_entry **entry)
{
	uint64_t value;

	*entry = client_mr_at(key, false);
	value = *entry ? load_acquire(*entry) : 0;
	return client_mr_hold(value) == (value ^ client_mr_tag(key)) ? client_mr_hold(value) : 0;
}

bool client_mr_add(const void *key, uint64_t hold)
{
	client_mr_entry *entry = client_mr_at(key, true);
	uint64_t former;

	if (!entry)
		return false;
	/* A change of the client MR, or the provider has reused the address without a
	 * deregistration that peerpin intercepted. */
	hold |= client_mr_tag(key);
	if (!client_mr_hold(load_relaxed(entry))) {
		store_relaxed(entry, hold);
		return true;
	}
	/* Another thread may deregister it. */
	former = client_mr_hold(exchange_seq_cst(entry, hold));
	if (former)
		holds_drop(former);
	return true;
}

/* ---- calls of clients ---- */

/* The kernel gives out the lowest free handles. */
#define NO_HANDLE UINT32_MAX

/* Of a client MR that was revoked. The region's struct stays until this hold is dropped. Clients
 * may deregister in time inside the free, in a hook of theirs. */
static void client_mr_drop_late(uint64_t hold)
{
	const struct region_hits *hits = holds_hits(hold);
	uint32_t caller = load_relaxed(&hits->caller);
	uint64_t length = load_relaxed(&hits->length);
	bool held = holds_change(holds_revoked(hold), (uint64_t)-1);

	if (process_is_forked())
		return;
	statistics_count(late_deregistrations);
	if (held && !memory_frees_here)
		callers_find(caller, FINDING_outlived, 1, length, 0);
}

/* NO_HANDLE is stored before the entry is removed: a thread that finds no entry reads NO_HANDLE. */
static inline bool client_mr_drop(const void *client_mr, uint32_t *kernel_handle)
{
	client_mr_entry *entry;
	uint64_t hold = client_mr_read(client_mr, &entry), value = hold | client_mr_tag(client_mr);

	if (!hold)
		return false;
	if (kernel_handle)
		__atomic_store_n(kernel_handle, NO_HANDLE, __ATOMIC_RELAXED);
	if (!replace_seq_cst(entry, &value, 0))
		return false;
	if (!holds_change(hold, (uint64_t)-1))
		client_mr_drop_late(hold);
	return true;
}

bool registration_drop(const void *client_mr)
{
	return client_mr_drop(client_mr, NULL);
}

bool registration_drop_once(const void *client_mr, uint32_t *kernel_handle)
{
	return client_mr_drop(client_mr, kernel_handle);
}

bool registration_holds(const void *client_mr)
{
	client_mr_entry *entry;

	return client_mr_read(client_mr, &entry);
}

struct ibv_pd *registration_pd_of(const void *client_mr)
{
	const struct region *region;
	struct ibv_pd *pd = NULL;
	uint32_t generation;
	client_mr_entry *entry;
	uint64_t hold;

	registration_lock();
	hold = client_mr_read(client_mr, &entry);
	if (hold) {
		region = holds_hits(hold)->region;
		generation = (uint32_t)holds_of(region->hits);
		if (region->owner &&
		    (generation == (uint32_t)hold || generation == (uint32_t)holds_revoked(hold)))
			pd = region->owner->pd;
	}
	registration_unlock();
	return pd;
}

/* With the lock held. NULL: not a region of peerpin's. */
static struct region *client_mr_find_region(const struct ibv_context *context,
					    uint32_t kernel_handle)
{
	const struct adapter *adapter = adapter_find(context);
	struct protection_domain *owner = adapter ? LIST_FIRST(&adapter->owners) : NULL;
	struct region *region;

	for (; owner; owner = LIST_NEXT(owner, in_adapter)) {
		for (struct domain *domain = owner->domains; domain; domain = domain->next) {
			TAILQ_FOREACH(region, &domain->regions, in_list) {
				if (region->keys.kernel_handle == kernel_handle)
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
	uint64_t hold;

	if (!process_is_active())
		return;
	registration_lock();
	region = client_mr_find_region(context, kernel_handle);
	hold = region ? region_take_import(region) : 0;
	if (hold && !client_mr_add(client_mr, hold))
		holds_drop(hold);
	registration_unlock();
	errno = saved_errno;
}
