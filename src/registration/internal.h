/* SPDX-License-Identifier: BSD-3-Clause */
/* internal.h -- the objects of the registration layer and the one lock that guards them
 *
 *   adapter               an open device
 *     |
 *   protection_domain     one of the kernel's, known by (context, handle): a parent domain has another struct,
 *     |                   the same handle
 *     domain              the rights in it; active from the first request on, or from the start
 *       |
 *       region            one granule-aligned range; lives as long as it has a reference
 *         |- reference      an allocation that needs the region
 *         '- client MR    what a client holds
 *
 * The rule that makes sharing right: an allocation only ever uses the region whose range is its own, rounded
 * out to granules (or, where PEERPIN_GRANULARITY says so, to the driver's block that it lies in). So every granule of a
 * region, or its one block, holds a part of each of its allocations, and while one of them lives the driver cannot
 * have put another page there. Allocations that round to the same range share one region.
 *
 * registration_lock guards every field below, unless it says otherwise. Order: registration_lock, then the
 * memory table's lock. While it is held nothing is allocated from or freed to malloc (see base/pool.h), and
 * neither the driver nor verbs is called. A region that is being registered has state REGION_REGISTERING
 * and stays in place until it settles; region_settled is signalled then.
 */
#ifndef PEERPIN_REGISTRATION_INTERNAL_H
#define PEERPIN_REGISTRATION_INTERNAL_H

#include <pthread.h>

#include "base/arena.h"
#include "registration/registration.h"

#define DEVICES_MAX 64 /* GPUs whose memory is counted; the pin limit of more is nobody's */

/* A GPU's memory is pinned in granules (GPUDirect RDMA guide 3.2) and carved from blocks (measured): a granule divides
 * the block, so rounding never leaves it. */
#define GRANULE ((uint64_t)64 << 10)
#define BLOCK	((uint64_t)2 << 20)

/* An integrated GPU's memory is the host's, and is pinned in its pages (the guide's chapter on Tegra). */
#define PAGE ((uint64_t)4096)

enum region_state {
	REGION_IDLE,	    /* made, not registered */
	REGION_REGISTERING, /* somebody is registering it, without the lock */
	REGION_READY,
	REGION_FAILED,
};

/* Of what kind an allocation is to the learning (learning.c), and on which evidence it was registered ahead. */
struct kind {
	uint32_t tag; /* of its exact size and device */
	uint16_t exact;
	uint8_t size_class;
	uint8_t evidence; /* enum evidence */
};

enum evidence { EVIDENCE_NONE, EVIDENCE_EXACT, EVIDENCE_CLASS };

struct region {
	struct region *next_free;
	struct domain *domain;		 /* until it is deregistered */
	struct protection_domain *owner; /* of the domain */
	uint64_t base, length;
	CUcontext context; /* of the allocation that it was made for, as are the next two */
	int device;
	uint64_t size;
	uint64_t ahead_ns; /* that registering it ahead took; 0: it was not */
	enum region_state state;
	bool dma_buf_only;
	bool ended;	    /* out of every index; freed with the last user */
	bool used;	    /* a client asked for it */
	bool idle;	    /* among those that may be evicted */
	bool counted;	    /* among the pinned bytes */
	bool evicted;	    /* ended to make room */
	bool freed;	    /* ended because its memory was */
	uint8_t failures;   /* registrations that failed, but for a reason of the moment */
	struct kind kind;   /* of the allocation that it was registered ahead for */
	unsigned int users; /* threads that look at it without the lock, or wait for it */
	unsigned int client_mrs;
	struct ibv_mr *mr; /* ours, while READY */
	struct registration_keys keys;
	struct region_reference *references;
	struct client_mr *held;			      /* its handles */
	struct region *domain_previous, *domain_next; /* in its domain; ended: among those that retire */
	struct region *range_next;		      /* same hash of the base */
	struct region *ending_next;		      /* on a list of what somebody is about to deregister */
	struct region *idle_previous, *idle_next;     /* least recently used first */
};

struct region_reference {
	struct region_reference *next_free;
	uint64_t allocation; /* id */
	uint32_t slot;	     /* the allocation's */
	bool used;	     /* a client asked for the allocation in this domain */
	struct region *region;
	struct region_reference *bucket_next; /* at the same slot */
	struct region_reference *region_previous, *region_next;
};

