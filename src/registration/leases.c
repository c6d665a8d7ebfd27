/* SPDX-License-Identifier: BSD-3-Clause */
/* leases.c -- registrations that hit, and their ends, without registration_lock
 *
 * Each thread has a holder: its grants, its leases, and the regions that it has used since they
 * were last told to the pin limit. A holder is guarded by a biased lock (base/biased.h), whose
 * owner is the thread; who stops all has registration_lock.
 *
 * So a holder is only ever touched by one of: its owner, inside; its owner with registration_lock
 * held; anybody who has stopped all. Others may read the key of a lease, to find out whose it is: a
 * client that gives back on one thread what it took on another has made the one see what the other
 * did.
 *
 * Why a hit is right: a grant names a region for one domain and one allocation by its id, which is
 * never used again. It is taken back before the region is deregistered, and what has been leased by
 * then is revoked like any client MR. An allocation that has ended is not found; one that ends
 * while the owner is inside finds the lease when all are stopped.
 *
 * A thread that ends leaves its holder, with all that is in it, to the next one that needs one.
 * Wherever it ends: a lease has its key last, and loses it first; `held` may then be too large by
 * one for ever, which costs a look at each lease.
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

#define GIVES_WAY 8 /* one grant of so many */

struct lease {
	_Atomic(const void *) key; /* NULL: none */
	struct region *region;
	uint64_t allocation;
	struct client_mr *spare; /* what it becomes in the table; NULL: the next one is taken under
				    the lock */
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
	int owner;     /* the kernel's number of the thread; guarded by registration_lock */
	uint32_t held; /* its leases */
	uint32_t touched_count;
	uint32_t displaced;		 /* grants that another one's place was wanted for */
	struct region *touched[TOUCHED]; /* in their order; the same twice running is there once */
	struct lease leases[LEASES];
	struct grant grants[GRANTS];
	struct holder *next;
} __attribute__((aligned(128)));

static struct pool holder_pool = POOL_INITIALIZER(struct holder);
static _Atomic(struct holder *) holders;
static __thread struct holder *mine __attribute__((tls_model("initial-exec"))); /* NULL: none yet */
static struct biased all;
static unsigned int stops; /* within each other; guarded by registration_lock */

LOOKUP_INLINE struct holder *enter(void)
{
	struct holder *holder = mine;

	return holder && biased_enter(&all, &holder->busy) ? holder : NULL;
}

LOOKUP_INLINE void leave(struct holder *holder)
{
	biased_leave(&holder->busy);
}

/* ---- the owner's side ---- */

static struct lease *lease_of(struct holder *holder, const void *key)
{
	return &holder->leases[((uintptr_t)key >> 6 ^ (uintptr_t)key >> 12) % LEASES];
}

/* Places come one after the other, so allocations in turn do not meet. */
static struct grant *grant_of(struct holder *holder, uint32_t slot,
			      const struct ibv_context *context, uint32_t protection_domain,
			      int access)
{
	uint32_t domain = (uint32_t)((uintptr_t)context >> 6) ^ protection_domain * 37 ^
			  (uint32_t)access * 101;

	return &holder->grants[(slot + domain) % GRANTS];
}

static bool is_granted(const struct grant *grant, const struct registration_request *request,
		       const struct found *found)
{
	return grant->region && grant->allocation == found->generation &&
	       grant->context == request->pd->context &&
	       grant->protection_domain == request->pd->handle && grant->access == request->access;
}

/* A key whose older client MR may be in the table replaces it there. */
static bool is_free(const struct lease *lease, const void *key)
{
	return lease->spare && !load_relaxed(&lease->key) && !client_mr_may_exist(key);
}

static void take(struct holder *holder, struct lease *lease, const void *key, struct region *region,
		 uint64_t allocation)
{
	holder->held++;
	lease->region = region;
	lease->allocation = allocation;
	store_release(&lease->key, key);
}

bool leases_hit(const struct registration_request *request, const struct found *found,
		struct registration_keys *keys)
{
	struct holder *holder = enter();
	const struct grant *grant;
	struct lease *lease;
	bool hit;

	if (!holder)
		return false;
	grant = grant_of(holder, found->slot, request->pd->context, request->pd->handle,
			 request->access);
	lease = lease_of(holder, request->client_mr);
	/* Last, whether it lives: only then counts what was read of its record. What ends from now
	 * on waits until this is left, and finds the lease. */
	hit = is_granted(grant, request, found) && is_free(lease, request->client_mr) &&
	      lookup_is_same(found);
	if (hit) {
		take(holder, lease, request->client_mr, grant->region, found->generation);
		*keys = grant->keys;
	}
	leave(holder);
	return hit;
}

