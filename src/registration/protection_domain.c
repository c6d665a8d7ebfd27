/* SPDX-License-Identifier: BSD-3-Clause */
/* protection_domain.c -- begin and end of protection domains and devices */
#include "registration/registration.h"

#include "base/log.h"
#include "base/process.h"
#include "base/system.h"
#include "registration/adapter.h"
#include "registration/background.h"
#include "registration/domain.h"
#include "registration/lock.h"
#include "registration/pinning.h"
#include "registration/region.h"
#include "report/statistics.h"

/* Ends the regions of a protection domain; those with client MRs, imports aside, only if
 * `held_too`. */
static void protection_domain_end_regions(struct protection_domain *owner, bool held_too,
					  struct region **ending)
{
	struct region *region;

	registration_assert_held();
	region_end_flights_of(owner);
	for (struct domain *domain = owner->domains; domain; domain = domain->next) {
		do {
			TAILQ_FOREACH(region, &domain->regions, in_list) {
				if (held_too || region_claim(region))
					break;
			}
			if (region)
				region_end(region, ending);
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

/* Ends and forgets a protection domain with everything in it. Drops the lock meanwhile. */
static void protection_domain_end(struct protection_domain *owner)
{
	struct region *ending = NULL;

	protection_domain_begin_closing(owner);
	protection_domain_end_regions(owner, true, &ending);
	region_await_owner(owner, &ending);
	region_forget_revoked(owner);
	protection_domain_forget(owner);
}

/* The open devices are the parent's: a registration that the child made there would outlive the
 * child. Structs of the pools stay behind. */
void registration_renew(void)
{
	registration_lock_renew();
	protection_domains_renew();
	adapters_renew();
}

void registration_pd_opened(struct ibv_pd *pd, bool by_key)
{
	struct protection_domain *owner, as;
	struct adapter *adapter;
	bool stale = false;

	statistics_count(protection_domains);
	registration_lock();
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
	as = (struct protection_domain){ .context = pd->context,
					 .handle = pd->handle,
					 .pd = pd,
					 .adapter = adapter,
					 .own_keys = by_key };
	if (adapter)
		protection_domain_create(&as);
	registration_unlock();
	if (stale)
		log_once(LOG_ERROR, "peerpin did not intercept the end of a protection domain and "
				    "ended its regions only now. Please report which libraries of "
				    "the program use verbs.");
}

void registration_pd_called_by(const struct ibv_pd *pd, uint32_t caller)
{
	struct protection_domain *owner;

	registration_lock();
	owner = protection_domain_of(pd);
	if (owner)
		owner->caller = caller;
	registration_unlock();
}

static void protection_domain_count_leaked(const struct protection_domain *owner)
{
	const struct region *region;

	for (const struct domain *domain = owner->domains; domain; domain = domain->next) {
		TAILQ_FOREACH(region, &domain->regions, in_list)
			region_count_leaked(region);
	}
	TAILQ_FOREACH(region, &owner->revoked, in_list)
		region_count_leaked(region);
}

void registration_count_leaked(void)
{
	const struct protection_domain *owner;

	if (lock_is_held(&registration_mutex))
		return;
	registration_lock();
	for (const struct adapter *adapter = adapters; adapter; adapter = adapter->next) {
		LIST_FOREACH(owner, &adapter->owners, in_adapter)
			protection_domain_count_leaked(owner);
	}
	registration_unlock();
}

/* The client has a client MR there that it has not deregistered. */
static bool protection_domain_is_busy(struct protection_domain *owner)
{
	const struct region *region = NULL;

	for (struct domain *domain = owner->domains; domain && !region; domain = domain->next) {
		TAILQ_FOREACH(region, &domain->regions, in_list) {
			if (region_has_client_mrs(region))
				break;
		}
	}
	return region || region_any_revoked(owner);
}

bool registration_pd_closing(struct ibv_pd *pd)
{
	struct protection_domain *owner;
	struct region *ending = NULL;
	bool busy;

	registration_lock();
	owner = protection_domain_find(pd->context, pd->handle);
	busy = owner && protection_domain_is_busy(owner);
	if (owner && !busy) {
		protection_domain_begin_closing(owner);
		/* The region of a hit that had begun stays: the kernel then refuses. */
		protection_domain_end_regions(owner, false, &ending);
		region_await_owner(owner, &ending);
		adapter_await(owner->adapter);
	}
	registration_unlock();
	return !busy;
}

/* Compare the struct, which the provider has not freed yet: the kernel may have reused the
 * handle. */
void registration_pd_closed(const struct ibv_pd *pd, bool ended)
{
	struct protection_domain *owner;
	bool go = false;

	registration_lock();
	owner = protection_domain_of(pd);
	if (owner && ended) {
		protection_domain_end(owner);
	} else if (owner) {
		owner->closing = false;
		/* Regions without client MRs were deregistered, and allocations made meanwhile were
		 * not registered here. */
		for (struct domain *domain = owner->domains; domain; domain = domain->next)
			go |= background_queue_domain(domain);
	}
	registration_unlock();
	if (go)
		worker_wake();
}

struct ibv_context *registration_device_in(const void *start, size_t bytes)
{
	struct ibv_context *device = NULL;

	registration_lock();
	for (struct adapter *adapter = adapters; adapter; adapter = adapter->next) {
		if ((uintptr_t)adapter->context - (uintptr_t)start < bytes)
			device = adapter->context;
	}
	registration_unlock();
	return device;
}

void registration_context_closing(struct ibv_context *context)
{
	struct protection_domain *owner;
	struct adapter *adapter;

	registration_lock();
	adapter = adapter_find(context);
	if (adapter) {
		while ((owner = LIST_FIRST(&adapter->owners)))
			protection_domain_end(owner);
		adapter_await(adapter);
		adapter_forget(adapter);
	}
	registration_unlock();
	/* Without CUDA no region was pinned, and registration_renew() does not free the lock of
	 * pinning.c. */
	if (process_is_active())
		pinning_device_closed(context);
}