struct domain {
	struct domain *next_free;
	struct protection_domain *owner;
	_Atomic int access; /* read by look-ups, too */
	bool asked;	    /* a client has asked for memory in it */
	bool looked_up;	 /* keys are handed out on each use, so nobody knows for how long: its regions stay */
	uint64_t number; /* in the order of activation; never used again */
	struct region *regions;
	struct domain *next;	 /* of the same protection domain */
	struct domain *all_next; /* of all, by number */
	struct learned *learned;
	_Atomic unsigned int
		note;	   /* where its keys stand beside each allocation; MEMORY_NOTES: in the array */
	struct arena keys; /* of struct keys, by slot; stays with the struct when it is used again */
};

/* What a look-up hands out in a domain beyond those that have a note. It is right if `allocation` is the id of the living
 * allocation that has this slot: who reads it reads the id, the keys, and then whether that allocation still has
 * its record. */
struct keys {
	_Atomic uint64_t allocation; /* 0: none */
	_Atomic uint64_t keys;	     /* lkey above rkey */
};

struct protection_domain {
	struct protection_domain *next_free;
	struct ibv_context *context; /* set once */
	uint32_t handle;	     /* set once */
	struct ibv_pd *pd;	     /* set once */
	struct adapter *adapter;
	bool own_keys; /* each key has one holder at a time (PEERPIN_UNIQUE_KEYS); set by the first request */
	bool closing;
	struct domain *domains;
	struct protection_domain *next;
};

/* An open device, kept until it is closed. What topology.h tells of it is asked without the lock and stored with it. */
struct adapter {
	struct adapter *next_free;
	struct ibv_context *context;
	uint64_t regions;      /* of ours in this context, registered or being registered */
	uint64_t region_limit; /* of the adapter, for all who have it open; 0: none is known */
	int counted_as;	       /* in the statistics; set once, with the next */
	bool described;	       /* region_limit and named are set */
	bool named;	       /* PEERPIN_DOMAINS names it */
	unsigned int users; /* threads that ask about it without the lock: the device is closed after them */
	uint64_t near, near_known; /* one bit for each GPU */
	struct adapter *next;
};

extern pthread_mutex_t registration_lock;
extern pthread_cond_t region_settled;

/* ---- domain.c; the lock is held ---- */

extern struct protection_domain *protection_domains;
extern struct domain *domains; /* all, by number */

struct protection_domain *protection_domain_find(struct ibv_context *context, uint32_t handle);
struct domain *domain_find(struct protection_domain *owner, int access);
struct domain *domain_make(struct protection_domain *owner, int access);

/* Whether there is a domain, or PEERPIN_DOMAINS may make one. Without the lock. */
bool domain_somebody_may_want(void);

/* The first of `domains` behind that number; NULL: there is none. */
struct domain *domain_after(uint64_t number);

/* ---- activation.c ---- */

/* Whether regions can be shared by these rights. No lock. */
bool domain_may_share(int access);

/* Where a request with these rights is served; NULL: nowhere yet. The lock is held. */
struct domain *domain_serving(struct protection_domain *owner, int access);

/* The domain of these rights, or, unless `exactly`, where they are served; active from now on; NULL if there can be none.
 * *activated becomes true if it was not. The lock is held. */
struct domain *domain_activate(const struct ibv_pd *pd, int access, bool exactly, bool *activated);

/* Tells the user, without the lock. */
void domain_tell_active(int access);

/* ---- adapter.c ---- */

/* The lock is held. NULL: there is none; out of memory. */
struct adapter *adapter_find(const struct ibv_context *context);
struct adapter *adapter_of(struct ibv_context *context);
void adapter_forget(struct ibv_context *context);

/* All of them, in a forked child, which has none of the threads that may be asking about one. */
void adapters_forget(void);

/* Finds out what is not known yet, also of the way to that GPU. The lock is held, and dropped meanwhile; true if it was. */
bool adapter_describe(struct adapter *adapter, int device);

/* Whether they are one adapter; the regions that it has for all contexts of this process. The lock is held. */
bool adapter_is_same(const struct adapter *one, const struct adapter *other);
uint64_t adapter_regions(const struct adapter *adapter);

/* Waits until nobody does so. */
void adapter_await(const struct adapter *adapter);

/* Whether PEERPIN_DOMAINS wants memory of that GPU registered ahead in the domain, as far as is known. */
bool adapter_wants(const struct domain *domain, int device);

