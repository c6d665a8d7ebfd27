/* SPDX-License-Identifier: BSD-3-Clause */
/* internal.h -- functions of the registration layer's modules, for each other */
#ifndef PEERPIN_REGISTRATION_INTERNAL_H
#define PEERPIN_REGISTRATION_INTERNAL_H

#include "base/atomics.h"
#include "registration/objects.h"

/* ---- domain.c; with the lock held ---- */

extern struct protection_domain *protection_domains;

struct protection_domain *protection_domain_find(struct ibv_context *context, uint32_t handle);

/* A new one, with the fields of `as`; NULL: out of memory. protection_domain_forget(): with its
 * domains, which have no regions. protection_domains_renew(): registration_renew() of all. */
struct protection_domain *protection_domain_create(const struct protection_domain *as);
void protection_domain_forget(struct protection_domain *owner);
void protection_domains_renew(void);

struct domain *domain_find(struct protection_domain *owner, int access);
struct domain *domain_create(struct protection_domain *owner, int access);

/* True if a domain exists, or PEERPIN_DOMAIN_POLICY may create one. Without the lock. */
bool domain_may_exist(void);

/* True if the domain (domain_may_reach(): any, without the lock) registers such memory in the
 * background: memory that only dma-bufs reach, after a request for such memory was served there. */
bool domain_reaches(const struct domain *domain, const struct allocation *allocation);
bool domain_may_reach(const struct allocation *allocation);

/* A request for such memory has been served in the domain. True: a rescan may register more. */
bool domain_served(struct domain *domain, const struct allocation *allocation);

/* The domain with the next greater number; NULL: none. */
struct domain *domain_after(uint64_t number);

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

/* ---- domain_enable.c ---- */

/* True if regions can be shared under these access flags. No lock. */
bool domain_may_share(int access);

/* The domain that serves these access flags; NULL: none yet. With the lock held. */
struct domain *domain_serving(struct protection_domain *owner, int access);

/* The domain of these access flags, enabled from now on. Unless `exactly`, a domain with more flags
 * may serve (PEERPIN_ACCESS_MATCH). Sets *newly if it was not enabled before. NULL: unknown or
 * closing protection domain, or out of memory. With the lock held. */
struct domain *domain_enable(const struct ibv_pd *pd, int access, bool exactly, bool *newly);

/* Logs that a domain is enabled. Without the lock. */
void domain_log_enabled(int access);

/* PEERPIN_EAGER: the client requests host memory. Without the lock. See registration_expect(). */
void domain_expect_like(const struct registration_request *request);

/* ---- adapter.c ---- */

/* With the lock held. adapter_find(): NULL if unknown. adapter_of() creates a missing adapter;
 * NULL: out of memory. */
struct adapter *adapter_find(const struct ibv_context *context);
struct adapter *adapter_of(struct ibv_context *context);
void adapter_forget(struct adapter *adapter); /* no thread uses it: adapter_await() */

/* registration_renew() of the adapters. */
void adapters_renew(void);

/* Queries missing data of the adapter, and of its distance to that GPU if needed. With the lock
 * held, dropped meanwhile; returns true if dropped. */
bool adapter_describe(struct adapter *adapter, int device);

/* With the lock held: true if both are one adapter; regions of this process on it, in all
 * contexts. */
bool adapter_is_same(const struct adapter *one, const struct adapter *other);
uint64_t adapter_regions(const struct adapter *adapter);

/* Waits until no thread queries the adapter without the lock. */
void adapter_await(const struct adapter *adapter);

/* True if the settings select memory of that GPU for background registration in the domain, as
 * far as described. */
bool adapter_selects(const struct domain *domain, int device);

/* True if PEERPIN_DOMAIN_POLICY enables domains before a client's first request. */
bool adapter_has_selection(void);

/* True if background registration needs adapter_describe() first. */
bool adapter_needs_description(void);

/* ---- cost.c; with the lock held ---- */

/* A registration of so many bytes took so long. */
void cost_add(struct adapter *adapter, uint64_t bytes, uint64_t nanoseconds);

/* Nanoseconds of a quick registration of so many bytes; at most 1 ms, also if none is known. */
uint64_t cost_usual(const struct adapter *adapter, uint64_t bytes);

/* A registration of that GPU's memory for a client's request by address took so long. */
void cost_add_request(struct adapter *adapter, int device, uint64_t bytes, uint64_t nanoseconds);

/* True if registrations of `more` bytes for requests by address lately took as long as the quickest
 * one of `bytes`. One in 8 calls that find so returns false. */
