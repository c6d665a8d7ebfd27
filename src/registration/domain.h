/* SPDX-License-Identifier: BSD-3-Clause */
/* domain.h -- protection domains and their domains; with registration_mutex held unless noted */
#ifndef PEERPIN_REGISTRATION_DOMAIN_H
#define PEERPIN_REGISTRATION_DOMAIN_H

#include "base/atomics.h"
#include "registration/objects.h"

/* By context and handle; that of exactly this struct. NULL: none. */
struct protection_domain *protection_domain_find(struct ibv_context *context, uint32_t handle);
struct protection_domain *protection_domain_of(const struct ibv_pd *pd);

/* A new one, with the fields of `as`; NULL: out of memory. protection_domain_forget(): with its
 * domains, which have no regions, and without revoked client MRs. protection_domains_renew():
 * registration_renew() of all. */
struct protection_domain *protection_domain_create(const struct protection_domain *as);
void protection_domain_forget(struct protection_domain *owner);
void protection_domains_renew(void);

struct domain *domain_find(struct protection_domain *owner, int access);
struct domain *domain_create(struct protection_domain *owner, int access);

/* True if a domain exists. Without the lock. */
bool domain_may_exist(void);

/* True if the domain (domain_may_reach(): any, without the lock) registers such memory in the
 * background: not of a class of sizes that proved vain; and memory that only dma-bufs reach, after
 * a request for such memory was served there. */
bool domain_reaches(const struct domain *domain, const struct allocation *allocation);
bool domain_may_reach(const struct allocation *allocation);

/* A speculative region of an allocation of that size has ended without a request. */
void domain_count_vain(struct domain *domain, uint64_t size);

/* A client requests an allocation of that size for the first time in the domain. True: background
 * registration of its class begins again, and a rescan may register more. */
bool domain_count_requested(struct domain *domain, uint64_t size);

/* A request for such memory has been served in the domain. True: a rescan may register more. */
bool domain_served(struct domain *domain, const struct allocation *allocation);

/* The domain with the next greater number; NULL: none. `last`: the struct of the domain that had
 * `number`, possibly reused meanwhile; NULL and 0: for the first one. */
struct domain *domain_after(const struct domain *last, uint64_t number);

/* Domains that wait for a rescan of the live allocations; domain_take_behind(): NULL: none. */
void domain_set_behind(struct domain *domain);
struct domain *domain_take_behind(void);

/* The domain of exactly these access flags, if hits may be served there; NULL: none. Without the
 * lock. */
struct domain *domain_for_hit(const struct ibv_pd *pd, int access);

/* The second look: it is still that domain. Stores to the fields precede the first hold there. */
static inline bool domain_is_of(const struct domain *domain, const struct ibv_pd *pd, int access)
{
	return load_relaxed(&domain->context) == pd->context &&
	       load_relaxed(&domain->handle) == pd->handle &&
	       load_relaxed(&domain->access) == access;
}

/* Hits may be served in the domain from now on; and no longer, except those that have begun. */
void domain_enter_table(struct domain *domain);
void domain_leave_table(const struct domain *domain);

#endif
