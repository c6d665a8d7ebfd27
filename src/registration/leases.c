/* SPDX-License-Identifier: BSD-3-Clause */
/* leases.c -- hits and their deregistrations, without registration_lock
 *
 * Each thread has a holder: its grants, its leases, and the regions that it has used since their
 * last entry in the pin limit's order. A biased lock (base/biased.h) guards the holder; its owner
 * is the thread. A thread that stops all holders has registration_lock.
 *
 * So a holder is accessed only by its owner inside the biased lock, by its owner with
 * registration_lock held, or by a thread that has stopped all holders. Other threads may read the
 * key of a lease, to find its holder: a client that deregisters on another thread has synchronized
 * both threads itself.
 *
 * A hit is correct: a grant names a region for one domain and one allocation by its id, which is
 * never reused. The grant is withdrawn before the region is deregistered, and leases taken until
 * then are revoked like any client MR. The look-up does not find a freed allocation. A free during
 * the owner's section finds the lease when all holders are stopped.
 *
 * A thread that ends leaves its holder, with its contents, to the next thread that needs one, at
 * whatever instruction it ended: a lease gets its key last and loses it first. `held` may then stay
 * too large by one, which costs one more check of each lease.
 */
#include "registration/leases.h"

#include <errno.h>

#include "base/atomics.h"
#include "base/biased.h"
#include "base/kernel.h"
#include "base/pool.h"

#define LEASES	64
#define GRANTS	512
#define TOUCHED 62

#define GIVES_WAY 8 /* 1 of so many collisions replaces a grant */

struct lease {
	_Atomic(const void *) key; /* NULL: none */
	struct region *region;
	uint64_t allocation;
	struct client_mr *spare; /* its object for the table; NULL: allocated under the lock */
};

struct grant {
	struct ibv_context *context; /* with the next two: the domain */
	uint32_t protection_domain;
	int access;
	uint64_t allocation;
	struct region *region; /* NULL: none */
	struct registration_keys keys;
} __attribute__((aligned(64)));

struct holder {
	struct holder *next_free;
	_Atomic uint32_t busy;
	int owner;     /* gettid() of the thread; guarded by registration_lock */
	uint32_t held; /* number of leases */
	uint32_t touched_count;
	uint32_t displaced;		 /* collisions with a grant */
	struct region *touched[TOUCHED]; /* in order of use, without direct repetitions */
	struct lease leases[LEASES];
	struct grant grants[GRANTS];
	struct holder *next;
} __attribute__((aligned(128)));

static struct pool holder_pool = POOL_INITIALIZER(struct holder);
static _Atomic(struct holder *) holders;
static __thread struct holder *mine __attribute__((tls_model("initial-exec"))); /* NULL: none yet */
static struct biased all;
static unsigned int stops; /* nesting depth; guarded by registration_lock */

LOOKUP_INLINE struct holder *leases_enter(void)
{
	struct holder *holder = mine;

	return holder && biased_enter(&all, &holder->busy) ? holder : NULL;
}

LOOKUP_INLINE void leases_leave(struct holder *holder)
{
	biased_leave(&holder->busy);
}

/* ---- the owner's side ---- */

static struct lease *leases_lease_of(struct holder *holder, const void *key)
{
	return &holder->leases[((uintptr_t)key >> 6 ^ (uintptr_t)key >> 12) % LEASES];
}

/* Adjacent slots have adjacent grants, so allocations in turn do not collide. */
static struct grant *leases_grant_of(struct holder *holder, uint32_t slot,
				     const struct ibv_context *context, uint32_t protection_domain,
				     int access)
{
	uint32_t domain = (uint32_t)((uintptr_t)context >> 6) ^ protection_domain * 37 ^
			  (uint32_t)access * 101;

	return &holder->grants[(slot + domain) % GRANTS];
}

static bool leases_is_granted(const struct grant *grant, const struct registration_request *request,
			      const struct found *found)
{
	return grant->region && grant->allocation == found->generation &&
	       grant->context == request->pd->context &&
	       grant->protection_domain == request->pd->handle && grant->access == request->access;
}