/* False: there is no more room. */
static bool touch(struct holder *holder, struct region *region)
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
	struct holder *holder = enter();
	struct lease *lease;
	bool dropped;

	if (!holder)
		return false;
	lease = lease_of(holder, key);
	dropped = load_relaxed(&lease->key) == key && touch(holder, lease->region);
	if (dropped) {
		store_release(&lease->key, NULL);
		holder->held--;
	}
	leave(holder);
	return dropped;
}

/* ---- under the lock ---- */

static void settle(struct holder *holder)
{
	for (uint32_t i = 0; i < holder->touched_count; i++)
		pin_limit_set_idle(holder->touched[i]);
	holder->touched_count = 0;
}

/* First into the table: a forked child may look for it in between. */
static void bring_in(struct holder *holder, struct lease *lease)
{
	const void *key = load_relaxed(&lease->key);

	if (!key)
		return;
	client_mr_adopt(lease->spare, key, lease->region, lease->allocation);
	lease->spare = NULL;
	store_release(&lease->key, NULL);
	holder->held--;
}

/* One whose thread has ended, with all that is in it, or NULL. A number that is another thread's by
 * now only keeps it from being found. */
static struct holder *inherit(void)
{
	struct holder *holder = load_relaxed(&holders);

	while (holder && !kernel_has_ended(holder->owner))
		holder = holder->next;
	if (holder)
		biased_await(&holder->busy,
			     holder->owner); /* at once: to see what that thread left */
	return holder;
}

static struct holder *make(void)
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

static struct holder *make_holder(int owner)
{
	int saved_errno = errno;
	struct holder *holder = inherit();

	if (!holder)
		holder = make();
	if (holder)
		holder->owner = owner;
	errno = saved_errno;
	return holder;
}

/* False: it is another one's place. Who uses more memory than there are grants would only ever
 * write them, and find none; so but few give way. */
static bool grant(struct holder *holder, const struct registration_request *request,
		  const struct found *found, struct region *region)
{
	struct grant *grant = grant_of(holder, found->slot, request->pd->context,
				       request->pd->handle, request->access);

	if (grant->region && !is_granted(grant, request, found) && ++holder->displaced % GIVES_WAY)
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

	/* Whoever has a key alone is known under the lock. */
	if (region->owner->own_keys)
		return false;
	if (!mine)
		mine = make_holder(kernel_thread());
	/* With more rights than were asked for, another region may be chosen once there is one. */
	if (!mine || region->domain->access != request->access ||
	    !grant(mine, request, found, region))
		return false;
	client_mr_remove(request->client_mr, &revoked);
	lease = lease_of(mine, request->client_mr);
	bring_in(mine, lease); /* one that is held for long is no longer in the way */
	if (!lease->spare)
		lease->spare = client_mr_spare();
	if (!lease->spare)
		return false;
	take(mine, lease, request->client_mr, region, found->generation);
	return true;
}

bool leases_give(const void *key)
{
	struct lease *lease;

	if (!mine)
		return false;
	settle(mine);
	lease = lease_of(mine, key);
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
		settle(holder);
		for (unsigned int i = 0; i < LEASES && holder->held; i++)
			bring_in(holder, &holder->leases[i]);
	}
	errno = saved_errno;
}

void leases_go(void)
{
	if (!--stops)
		biased_go(&all);
}

static void take_back(const struct region_reference *reference)
{
	const struct region *region = reference->region;
	struct grant *grant;

	for (struct holder *holder = load_relaxed(&holders); holder; holder = holder->next) {
		grant = grant_of(holder, reference->slot, region->owner->context,
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
	take_back(reference);
	leases_go();
}

void leases_end(const struct region *region)
{
	if (!region->references)
		return;
	leases_stop();
	for (const struct region_reference *reference = region->references; reference;
	     reference = reference->region_next)
		take_back(reference);
	leases_go();
}

/* NULL: nobody has it. */
static struct holder *find(const void *key)
{
	struct holder *holder = load_acquire(&holders);

	while (holder && load_acquire(&lease_of(holder, key)->key) != key)
		holder = holder->next;
	return holder;
}

void leases_return(const void *key)
{
	struct holder *holder = find(key);

	if (!holder)
		return;
	if (holder == mine) {
		bring_in(holder, lease_of(holder, key));
		holder = find(key);
	}
	if (holder)
		leases_collect();
}

bool leases_have(const void *key)
{
	return find(key);
}

bool leases_forget(const void *key)
{
	struct holder *holder = find(key);

	if (holder)
		store_release(&lease_of(holder, key)->key, NULL);
	return holder;
}
