/* SPDX-License-Identifier: BSD-3-Clause */
/* domain.c -- protection domains and their domains */
#include "registration/domain.h"

#include "base/atomics.h"
#include "base/pool.h"
#include "registration/adapter.h"
#include "registration/lock.h"
#include "registration/policy.h"
#include "report/statistics.h"

#define OWNERS 1024u

static struct protection_domain *owners[OWNERS]; /* by context and handle */
static TAILQ_HEAD(, domain) domains = TAILQ_HEAD_INITIALIZER(domains);
static TAILQ_HEAD(, domain) behind = TAILQ_HEAD_INITIALIZER(behind);

static struct pool protection_domain_pool = POOL_INITIALIZER(struct protection_domain);
static struct pool domain_pool = POOL_INITIALIZER(struct domain);

static uint64_t domain_hash(const struct ibv_context *context, uint32_t handle, int access)
{
	return (((uintptr_t)context >> 4 ^ (uint64_t)handle << 32 ^
		 (uint64_t)(unsigned int)access << 20) *
		0x9e3779b97f4a7c15u) >>
	       40;
}

static struct protection_domain **domain_owners_of(const struct ibv_context *context,
						   uint32_t handle)
{
	return &owners[domain_hash(context, handle, 0) % OWNERS];
}

struct protection_domain *protection_domain_find(struct ibv_context *context, uint32_t handle)
{
	struct protection_domain *owner = *domain_owners_of(context, handle);

	registration_assert_held();
	while (owner && (owner->context != context || owner->handle != handle))
		owner = owner->next;
	return owner;
}

struct protection_domain *protection_domain_of(const struct ibv_pd *pd)
{
	struct protection_domain *owner = *domain_owners_of(pd->context, pd->handle);

	registration_assert_held();
	while (owner && owner->pd != pd)
		owner = owner->next;
	return owner;
}

struct domain *domain_find(struct protection_domain *owner, int access)
{
	struct domain *domain = owner->domains;

	registration_assert_held();
	while (domain && domain->access != access)
		domain = domain->next;
	return domain;
}

/* For readers without the lock. */
static _Atomic unsigned int domain_count, dma_buf_only_count;
static _Atomic unsigned int ended_classes[SIZE_CLASSES]; /* domains in which the class has ended */

bool domain_may_exist(void)
{
	return load_relaxed(&domain_count);
}

static unsigned int domain_class_of(uint64_t size)
{
	return 63u - (unsigned int)__builtin_clzll(size | 1);
}

void domain_count_vain(struct domain *domain, uint64_t size)
{
	unsigned int class = domain_class_of(size);

	registration_assert_held();
	if (domain->vain[class] < POLICY_VAIN && ++domain->vain[class] == POLICY_VAIN)
		ended_classes[class]++;
}

bool domain_count_requested(struct domain *domain, uint64_t size)
{
	unsigned int class = domain_class_of(size);
	bool ended = domain->vain[class] == POLICY_VAIN;

	registration_assert_held();
	domain->vain[class] = 0;
	ended_classes[class] -= ended;
	return ended;
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
	return domain_takes(allocation, domain->dma_buf_only) &&
	       domain->vain[domain_class_of(allocation->size)] < POLICY_VAIN;
}

bool domain_may_reach(const struct allocation *allocation)
{
	return domain_may_exist() && domain_takes(allocation, load_relaxed(&dma_buf_only_count)) &&
	       load_relaxed(&ended_classes[domain_class_of(allocation->size)]) <
		       load_relaxed(&domain_count);
}

bool domain_served(struct domain *domain, const struct allocation *allocation)
{
	if (domain->dma_buf_only || memory_is_registrable(allocation))
		return false;
	domain->dma_buf_only = true;
	dma_buf_only_count++;
	return true;
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
	return &table[(domain_hash(context, handle, access) + probe) % TABLE];
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
	for (unsigned int i = 0; i < PROBE; i++) {
		entry = domain_table_at(owner->context, owner->handle, domain->access, i);
		if (load_relaxed(entry) == domain)
			return;
		if (!free || (load_relaxed(free) && !load_relaxed(entry)))
			free = entry;
	}
	store_release(free, domain);
}

