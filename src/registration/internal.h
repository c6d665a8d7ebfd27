/* SPDX-License-Identifier: BSD-3-Clause */
/* internal.h -- objects of the registration layer and the one lock that guards them
 *
 *   adapter               an open device
 *     |
 *   protection_domain     one of the kernel's, identified by (context, handle): a parent domain has
 *     |                   another struct with an equal handle
 *     domain              one set of access flags; enabled by the first request, or at the start
 *       |
 *       region            one granule-aligned range; exists while it has a reference
 *         |- reference      an allocation's share in the region
 *         '- client MR    the registration that a client got
 *
 * Sharing is correct by one rule: an allocation uses only the region of its own range, rounded out
 * to granules (with PEERPIN_GRANULARITY=2M, to the driver's block around it). So every granule of a
 * region, or its one block, holds a part of each of its allocations. While one of them is live the
 * driver cannot have replaced a page. Allocations that round to the same range share one region.
 *
 * registration_lock guards every field below unless its comment says otherwise. Lock order:
 * registration_lock, then the memory table's lock. With registration_lock held, no code calls
 * malloc or free (see base/pool.h), the driver or verbs. A region being registered has state
 * REGION_REGISTERING and stays in its indexes until it settles; region_settled is signalled then.
 */
#ifndef PEERPIN_REGISTRATION_INTERNAL_H
#define PEERPIN_REGISTRATION_INTERNAL_H

#include <pthread.h>

#include "base/arena.h"
#include "registration/registration.h"

#define DEVICES_MAX 64 /* GPUs with their own pin limit; higher ordinals share the last entry */

/* The driver pins GPU memory in granules (GPUDirect RDMA guide 3.2) and carves it from blocks
 * (measured). A granule divides the block, so rounding stays inside the block. */
#define GRANULE ((uint64_t)64 << 10)
#define BLOCK	((uint64_t)2 << 20)

/* An integrated GPU's memory is host memory, pinned in host pages (GPUDirect RDMA guide, Tegra). */
#define PAGE ((uint64_t)4096)

enum region_state {
	REGION_IDLE,	    /* created, not registered */
	REGION_REGISTERING, /* a thread registers it, without the lock */
	REGION_READY,
	REGION_FAILED,
};

/* Key of an allocation in the learning (learning.c), and the evidence for its background
 * registration. */
struct kind {
	uint32_t tag; /* of exact size and device */
	uint16_t exact;
	uint8_t size_class;
	uint8_t evidence; /* enum evidence */
};

enum evidence { EVIDENCE_NONE, EVIDENCE_EXACT, EVIDENCE_CLASS };

struct region {
	struct region *next_free;
	struct domain *domain;		 /* valid until deregistered */
	struct protection_domain *owner; /* the domain's protection domain */
	uint64_t base, length;
	CUcontext context; /* of the region's first allocation, as are `device`, `size` */
	int device;
	uint64_t size;
	uint64_t ahead_ns; /* duration of its background registration; 0: synchronous */
	enum region_state state;
	bool dma_buf_only;
	bool ended;	    /* out of every index; freed with the last user */
	bool used;	    /* a client has requested it */
	bool idle;	    /* in its GPU's list of idle regions */
	bool counted;	    /* part of the pinned bytes */
	bool evicted;	    /* ended by an eviction */
	bool freed;	    /* ended by a free */
	uint8_t failures;   /* failed registrations, temporary errors excluded */
	struct kind kind;   /* of the allocation registered in the background */
	unsigned int users; /* threads that use it without the lock, or wait */
	unsigned int client_mrs;
	struct ibv_mr *mr; /* the region's registration, while READY */
	struct registration_keys keys;
	struct region_reference *references;
	struct client_mr *held;			      /* its client MRs */
	struct region *domain_previous, *domain_next; /* in its domain; ended: retiring */
	struct region *range_next;		      /* equal hash of the base */
	struct region *ending_next;		      /* in a list to deregister */
	struct region *idle_previous, *idle_next;     /* least recently used first */
};

struct region_reference {
	struct region_reference *next_free;
	uint64_t allocation; /* its id */
	uint32_t slot;	     /* the allocation's slot */
	bool used;	     /* a client has requested the allocation in this domain */
	struct region *region;
	struct region_reference *bucket_next; /* in the slot's chain */
	struct region_reference *region_previous, *region_next;
};

