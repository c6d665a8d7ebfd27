/* SPDX-License-Identifier: BSD-3-Clause */
/* domain.c -- protection domains, their domains, and the end of both */
#include "base/atomics.h"
#include "registration/background.h"
#include "registration/internal.h"

#include "base/log.h"
#include "base/pool.h"
#include "base/process.h"
#include "base/system.h"
#include "registration/pinning.h"
#include "registration/references.h"
#include "registration/session.h"
#include "report/statistics.h"

/* Adaptive: the lock is held so briefly that spinning beats sleeping. */
pthread_mutex_t registration_lock = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;

struct protection_domain *protection_domains;

static struct pool protection_domain_pool = POOL_INITIALIZER(struct protection_domain);
static struct pool domain_pool = POOL_INITIALIZER(struct domain);

struct protection_domain *protection_domain_find(struct ibv_context *context, uint32_t handle)
{
	struct protection_domain *owner = protection_domains;

	session_assert();
	while (owner && (owner->context != context || owner->handle != handle))
		owner = owner->next;
	return owner;
}

struct domain *domain_find(struct protection_domain *owner, int access)
{
	struct domain *domain = owner->domains;

	session_assert();
	while (domain && domain->access != access)
		domain = domain->next;
	return domain;
}

/* For readers without the lock. */
static _Atomic unsigned int domain_count, owner_count, dma_buf_only_count;

bool domain_may_exist(void)
{
	return load_relaxed(&domain_count) ||
	       (adapter_has_selection() && load_relaxed(&owner_count));
}

/* Memory that is not `described` may be of a managed pool, whose export crashes the driver (UCX
 * pull request 11922). */
static bool domain_takes(const struct allocation *allocation, bool dma_buf_only)
{
	return memory_is_registrable(allocation) ||
	       (dma_buf_only && allocation->described && memory_is_exportable(allocation));
}

bool domain_reaches(const struct domain *domain, const struct allocation *allocation)
{
	return domain_takes(allocation, domain->dma_buf_only);
}

bool domain_may_reach(const struct allocation *allocation)
{
	return domain_may_exist() && domain_takes(allocation, load_relaxed(&dma_buf_only_count));
}

bool domain_served(struct domain *domain, const struct allocation *allocation)
{
	if (domain->dma_buf_only || memory_is_registrable(allocation))
		return false;
	domain->dma_buf_only = true;
	dma_buf_only_count++;
	learning_reconsider();
	return background_queue_all();
}

/* ---- domains for hits, by context, handle and access flags ----
 *
 * A domain is in the table from its first request until its protection domain begins to close.
 * Structs of domains are type-stable: the struct that a hit has found may be reused, with a hold of
 * another domain. So a hit compares again after it has taken the hold, which keeps the domain.
 */

#define TABLE 1024u
#define PROBE 4u

static _Atomic(struct domain *) table[TABLE];

static _Atomic(struct domain *) *domain_table_at(const struct ibv_context *context, uint32_t handle,
						 int access, unsigned int probe)
{
	uint64_t mixed = ((uintptr_t)context >> 4 ^ (uint64_t)handle << 32 ^
			  (uint64_t)(unsigned int)access << 20) *
			 0x9e3779b97f4a7c15u;

	return &table[((mixed >> 40) + probe) % TABLE];
}

struct domain *domain_for_hit(const struct ibv_pd *pd, int access)
{
	struct domain *domain;

	for (unsigned int i = 0; i < PROBE; i++) {
		domain = load_acquire(domain_table_at(pd->context, pd->handle, access, i));
		if (domain && domain_is_of(domain, pd, access))
			return domain;
	}
	return NULL;
}

void domain_enter_table(struct domain *domain)
{
	struct protection_domain *owner = domain->owner;
	_Atomic(struct domain *) *entry, *free = NULL;

	/* Requests by dma-buf take the lock. */
	if (domain->access & DOMAIN_PCIE)
		return;
	for (unsigned int i = PROBE; i--;) {
		entry = domain_table_at(owner->context, owner->handle, domain->access, i);
		if (load_relaxed(entry) == domain)
			return;
		if (!load_relaxed(entry) || !free)
			free = entry;
	}
	store_release(free, domain);
}

static void domain_leave_table(const struct domain *domain)
{
	const struct protection_domain *owner = domain->owner;
	_Atomic(struct domain *) *entry;

	for (unsigned int i = 0; i < PROBE; i++) {
		entry = domain_table_at(owner->context, owner->handle, domain->access, i);
		if (load_relaxed(entry) == domain)
			store_release(entry, NULL);
	}
}

struct domain *domain_after(uint64_t number)
{
	struct domain *after = NULL;

	session_assert();
	for (struct protection_domain *owner = protection_domains; owner; owner = owner->next) {
		for (struct domain *domain = owner->domains; domain; domain = domain->next) {
			if (domain->number > number && (!after || domain->number < after->number))
				after = domain;
		}
	}
	return after;
}

struct domain *domain_create(struct protection_domain *owner, int access)
{
	static uint64_t last_number;
	struct domain *domain = pool_get(&domain_pool);

	session_assert();
	if (!domain)
		return NULL;
	/* The array of keys stays with the struct, cleared: keys_end(). */
	domain->owner = owner;
	store_release(&domain->context, owner->context);
	store_release(&domain->handle, owner->handle);
	store_release(&domain->access, access);
	domain->enabled = domain->exports = domain->dma_buf_only = domain->looked_up = false;
	domain->span_failures = 0;
	domain->number = ++last_number;
	LIST_INIT(&domain->regions);
	domain->next = owner->domains;
	owner->domains = domain;
	keys_begin(domain);
	learning_begin(domain);
	domain_count++;
	return domain;
}