bool cost_is_equal(struct adapter *adapter, int device, uint64_t bytes, uint64_t more);

/* Forgets those times of `bytes`. */
void cost_forget(struct adapter *adapter, uint64_t bytes);

/* ---- learning.c: which kinds of allocation clients request; with the lock held ---- */

/* True if such memory should be registered in the background; *kind is then for the region. */
bool learning_is_eligible(struct domain *domain, const struct allocation *allocation,
			  struct kind *kind);

/* Kinds that every domain refused recently, with no change since that could reverse it: the
 * allocation need not be queued. learning_is_refused() needs no lock: a rescan follows each such
 * change. */
bool learning_is_refused(const struct allocation *allocation);
void learning_set_refused(const struct allocation *allocation);

/* learning_started(): a background registration begins. learning_unused(): a region ended before a
 * client requested it. */
void learning_started(struct domain *domain, const struct kind *kind);
void learning_unused(struct domain *domain, const struct kind *kind);

/* A client requested such an allocation for the first time; `kind` is its region's. True:
 * allocations refused earlier may be registered now. */
bool learning_requested(struct domain *domain, const struct allocation *allocation,
			const struct kind *kind);

/* A domain needs every allocation registered from now on. */
void learning_reconsider(void);

void learning_begin(struct domain *domain);

/* ---- keys.c; with the lock held ---- */

/* The allocation's keys in the domain; NULL: none. keys_claim() creates missing ones; NULL: out of
 * memory, or a later allocation has the slot. */
struct keys *keys_of(const struct domain *domain, uint32_t slot, uint64_t allocation);
struct keys *keys_claim(struct domain *domain, uint32_t slot, uint64_t allocation);

/* A region of the reference has failed. True: the first failure of its allocation in the domain.
 * keys_may_try(): false: the request should be forwarded, because of such failures. */
bool keys_count_failure(const struct domain *domain, const struct region_reference *reference);
bool keys_may_try(const struct domain *domain, const struct allocation *allocation);

/* Publish a registered region's keys for look-ups of its allocations in its domain. Keys that
 * cannot be stored are not found. */
void keys_publish(const struct region *region, struct region_reference *reference);
void keys_publish_all(const struct region *region);

/* The hold for [address, address + length) of the found allocation in the domain, and its keys; 0:
 * none, or not for hits. Wait-free. Keys and range are valid once the hold is taken and the
 * allocation was looked at again. */
struct found;
uint64_t keys_find_hold(const struct domain *domain, const struct found *found, uint64_t address,
			uint64_t length, struct registration_keys *keys);

/* A domain begins, or has ended. Before keys_end() every region of the domain has withdrawn its
 * keys. */
void keys_begin(struct domain *domain);
void keys_end(struct domain *domain);

/* Withdraws the keys; call before deregistering the region. */
void keys_withdraw(const struct region *region, const struct region_reference *reference);

/* In a domain with look-ups the next request registers the whole: hits in parts end. */
void keys_withdraw_parts(const struct region *region);

/* ---- region.c; with the lock held unless noted ---- */

/* A reference of the allocation at `slot` in the domain, and each further one; NULL: none. */
struct region_reference *region_find_reference(const struct domain *domain, uint32_t slot,
					       uint64_t allocation);
struct region_reference *region_next_reference(const struct region_reference *reference);

/* Creates the allocation's reference to the region of a range in the domain. A region created for
 * it is in state REGION_IDLE. NULL: out of memory. */
struct region_range {
	uint64_t base, length;	/* whole granules */
	uint64_t first, extent; /* the reference's bytes: those of the allocation; of a span none */
	bool whole;
	bool spans; /* over several mappings */
};
struct region_reference *region_refer(const struct allocation *allocation, struct domain *domain,
				      const struct region_range *range);
bool region_is_of(const struct region *region, const struct region_range *range);

/* region_is_queued(): true while the allocation is queued, or a thread works on it.
 * region_unqueue() ends that. True: threads may wait for it. */
bool region_is_queued(const struct allocation *allocation);
bool region_unqueue(const struct allocation *allocation);

/* Marks the allocation as queued. Without the lock. False: out of memory. */
bool region_set_queued(const struct allocation *allocation);

void region_release_user(struct region *region);

/* True if a region of the allocation is not idle. */
bool region_is_in_use_for(const struct allocation *allocation);

/* Takes the region and its references out of every index, and revokes its client MRs. */
void region_leave_indexes(struct region *region);