/* Whether PEERPIN_DOMAINS makes domains active that no client has asked for. */
bool adapter_chooses(void);

/* ---- learning.c: which kinds of allocation clients ask for; the lock is held ---- */

/* Whether such memory should be registered ahead; *kind is for the region then. */
bool learning_wants(struct domain *domain, const struct allocation *allocation, struct kind *kind);

void learning_expect(uint64_t size);

/* What no domain wanted of late, and since when nothing has changed that could make one want it: it need not be asked.
 * Without the lock: what changes meanwhile is followed by a look at all that lives. */
bool learning_passes_over(const struct allocation *allocation);
void learning_refused(const struct allocation *allocation);

/* A region was registered ahead; the first client asked for it; it has ended without. */
void learning_made(struct domain *domain, const struct kind *kind);
void learning_wasted(struct domain *domain, const struct kind *kind);

/* A client asked for such an allocation the first time; `kind` is its region's. True: allocations that were passed over may
 * be wanted now. */
bool learning_asked(struct domain *domain, const struct allocation *allocation, const struct kind *kind);

/* A domain wants all from now on. */
void learning_reconsider(void);

void learning_begin(struct domain *domain);
void learning_end(struct domain *domain);

/* ---- pin_limit.c; the lock is held, but where it is said otherwise ---- */

/* Finds out how much of the GPU may be pinned, once; drops the lock meanwhile. */
void pin_limit_describe(int device);

/* Whether one more region has room beside what is pinned. */
bool pin_limit_has_room(const struct region *region);

/* For a client's request: puts regions that nobody holds on *ending, the least recently used first, until this one has room, or
 * is worth a try. False: PEERPIN_PIN_LIMIT has none for it, and nothing was ended. */
bool pin_limit_make_room(const struct region *region, struct region **ending);

/* Memory of this GPU (-1: of none, or it is not known) was refused by the adapter (NULL: by one that has no region) for want
 * of room: evicts at least `bytes`, first of what may be in its way. False: nothing was to be had. */
bool pin_limit_evict(const struct adapter *adapter, int device, uint64_t bytes, struct region **ending);

/* What was refused, and what went well, correct what is believed of the GPU. The first returns the pin limit that it has learnt; 0:
 * nothing. */
uint64_t pin_limit_refused(const struct region *region);
void pin_limit_granted(const struct region *region);

/* The region's bytes are pinned, or about to be; they no longer are. */
void pin_limit_add(struct region *region);
void pin_limit_remove(struct region *region);

/* Nobody holds the region any more, or nobody did, and it has just been used; somebody holds it, or it ends. */
void pin_limit_set_idle(struct region *region);
void pin_limit_set_busy(struct region *region);

/* ---- keys.c; the lock is held ---- */

/* The region is registered: look-ups of these allocations, in its domain, find its keys from now on. What cannot be
 * stored is not found. */
void keys_publish(const struct region *region, const struct region_reference *reference);
void keys_publish_all(const struct region *region);

/* A domain begins, or has ended: then every region of it has withdrawn its keys. */
void keys_begin(struct domain *domain);
void keys_end(struct domain *domain);

/* No longer. Before the region is deregistered. */
void keys_withdraw(const struct region *region, const struct region_reference *reference);

/* ---- region.c; the lock is held, but where it is said otherwise ---- */

/* The range that an allocation needs registered. No lock. */
void region_range(const struct allocation *allocation, uint64_t *base, uint64_t *length);

/* The reference of the allocation at `slot` in the domain; NULL: it has none. */
struct region_reference *region_find_reference(const struct domain *domain, uint32_t slot,
					       uint64_t allocation);

/* The same, made if there is none, in a region that may have been made for it: then that is in state REGION_IDLE. NULL: out
 * of memory. */
struct region_reference *region_for(const struct allocation *allocation, struct domain *domain);

/* Whether the allocation is queued, or taken from there and being seen to; that it no longer is, which who waits hears.
 * For the second the lock need not be held. */
bool region_is_queued(const struct allocation *allocation);
void region_unqueue(const struct allocation *allocation);

void region_expect(uint32_t slot);

/* That it is. The lock is not held. False: out of memory. */
bool region_set_queued(const struct allocation *allocation);

void region_release_user(struct region *region);

/* Takes the region, and its references with it, out of every index. */
void region_leave_indexes(struct region *region);

/* Ends the references of an allocation; regions left without any are ended by region_end(). False: it had none. *since, if it
 * is 0, becomes the time at which the first region that an adapter has, or is about to have, began to end. */