struct domain {
	struct domain *next_free;
	struct protection_domain *owner;
	_Atomic int access; /* look-ups read it without the lock */
	bool asked;	    /* enabled: a client has requested memory in it */
	bool looked_up;	    /* look-ups give out keys, with unknown lifetime: its regions stay */
	uint64_t number;    /* in order of activation; never reused */
	struct region *regions;
	struct domain *next;	 /* in its protection domain */
	struct domain *all_next; /* all domains, by number */
	struct learned *learned;
	_Atomic unsigned int note; /* index in each record's notes; MEMORY_NOTES: none */
	struct arena keys;	   /* of struct keys, by slot; survives reuse of the struct */
};

/* Keys for look-ups in a domain without a note. Valid if `allocation` is the id of the live
 * allocation at this slot. A reader loads the id, then the keys, then checks that the allocation
 * still has its record. */
struct keys {
	_Atomic uint64_t allocation; /* 0: none */
	_Atomic uint64_t keys;	     /* lkey in the upper half, rkey in the lower */
};

struct protection_domain {
	struct protection_domain *next_free;
	struct ibv_context *context; /* set once */
	uint32_t handle;	     /* set once */
	struct ibv_pd *pd;	     /* set once */
	struct adapter *adapter;
	bool own_keys; /* at most 1 client MR per key (PEERPIN_UNIQUE_KEYS); set by the first
			  request */
	bool closing;
	struct domain *domains;
	struct protection_domain *next;
};

/* An open device, until closed. Data from topology.h is queried without the lock and stored with
 * it. */
struct adapter {
	struct adapter *next_free;
	struct ibv_context *context;
	uint64_t regions;	   /* peerpin's own in this context, registered or registering */
	uint64_t region_limit;	   /* of the adapter, shared by all its users; 0: unknown */
	int counted_as;		   /* index in the statistics; set once, with `described` */
	bool described;		   /* region_limit and selected are set */
	bool selected;		   /* by PEERPIN_DEVICES */
	unsigned int users;	   /* threads that query it without the lock; a close waits */
	uint64_t near, near_known; /* one bit per GPU */
	struct adapter *next;
};

extern pthread_mutex_t registration_lock;
extern pthread_cond_t region_settled;

/* ---- domain.c; with the lock held ---- */

extern struct protection_domain *protection_domains;
extern struct domain *domains; /* all, by number */

struct protection_domain *protection_domain_find(struct ibv_context *context, uint32_t handle);
struct domain *domain_find(struct protection_domain *owner, int access);
struct domain *domain_make(struct protection_domain *owner, int access);

/* True if a domain exists, or PEERPIN_DOMAIN_POLICY may create one. Without the lock. */
bool domain_somebody_may_want(void);

/* The first of `domains` with a greater number; NULL: none. */
struct domain *domain_after(uint64_t number);

/* ---- activation.c ---- */

/* True if regions can be shared under these access flags. No lock. */
bool domain_may_share(int access);

/* The domain that serves these access flags; NULL: none yet. With the lock held. */
struct domain *domain_serving(struct protection_domain *owner, int access);

/* The domain of these access flags, enabled from now on. Unless `exactly`, a domain with more flags
 * may serve (PEERPIN_ACCESS_MATCH). Sets *activated if it was not enabled before. NULL: unknown or
 * closing protection domain, or out of memory. With the lock held. */
struct domain *domain_activate(const struct ibv_pd *pd, int access, bool exactly, bool *activated);

/* Logs that a domain is enabled. Without the lock. */
void domain_tell_active(int access);

/* ---- adapter.c ---- */

/* With the lock held. adapter_find(): NULL if unknown. adapter_of() creates a missing adapter;
 * NULL: out of memory. */
struct adapter *adapter_find(const struct ibv_context *context);
struct adapter *adapter_of(struct ibv_context *context);
void adapter_forget(struct ibv_context *context);

/* Forgets all adapters in a forked child, which has none of the threads that may query one. */
void adapters_forget(void);

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
bool adapter_wants(const struct domain *domain, int device);