/* False for a key with a possible older client MR in the table: that one must be replaced there. */
static bool leases_is_free(const struct lease *lease, const void *key)
{
	return lease->spare && !load_relaxed(&lease->key) && !client_mr_may_exist(key);
}

static void leases_record(struct holder *holder, struct lease *lease, const void *key,
			  struct region *region, uint64_t allocation)
{
	holder->held++;
	lease->region = region;
	lease->allocation = allocation;
	store_release(&lease->key, key);
}

bool leases_hit(const struct registration_request *request, const struct found *found,
		struct registration_keys *keys)
{
	struct holder *holder = leases_enter();
	const struct grant *grant;
	struct lease *lease;
	bool hit;

	if (!holder)
		return false;
	grant = leases_grant_of(holder, found->slot, request->pd->context, request->pd->handle,
				request->access);
	lease = leases_lease_of(holder, request->client_mr);
	/* Check last that the allocation is live: that validates all reads of its record. A free
	 * from now on waits for the end of this section and finds the lease. */
	hit = leases_is_granted(grant, request, found) &&
	      leases_is_free(lease, request->client_mr) && lookup_is_same(found);
	if (hit) {
		leases_record(holder, lease, request->client_mr, grant->region, found->generation);
		*keys = grant->keys;
	}
	leases_leave(holder);
	return hit;
}

/* False: the list is full. */
static bool leases_touch(struct holder *holder, struct region *region)
{
	uint32_t count = holder->touched_count;

	if (count && holder->touched[count - 1] == region)
		return true;
	if (count == TOUCHED)
		return false;
	holder->touched[count] = region;
	holder->touched_count = count + 1;
	return true;
}

bool leases_drop(const void *key)
{
	struct holder *holder = leases_enter();
	struct lease *lease;
	bool dropped;

	if (!holder)
		return false;
	lease = leases_lease_of(holder, key);
	dropped = load_relaxed(&lease->key) == key && leases_touch(holder, lease->region);
	if (dropped) {
		store_release(&lease->key, NULL);
		holder->held--;
	}
	leases_leave(holder);
	return dropped;
}

/* ---- under the lock ---- */

static void leases_settle(struct holder *holder)
{
	for (uint32_t i = 0; i < holder->touched_count; i++)
		pin_limit_set_idle(holder->touched[i]);
	holder->touched_count = 0;
}

/* Enter the table first: a forked child may search for the key in between. */
static void leases_publish(struct holder *holder, struct lease *lease)
{
	const void *key = load_relaxed(&lease->key);

	if (!key)
		return;
	client_mr_adopt(lease->spare, key, lease->region, lease->allocation);
	lease->spare = NULL;
	store_release(&lease->key, NULL);
	holder->held--;
}

/* The holder of an ended thread, with its contents; NULL: none. A thread number that the kernel
 * reused hides the holder. */
static struct holder *leases_inherit(void)
{
	struct holder *holder = load_relaxed(&holders);

	while (holder && !kernel_has_ended(holder->owner))
		holder = holder->next;
	if (holder)
		biased_await(&holder->busy, holder->owner); /* orders that thread's last stores */
	return holder;
}

static struct holder *leases_create_holder(void)
{
	struct holder *holder = pool_get(&holder_pool);

	if (!holder)
		return NULL;
	if (!load_relaxed(&holders))
		biased_begin(&all);
	holder->next = load_relaxed(&holders);
	store_release(&holders, holder);
	return holder;
}

static struct holder *leases_get_holder(int owner)
{
	int saved_errno = errno;
	struct holder *holder = leases_inherit();

	if (!holder)
		holder = leases_create_holder();
	if (holder)
		holder->owner = owner;
	errno = saved_errno;
	return holder;
}

/* False: the entry belongs to another grant. With more memory in use than grants exist, replacing
 * at each collision would prevent every hit; so few collisions replace. */