void domain_leave_table(const struct domain *domain)
{
	const struct protection_domain *owner = domain->owner;
	_Atomic(struct domain *) *entry;

	for (unsigned int i = 0; i < PROBE; i++) {
		entry = domain_table_at(owner->context, owner->handle, domain->access, i);
		if (load_relaxed(entry) == domain)
			store_release(entry, NULL);
	}
}

struct domain *domain_after(const struct domain *last, uint64_t number)
{
	struct domain *domain = TAILQ_FIRST(&domains);

	registration_assert_held();
	if (last && last->number == number)
		return TAILQ_NEXT(last, in_all);
	while (domain && domain->number <= number)
		domain = TAILQ_NEXT(domain, in_all);
	return domain;
}

void domain_set_behind(struct domain *domain)
{
	registration_assert_held();
	if (domain->behind)
		return;
	domain->behind = true;
	TAILQ_INSERT_TAIL(&behind, domain, in_behind);
}

struct domain *domain_take_behind(void)
{
	struct domain *domain = TAILQ_FIRST(&behind);

	registration_assert_held();
	if (domain) {
		domain->behind = false;
		TAILQ_REMOVE(&behind, domain, in_behind);
	}
	return domain;
}

struct domain *domain_create(struct protection_domain *owner, int access)
{
	static uint64_t last_number;
	struct domain *domain = pool_get(&domain_pool);

	registration_assert_held();
	if (!domain)
		return NULL;
	/* The array of entries stays with the struct, cleared: a hit that began in an earlier
	 * domain may still read it. */
	if (!domain->entries.size)
		domain->entries = (struct arena)ARENA_INITIALIZER(struct entry, ALLOCATIONS_MAX);
	domain->owner = owner;
	store_release(&domain->context, owner->context);
	store_release(&domain->handle, owner->handle);
	store_release(&domain->access, access);
	domain->enabled = domain->exports = domain->dma_buf_only = false;
	domain->behind = false;
	domain->span_failures = 0;
	domain->number = ++last_number;
	TAILQ_INIT(&domain->regions);
	LIST_INIT(&domain->spans);
	domain->next = owner->domains;
	owner->domains = domain;
	TAILQ_INSERT_TAIL(&domains, domain, in_all);
	for (unsigned int i = 0; i < SIZE_CLASSES; i++)
		domain->vain[i] = 0;
	domain_count++;
	return domain;
}

struct protection_domain *protection_domain_create(const struct protection_domain *as)
{
	struct protection_domain *owner = pool_get(&protection_domain_pool);
	struct protection_domain **first = domain_owners_of(as->context, as->handle);

	registration_assert_held();
	if (!owner)
		return NULL;
	*owner = *as;
	TAILQ_INIT(&owner->revoked);
	owner->next = *first;
	*first = owner;
	LIST_INSERT_HEAD(&owner->adapter->owners, owner, in_adapter);
	return owner;
}

void protection_domains_renew(void)
{
	for (unsigned int i = 0; i < OWNERS; i++)
		owners[i] = NULL;
	TAILQ_INIT(&domains);
	TAILQ_INIT(&behind);
	protection_domain_pool = (struct pool)POOL_INITIALIZER(struct protection_domain);
	store_relaxed(&domain_count, 0);
	for (unsigned int i = 0; i < SIZE_CLASSES; i++)
		store_relaxed(&ended_classes[i], 0);
}

void protection_domain_forget(struct protection_domain *owner)
{
	struct protection_domain **link = domain_owners_of(owner->context, owner->handle);
	struct domain *domain;

	while (*link != owner)
		link = &(*link)->next;
	*link = owner->next;
	LIST_REMOVE(owner, in_adapter);
	while ((domain = owner->domains)) {
		registration_check(TAILQ_EMPTY(&domain->regions));
		owner->domains = domain->next;
		domain->number = 0;
		TAILQ_REMOVE(&domains, domain, in_all);
		if (domain->behind)
			TAILQ_REMOVE(&behind, domain, in_behind);
		arena_clear(&domain->entries);
		domain_count--;
		dma_buf_only_count -= domain->dma_buf_only;
		for (unsigned int i = 0; i < SIZE_CLASSES; i++)
			ended_classes[i] -= domain->vain[i] == POLICY_VAIN;
		pool_put(&domain_pool, domain);
	}
	pool_put(&protection_domain_pool, owner);
}