/* True if PEERPIN_DOMAIN_POLICY enables domains before a client's first request. */
bool adapter_chooses(void);

/* True if background registration needs adapter_describe() first. */
bool adapter_needs_description(void);

/* ---- learning.c: which kinds of allocation clients request; with the lock held ---- */

/* True if such memory should be registered in the background; *kind is then for the region. */
bool learning_wants(struct domain *domain, const struct allocation *allocation, struct kind *kind);

void learning_expect(uint64_t size);

/* Kinds that every domain refused recently, with no change since that could reverse it: the
 * allocation need not be queued. learning_passes_over() needs no lock: a rescan follows each such
 * change. */
bool learning_passes_over(const struct allocation *allocation);
void learning_refused(const struct allocation *allocation);

/* learning_made(): a background registration begins. learning_wasted(): a region ended before a
 * client requested it. */
void learning_made(struct domain *domain, const struct kind *kind);
void learning_wasted(struct domain *domain, const struct kind *kind);

/* A client requested such an allocation for the first time; `kind` is its region's. True:
 * allocations refused earlier may be registered now. */
bool learning_asked(struct domain *domain, const struct allocation *allocation,
		    const struct kind *kind);

/* A domain needs every allocation registered from now on. */
void learning_reconsider(void);

void learning_begin(struct domain *domain);
void learning_end(struct domain *domain);

/* ---- pin_limit.c; with the lock held unless noted ---- */

/* Determines the GPU's pin limit, once; drops the lock meanwhile. */
void pin_limit_describe(int device);

/* True if the region fits within the pin limit and the adapter's region limit. */
bool pin_limit_has_room(const struct region *region);

/* For a client's request: evicts idle regions to *ending, least recently used first, until the
 * region fits or is worth a try. False: it cannot fit within PEERPIN_PIN_LIMIT; nothing was
 * evicted. */
bool pin_limit_make_room(const struct region *region, struct region **ending);

/* The adapter (NULL: one without a region) refused memory of this GPU (-1: no GPU, or unknown) for
 * want of room. Evicts at least `bytes`, likely causes first. False: no region was idle. */
bool pin_limit_evict(const struct adapter *adapter, int device, uint64_t bytes,
		     struct region **ending);

/* Correct the pin limit after a refusal and after a success. pin_limit_refused() returns the new
 * pin limit; 0: unchanged. */
uint64_t pin_limit_refused(const struct region *region);
void pin_limit_granted(const struct region *region);

/* Count the region's bytes as pinned, before it is registered; and no longer. */
void pin_limit_add(struct region *region);
void pin_limit_remove(struct region *region);

/* pin_limit_set_idle(): puts a region without client MRs at the end of its GPU's idle list.
 * pin_limit_set_busy(): takes the region from that list, for a new client MR or the region's
 * end. */
void pin_limit_set_idle(struct region *region);
void pin_limit_set_busy(struct region *region);

/* ---- keys.c; with the lock held ---- */

/* Publish a registered region's keys for look-ups of its allocations in its domain. Keys that
 * cannot be stored are not found. */
void keys_publish(const struct region *region, const struct region_reference *reference);
void keys_publish_all(const struct region *region);

/* A domain begins, or has ended. Before keys_end() every region of the domain has withdrawn its
 * keys. */
void keys_begin(struct domain *domain);
void keys_end(struct domain *domain);

/* Withdraws the keys; call before deregistering the region. */
void keys_withdraw(const struct region *region, const struct region_reference *reference);

/* ---- region.c; with the lock held unless noted ---- */

/* The range to register for an allocation. No lock. */
void region_range(const struct allocation *allocation, uint64_t *base, uint64_t *length);

/* The reference of the allocation at `slot` in the domain; NULL: none. */
struct region_reference *region_find_reference(const struct domain *domain, uint32_t slot,
					       uint64_t allocation);

/* The allocation's reference in the domain, created if missing. A region created for it is in state
 * REGION_IDLE. NULL: out of memory. */
struct region_reference *region_for(const struct allocation *allocation, struct domain *domain);

/* region_is_queued(): true while the allocation is queued, or a thread works on it.
 * region_unqueue() ends that and signals region_settled; it needs no lock. */