/* Ends the regions of a protection domain; those with client MRs, imports aside, only if
 * `held_too`. */
static void protection_domain_end_regions(struct protection_domain *owner, bool held_too)
{
	struct region *region;

	session_assert();
	for (struct domain *domain = owner->domains; domain; domain = domain->next) {
		/* region_end() may drop the lock, so restart from the head of the list. */
		do {
			LIST_FOREACH(region, &domain->regions, in_domain) {
				if (held_too || region_claim(region))
					break;
			}
			if (region)
				region_end(region);
		} while (region);
	}
}

/* From now on the protection domain serves no request, except hits that have begun. */
static void protection_domain_begin_closing(struct protection_domain *owner)
{
	owner->closing = true;
	for (struct domain *domain = owner->domains; domain; domain = domain->next)
		domain_leave_table(domain);
}

static void protection_domain_forget(struct protection_domain *owner)
{
	struct protection_domain **link = &protection_domains;
	struct domain *domain;

	while (*link != owner)
		link = &(*link)->next;
	*link = owner->next;
	owner_count--;
	references_forget_revoked(owner);
	while ((domain = owner->domains)) {
		session_check(LIST_EMPTY(&domain->regions));
		owner->domains = domain->next;
		keys_end(domain);
		domain_count--;
		dma_buf_only_count -= domain->dma_buf_only;
		pool_put(&domain_pool, domain);
	}
	pool_put(&protection_domain_pool, owner);
}

/* Ends and forgets a protection domain with everything in it. Drops the lock meanwhile. */
static void protection_domain_end(struct protection_domain *owner)
{
	protection_domain_begin_closing(owner);
	protection_domain_end_regions(owner, true);
	region_await_owner(owner);
	protection_domain_forget(owner);
}

/* The open devices are the parent's: a registration that the child made there would outlive the
 * child. Structs of the pools stay behind. */
void registration_renew(void)
{
	session_renew();
	own_thread_renew();
	protection_domains = NULL;
	protection_domain_pool = (struct pool)POOL_INITIALIZER(struct protection_domain);
	store_relaxed(&owner_count, 0);
	adapters_renew();
}

void registration_pd_opened(struct ibv_pd *pd, bool by_key)
{
	struct protection_domain *owner;
	struct adapter *adapter;
	bool go = false, stale = false;

	statistics_count(protection_domains);
	/* Without a protection domain there is no region, and no thread that waits for one. */
	system_prepare();
	session_begin();
	/* The kernel reuses a handle after its protection domain ended, so a record with this
	 * handle is stale. A closing protection domain is only waiting for registration_pd_closed()
	 * on another thread. */
	owner = protection_domain_find(pd->context, pd->handle);
	if (owner && !owner->closing) {
		statistics_count(internal_errors);
		stale = true;
		protection_domain_end(owner);
	}
	adapter = adapter_of(pd->context);
	owner = adapter ? pool_get(&protection_domain_pool) : NULL;
	if (owner) {
		*owner = (struct protection_domain){ .context = pd->context,
						     .handle = pd->handle,
						     .pd = pd,
						     .adapter = adapter,
						     .own_keys = by_key,
						     .next = protection_domains };
		protection_domains = owner;
		owner_count++;
		go = adapter_has_selection() && process_is_active() && background_queue_all();
	}
	session_end();
	if (stale)
		log_once(LOG_ERROR, "peerpin did not intercept the end of a protection domain and "
				    "ended its regions only now. Please report which libraries of "
				    "the program use verbs.");
	if (go)
		background_go();
}

/* The client has a client MR there that it has not deregistered. */
static bool protection_domain_is_busy(struct protection_domain *owner)
{
	const struct region *region = NULL;

	for (struct domain *domain = owner->domains; domain && !region; domain = domain->next) {
		LIST_FOREACH(region, &domain->regions, in_domain) {
			if (region_has_client_mrs(region))
				break;
		}
	}
	return region || references_any_revoked(owner);
}

bool registration_pd_closing(struct ibv_pd *pd)
{
	struct protection_domain *owner;
	bool busy;

	session_begin();
	owner = protection_domain_find(pd->context, pd->handle);
	busy = owner && protection_domain_is_busy(owner);
	if (owner && !busy) {
		protection_domain_begin_closing(owner);
		/* The region of a hit that had begun stays: the kernel then refuses. */
		protection_domain_end_regions(owner, false);
		region_await_owner(owner);
		adapter_await(owner->adapter);
	}
	session_end();
	return !busy;
}

/* Compare the struct, which the provider has not freed yet: the kernel may have reused the
 * handle. */
void registration_pd_closed(const struct ibv_pd *pd, bool ended)
{
	struct protection_domain *owner;
	bool go = false;

	session_begin();
	for (owner = protection_domains; owner && owner->pd != pd; owner = owner->next)
		;
	if (owner && ended) {
		protection_domain_end(owner);
	} else if (owner) {
		owner->closing = false;
		/* Regions without client MRs were deregistered, and allocations made meanwhile were
		 * not registered here. */
		go = owner->domains && process_is_active() && background_queue_all();
	}
	session_end();
	if (go)
		background_go();
}

void registration_context_closing(struct ibv_context *context)
{
	struct protection_domain *owner;

	session_begin();
	do {
		for (owner = protection_domains; owner && owner->context != context;
		     owner = owner->next)
			;
		if (owner)
			protection_domain_end(owner);
	} while (owner);
	adapter_forget(context);
	session_end();
	/* Without CUDA no region was pinned, and registration_renew() does not free the lock of
	 * pinning.c. */
	if (process_is_active())
		pinning_device_closed(context);
}
