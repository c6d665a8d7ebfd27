/* SPDX-License-Identifier: BSD-3-Clause */
/* domain.c -- protection domains, the rights in them, and their ends */
#include "registration/internal.h"

#include "base/kernel.h"
#include "base/log.h"
#include "base/near.h"
#include "base/pool.h"
#include "base/process.h"
#include "base/statistics.h"
#include "base/system.h"
#include "registration/leases.h"
#include "registration/pinning.h"

/* Held for so short a time that whoever finds it taken does better to look again than to sleep. */
pthread_mutex_t registration_lock = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
pthread_cond_t region_settled = PTHREAD_COND_INITIALIZER;

struct protection_domain *protection_domains;
struct domain *domains;

static struct pool protection_domain_pool = POOL_INITIALIZER(struct protection_domain);
static struct pool domain_pool = POOL_INITIALIZER(struct domain);

struct protection_domain *protection_domain_find(struct ibv_context *context, uint32_t handle)
{
	struct protection_domain *owner = protection_domains;

	while (owner && (owner->context != context || owner->handle != handle))
		owner = owner->next;
	return owner;
}

struct domain *domain_find(struct protection_domain *owner, int access)
{
	struct domain *domain = owner->domains;

	while (domain && domain->access != access)
		domain = domain->next;
	return domain;
}

/* How many there are, for who has not the lock. */
static _Atomic unsigned int domain_count, owner_count;

NEAR bool domain_somebody_may_want(void)
{
	return atomic_load_explicit(&domain_count, memory_order_relaxed) ||
	       (adapter_chooses() && atomic_load_explicit(&owner_count, memory_order_relaxed));
}

struct domain *domain_after(uint64_t number)
{
	struct domain *domain = domains;

	while (domain && domain->number <= number)
		domain = domain->all_next;
	return domain;
}

struct domain *domain_make(struct protection_domain *owner, int access)
{
	static uint64_t last_number;
	struct domain *domain = pool_get(&domain_pool);
	struct domain **slot = &domains;

	if (!domain)
		return NULL;
	/* The array of keys stays with it, empty: each region has withdrawn its own. */
	*domain = (struct domain){
		.owner = owner,
		.access = access,
		.number = ++last_number,
		.next = owner->domains,
		.keys = domain->keys,
	};
	owner->domains = domain;
	while (*slot)
		slot = &(*slot)->all_next;
	*slot = domain;
	keys_begin(domain);
	learning_begin(domain);
	domain_count++;
	return domain;
}

/* Ends the regions of a protection domain; those in a client's hands only if `held_too`. */
static void end_regions(struct protection_domain *owner, bool held_too, struct region **ending)
{
	struct region *region;

	for (struct domain *domain = owner->domains; domain; domain = domain->next) {
		/* Ending one may drop the lock, so the list is read anew each time. */
		do {
			for (region = domain->regions; region; region = region->domain_next) {
				if (held_too || !region->client_mrs)
					break;
			}
			if (region)
				region_end(region, ending);
		} while (region);
	}
}

/* From now on nobody is served in it, and who holds what is known. */
static void begin_closing(struct protection_domain *owner)
{
	leases_stop();
	owner->closing = true;
	for (struct domain *domain = owner->domains; domain; domain = domain->next) {
		for (struct region *region = domain->regions; region; region = region->domain_next)
			leases_end(region);
	}
	leases_go();
}

static void forget(struct protection_domain *owner)
{
	struct protection_domain **slot = &protection_domains;
	struct domain *domain, **other;

	while (*slot != owner)
		slot = &(*slot)->next;
	*slot = owner->next;
	owner_count--;
	while ((domain = owner->domains)) {
		owner->domains = domain->next;
		for (other = &domains; *other != domain; other = &(*other)->all_next)
			;
		*other = domain->all_next;
		keys_end(domain);
		learning_end(domain);
		domain_count--;
		pool_put(&domain_pool, domain);
	}
	pool_put(&protection_domain_pool, owner);
}

/* Ends everything in it, and forgets it. The lock is dropped meanwhile. */
static void end(struct protection_domain *owner)
{
	struct region *ending = NULL;

	begin_closing(owner);
	end_regions(owner, true, &ending);
	pthread_mutex_unlock(&registration_lock);
	region_unpin_all(ending);
	pthread_mutex_lock(&registration_lock);
	region_await_owner(owner);
	forget(owner);
}

/* Whether the lock is taken around this fork; set and read by its handlers. */
static __thread bool is_guarded __attribute__((tls_model("initial-exec")));