bool region_is_queued(const struct allocation *allocation);
void region_unqueue(const struct allocation *allocation);

void region_expect(uint32_t slot);

/* Marks the allocation as queued. Without the lock. False: out of memory. */
bool region_set_queued(const struct allocation *allocation);

void region_release_user(struct region *region);

/* Takes the region and its references out of every index. */
void region_leave_indexes(struct region *region);

/* Ends the references of an allocation, and with region_end() the regions left without any. False:
 * the allocation had none. *since, if 0, becomes the time when the first registered or registering
 * region began to end. */
bool region_end_references(const struct allocation *allocation, struct region **ending,
			   uint64_t *since);

/* ---- region_life.c; with the lock held unless noted ---- */

/* Registers a region in state REGION_REGISTERING; drops the lock meanwhile. The caller is counted
 * in region->users, because the region may end before this returns. If the adapter has no room and
 * `may_evict`, evicts other regions and retries a few times. Returns the duration in
 * nanoseconds. */
uint64_t region_register(struct region *region, bool may_evict);

/* A client requests the region, or may use it unobserved from now on: it is no longer
 * speculative. */
void region_set_used(struct region *region);

/* Sets the duration of its background registration. */
void region_set_background_time(struct region *region, uint64_t nanoseconds);

/* Waits while the region is being registered; drops the lock meanwhile. */
void region_await_settled(struct region *region);

/* Takes the region out of every index, waits for its registration, and revokes its client MRs. Puts
 * it on *ending if it must be deregistered. Drops the lock only to wait. */
void region_end(struct region *region, struct region **ending);

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
void region_report_registered(const struct pin_request *request, int error, uint64_t start);
void region_report_ended(const struct region *region, int error, uint64_t start);

/* A refusal set the GPU's pin limit to `learnt` bytes; 0: unchanged. */
void region_report_pin_limit(int device, uint64_t learnt);

/* Logs a failed registration. `room` holds the known limits; the function completes it. */
struct errors_room;
void region_complain(const struct region *region, int error, struct errors_room *room);

/* ---- client_mr.c; with the lock held ---- */

struct client_mr;

/* A spare object for client_mr_adopt(); NULL: out of memory. */
struct client_mr *client_mr_spare(void);

/* Replaces an older client MR with an equal key. Returns 0 or -ENOMEM. */
int client_mr_insert(const void *key, struct region *region, uint64_t allocation);

/* client_mr_insert() that cannot fail; not for a leased key (leases.h). */
void client_mr_adopt(struct client_mr *spare, const void *key, struct region *region,
		     uint64_t allocation);

/* False: the table has no such client MR. Without the lock; the answer may be outdated at once. */
bool client_mr_may_exist(const void *key);

/* Removes the client MR; false if there is none. *revoked: its memory had ended before. */
bool client_mr_remove(const void *key, bool *revoked);

/* A forked child needs no lock here: it has no other thread, and chains are always intact. */
bool client_mr_exists(const void *key);
bool client_mr_forget(const void *key); /* false if there is none */

/* Revokes the region's client MRs: of one allocation, or all if `allocation` is 0. */
void client_mr_revoke(struct region *region, uint64_t allocation);

/* ---- background.c: background registration ---- */

/* Prefetches for background_queue(), as do the other *_expect() functions. */
void background_expect(void);

/* Queues the allocation for all domains. Without the lock. True: the caller must call
 * background_go(). */
bool background_queue(const struct allocation *allocation);

/* Requests a rescan of all live allocations, with or without the lock. True: call
 * background_go(). */
bool background_queue_all(void);

/* Works on one queued allocation or one batch of the rescan; drops the lock meanwhile. False: no
 * work. */
bool background_step(void);

/* True if a step may find work; for the worker, with the lock held. */
bool background_has_more(void);

/* Starts work on the queue, without the lock: wakes the worker, or in sync mode works on it
 * here. */
void background_go(void);

/* In sync mode: waits until no thread has the allocation to register. Without the lock. */
void background_await(const struct allocation *allocation);

/* ---- worker.c ---- */

void worker_expect(void);

/* Starts the worker if there is none, or wakes it. Without any lock. */
void worker_wake(void);

#endif