bool region_end_references(const struct allocation *allocation, struct region **ending, uint64_t *since);

/* ---- region_life.c; the lock is held, but where it is said otherwise ---- */

/* Registers a region in state REGION_REGISTERING; drops the lock meanwhile. The region may have ended when
 * this returns, so the caller counts among its users. If the adapter has no room, and `may_evict`, others go and it is
 * tried again, a few times. Returns the nanoseconds that it took. */
uint64_t region_register(struct region *region, bool may_evict);

/* A client asks for it, or may from now on without being seen: it no longer is one that nobody used. */
void region_set_used(struct region *region);

/* How long registering it ahead took. */
void region_set_background_time(struct region *region, uint64_t nanoseconds);

/* Waits while the region is being registered; drops the lock meanwhile. */
void region_await_settled(struct region *region);

/* Takes the region out of every index, awaits its registration, revokes its handles, and puts
 * it on *ending if there is something to deregister. Drops the lock only if it has to wait. */
void region_end(struct region *region, struct region **ending);

/* Deregisters what is on the list, without the lock. */
void region_unpin_all(struct region *ending);

/* Two ends may meet: memory is freed while its protection domain is closed. Only one of them finds the
 * region; the other one must not go on before it is deregistered. These wait for regions that others ended;
 * a caller deregisters its own first. *since, if it is 0, becomes the time at which it began to wait, if it has to. */
void region_await_range(uint64_t base, uint64_t size, uint64_t *since);
void region_await_owner(const struct protection_domain *owner);

/* ---- region_report.c; the lock is not held, but where it is said otherwise ---- */

/* One more registration that failed, by what would mend it. With the lock or without. */
void region_count_failure(int error);

/* Whether anybody wants to know when something began; that it is over now: 0 or -errno. */
bool region_is_reported(void);
void region_report_registered(const struct pin_request *request, int error, uint64_t start);
void region_report_ended(const struct region *region, int error, uint64_t start);

/* A refusal has set the GPU's pin limit; 0: it has not. */
void region_report_pin_limit(int device, uint64_t learnt);

/* The region could not be registered; `room` is what is known of room, to be completed. */
struct errors_room;
void region_complain(const struct region *region, int error, struct errors_room *room);

/* ---- client_mr.c; the lock is held ---- */

struct client_mr;

/* An object that handle_adopt() makes a client MR of; NULL: out of memory. */
struct client_mr *client_mr_spare(void);

/* Replaces an older client MR at the same address. Returns 0 or -ENOMEM. */
int client_mr_insert(const void *key, struct region *region, uint64_t allocation);

/* The same, which cannot fail; not for a key that is leased (leases.h). */
void client_mr_adopt(struct client_mr *spare, const void *key, struct region *region, uint64_t allocation);

/* False: there is no such client MR in the table. Without the lock, and of no moment in particular. */
bool client_mr_may_exist(const void *key);

/* Takes it out; false if there is none. *revoked: its memory had ended before. */
bool client_mr_remove(const void *key, bool *revoked);

/* These two need no lock in a forked child: whoever held it is not there, and chains are always whole. */
bool client_mr_exists(const void *key);
bool client_mr_forget(const void *key); /* false if there is none */

/* Revokes the region's handles: all of them, or those of one allocation if that is not 0. */
void client_mr_revoke(struct region *region, uint64_t allocation);

/* ---- background.c: registration before a client asks ---- */

/* That background_queue() will be called: fetches what it needs, as the others of that name do. */
void background_expect(void);

/* Queues the allocation for every domain that wants it; the lock is not held. True: somebody has to see to it (background_go). */
bool background_queue(const struct allocation *allocation);

/* All that lives is to be looked at again, the lock held or not. The same. */
bool background_queue_all(void);

/* Does one piece of what is queued; drops the lock meanwhile. False: there was nothing. */
bool background_step(void);

/* Whether a step may find something; for the worker, which has the lock. */
bool background_has_more(void);

/* Sees to what is queued, without the lock: wakes the worker, or in sync mode does it. */
void background_go(void);

/* In sync mode, until nobody has the allocation to register any more. The lock is not held. */
void background_await(const struct allocation *allocation);

/* ---- worker.c ---- */

void worker_expect(void);

/* Starts the thread if there is none, or wakes it. No lock is held. */
void worker_wake(void);

#endif