/* A child of a program that has not used CUDA yet is a program of its own, which may use it: it must not find the lock held by
 * a thread that it does not have. Of one that has, the child is passive and never takes it. There nobody waits here, since a
 * signal handler may fork: who has the lock may wait for the very thread that it has interrupted (base/biased.h). And what
 * this thread holds itself it will give back in parent and child, as both return from the handler. */
static void before_fork(void)
{
	is_guarded = !process_is_active() && registration_lock.__data.__owner != kernel_thread();
	if (is_guarded)
		pthread_mutex_lock(&registration_lock);
}

static void after_fork(void)
{
	if (is_guarded)
		pthread_mutex_unlock(&registration_lock);
}

/* What is open is so in the parent: what the child registered there would outlive it. */
static void after_fork_in_child(void)
{
	if (!is_guarded)
		return;
	protection_domains = NULL;
	owner_count = 0;
	adapters_forget();
	pthread_mutex_unlock(&registration_lock);
}

static void guard_forks(void)
{
	static bool guarded;

	if (!__atomic_exchange_n(&guarded, true, __ATOMIC_RELAXED))
		system_at_fork(before_fork, after_fork, after_fork_in_child);
}

void registration_pd_opened(struct ibv_pd *pd)
{
	struct protection_domain *owner;
	struct adapter *adapter;
	bool go = false, unnoticed = false;

	statistics_count(protection_domains);
	/* Without a protection domain there is no region, and nobody to wait for one. */
	system_prepare();
	guard_forks();
	pthread_mutex_lock(&registration_lock);
	/* The kernel gives a client MR out again once its owner is gone, so whoever had it is; one that is closing is only
	 * about to be told so, on another thread. */
	owner = protection_domain_find(pd->context, pd->handle);
	if (owner && !owner->closing) {
		statistics_count(internal_errors);
		unnoticed = true;
		end(owner);
	}
	adapter = adapter_of(pd->context);
	owner = adapter ? pool_get(&protection_domain_pool) : NULL;
	if (owner) {
		*owner = (struct protection_domain){ .context = pd->context,
						     .handle = pd->handle,
						     .pd = pd,
						     .adapter = adapter,
						     .next = protection_domains };
		protection_domains = owner;
		owner_count++;
		go = adapter_chooses() && process_is_active() && background_queue_all();
	}
	pthread_mutex_unlock(&registration_lock);
	if (unnoticed)
		log_once(LOG_ERROR, "a protection domain was ended in a way that peerpin does not see: what "
				    "was registered "
				    "in it has been ended only now. Please report which libraries of the "
				    "program use verbs.");
	if (go)
		background_go();
}

void registration_pd_closing(struct ibv_pd *pd)
{
	struct protection_domain *owner;
	struct region *ending = NULL;

	pthread_mutex_lock(&registration_lock);
	owner = protection_domain_find(pd->context, pd->handle);
	if (owner) {
		begin_closing(owner);
		/* What clients hold stays: the kernel then refuses, as it does without us. */
		end_regions(owner, false, &ending);
		pthread_mutex_unlock(&registration_lock);
		region_unpin_all(ending);
		pthread_mutex_lock(&registration_lock);
		region_await_owner(owner);
		adapter_await(owner->adapter);
	}
	pthread_mutex_unlock(&registration_lock);
}

/* By its struct, which the provider has not given back yet: the kernel may have given the client MR to another one. */
void registration_pd_closed(const struct ibv_pd *pd, bool ended)
{
	struct protection_domain *owner;
	bool go = false;

	pthread_mutex_lock(&registration_lock);
	for (owner = protection_domains; owner && owner->pd != pd; owner = owner->next)
		;
	if (owner && ended) {
		end(owner);
	} else if (owner) {
		owner->closing = false;
		/* What nobody held has been deregistered, and what was allocated meanwhile was not registered here. */
		go = owner->domains && process_is_active() && background_queue_all();
	}
	pthread_mutex_unlock(&registration_lock);
	if (go)
		background_go();
}

void registration_context_closing(struct ibv_context *context)
{
	struct protection_domain *owner;

	pthread_mutex_lock(&registration_lock);
	do {
		for (owner = protection_domains; owner && owner->context != context; owner = owner->next)
			;
		if (owner)
			end(owner);
	} while (owner);
	adapter_forget(context);
	pthread_mutex_unlock(&registration_lock);
	/* Before that nothing has been pinned; and its lock no fork waits for. */
	if (process_is_active())
		pinning_device_closed(context);
}