static bool leases_grant(struct holder *holder, const struct registration_request *request,
			 const struct found *found, struct region *region)
{
	struct grant *grant = leases_grant_of(holder, found->slot, request->pd->context,
					      request->pd->handle, request->access);

	if (grant->region && !leases_is_granted(grant, request, found) &&
	    ++holder->displaced % GIVES_WAY)
		return false;
	*grant = (struct grant){ .context = request->pd->context,
				 .protection_domain = request->pd->handle,
				 .access = request->access,
				 .allocation = found->generation,
				 .region = region,
				 .keys = region->keys };
	return true;
}

bool leases_take(const struct registration_request *request, const struct found *found,
		 struct region *region)
{
	struct lease *lease;
	bool revoked;

	/* With unique keys, all client MRs must be in the table. */
	if (region->owner->own_keys)
		return false;
	if (!mine)
		mine = leases_get_holder(kernel_thread());
	/* A domain with more access flags serves only until an exact one exists. */
	if (!mine || region->domain->access != request->access ||
	    !leases_grant(mine, request, found, region))
		return false;
	client_mr_remove(request->client_mr, &revoked);
	lease = leases_lease_of(mine, request->client_mr);
	leases_publish(mine, lease); /* a long-held lease must not block the entry */
	if (!lease->spare)
		lease->spare = client_mr_spare();
	if (!lease->spare)
		return false;
	leases_record(mine, lease, request->client_mr, region, found->generation);
	return true;
}

bool leases_give(const void *key)
{
	struct lease *lease;

	if (!mine)
		return false;
	leases_settle(mine);
	lease = leases_lease_of(mine, key);
	if (load_relaxed(&lease->key) != key)
		return false;
	pin_limit_set_idle(lease->region);
	store_release(&lease->key, NULL);
	mine->held--;
	return true;
}

void leases_stop(void)
{
	int saved_errno = errno;

	if (stops++)
		return;
	biased_stop(&all, load_relaxed(&holders));
	for (struct holder *holder = load_relaxed(&holders); holder; holder = holder->next)
		biased_await(&holder->busy, holder->owner);
	for (struct holder *holder = load_relaxed(&holders); holder; holder = holder->next) {
		leases_settle(holder);
		for (unsigned int i = 0; i < LEASES && holder->held; i++)
			leases_publish(holder, &holder->leases[i]);
	}
	errno = saved_errno;
}

void leases_go(void)
{
	if (!--stops)
		biased_go(&all);
}

static void leases_withdraw(const struct region_reference *reference)
{
	const struct region *region = reference->region;
	struct grant *grant;

	for (struct holder *holder = load_relaxed(&holders); holder; holder = holder->next) {
		grant = leases_grant_of(holder, reference->slot, region->owner->context,
					region->owner->handle, region->domain->access);
		if (grant->region == region)
			grant->region = NULL;
	}
}

void leases_end_reference(const struct region_reference *reference)
{
	if (!reference->used)
		return;
	leases_stop();
	leases_withdraw(reference);
	leases_go();
}

void leases_end(const struct region *region)
{
	const struct region_reference *reference;

	if (LIST_EMPTY(&region->references))
		return;
	leases_stop();
	LIST_FOREACH(reference, &region->references, in_region)
		leases_withdraw(reference);
	leases_go();
}

/* The holder with a lease of the key; NULL: none. */
static struct holder *leases_find(const void *key)
{
	struct holder *holder = load_acquire(&holders);

	while (holder && load_acquire(&leases_lease_of(holder, key)->key) != key)
		holder = holder->next;
	return holder;
}

void leases_return(const void *key)
{
	struct holder *holder = leases_find(key);

	if (!holder)
		return;
	if (holder == mine) {
		leases_publish(holder, leases_lease_of(holder, key));
		holder = leases_find(key);
	}
	if (holder)
		leases_collect();
}

bool leases_have(const void *key)
{
	return leases_find(key);
}

bool leases_forget(const void *key)
{
	struct holder *holder = leases_find(key);

	if (holder)
		store_release(&leases_lease_of(holder, key)->key, NULL);
	return holder;
}