/* The first reference in an allocation's slot, of any allocation; NULL: none. */
struct region_reference *region_first_in_slot(uint32_t slot);

/* Takes the reference out of every index, and revokes its client MRs. */
void region_remove_reference(struct region_reference *reference);

/* ---- region_use.c; with the lock held ---- */

/* True if a client MR holds the region; region_has_client_mrs(): one that is no import. */
bool region_is_held(const struct region *region);
bool region_has_client_mrs(const struct region *region);

/* True if a client MR has the region's keys, or will have, and they must be unique. */
bool region_is_taken(const struct region *region);

/* True if neither a client MR nor keys of a look-up are in use; and, with region_may_end(), no
 * thread: an end keeps the lock. */
bool region_is_idle(const struct region *region);
bool region_may_end(const struct region *region);

/* True if imports alone hold the region, at most: hits take none from now on. The caller ends it.
 */
bool region_claim(struct region *region);

/* True if several allocations refer to the region. */
bool region_is_shared(const struct region *region);

/* The last use of the region by a client, in evictions (holds.h). */
uint32_t region_used_at(const struct region *region);

/* Takes a hold for a client MR whose allocation is unknown. 0: out of memory. */
uint64_t region_take_import(struct region *region);

/* ---- requests.c ---- */

/* True if the request may be served from such memory, as far as the memory decides. No lock. */
bool requests_may_serve(const struct registration_request *request,
			const struct allocation *allocation);

/* ---- region_life.c; with the lock held unless noted ---- */

/* Registers a region in state REGION_REGISTERING for a client that waits; drops the lock meanwhile.
 * The caller is counted in region->users, because the region may end before this returns. If there
 * is no space, evicts other regions and retries; if `optional`, neither that nor a warning, because
 * the caller has a smaller range. Returns the duration in ns.
 * region_register_prepared(): the worker's, from REGION_IDLE, without evictions. Exports a dma-buf
 * first: a client that requests the region meanwhile registers it. Returns 0 then, and if it has
 * ended. */
uint64_t region_register(struct region *region, const struct registration_request *client,
			 bool optional);
uint64_t region_register_prepared(struct region *region);

/* True if the last export of region_register_prepared() since the last call waited for others that
 * use the driver. Without the lock. */
bool region_was_held_up(void);

/* region_set_used(): no longer speculative, because a client requests the region, or may use it
 * unobserved. region_set_background_time(): the duration of its background registration. */
void region_set_used(struct region *region);
void region_set_background_time(struct region *region, uint64_t nanoseconds);

/* Waits for a registration; drops the lock meanwhile. */
void region_await_settled(struct region *region);

/* ---- region_end.c; with the lock held unless noted ---- */

/* Takes the region out of every index, waits while in flight, and revokes its client MRs. The end
 * of the session deregisters it. Drops the lock only to wait. */
void region_end(struct region *region);

/* Waits for a wake-up, for the region since `since` (system_clock()); drops the lock meanwhile. */
void region_wait(const struct region *region, uint64_t since);

/* Ends the references of an allocation, and the regions left without any. False: the allocation had
 * none. *since, if 0, becomes the time when the first registered or registering region began to
 * end. */
bool region_end_references(const struct allocation *allocation, uint64_t *since);

/* Deregisters the regions on the list. Without the lock. */
void region_unpin_all(struct region *ending);

/* Two ends may meet: memory is freed while its protection domain is closed. Only one thread finds
 * the region; the other must not continue before it is deregistered. These functions wait for
 * regions that other threads ended; a caller deregisters its own first. *since, if 0, becomes the
 * time when a wait began. */
void region_await_range(uint64_t base, uint64_t size, uint64_t *since);
void region_await_owner(const struct protection_domain *owner);

/* ---- region_report.c; without the lock unless noted ---- */

/* Counts a failed registration by its errno, grouped by fix. With or without the lock. */
void region_count_failure(int error);

/* region_is_reported(): true if the log or trace needs start times. The others report an end: 0 or
 * -errno. */
bool region_is_reported(void);
void region_report_registered(const struct pin_request *request, int error,
			      const struct errors_text *failure, uint64_t start);
void region_report_ended(const struct region *region, int error, uint64_t start);

/* A refusal set the GPU's pin limit to `learnt` bytes; 0: unchanged. */
void region_report_pin_limit(int device, uint64_t learnt);

/* Logs a failed registration. `room` holds the known limits; the function completes it. */
struct errors_room;
void region_log_failure(const struct region *region, int error, struct errors_text failure,
			struct errors_room *room);

#endif
