/* SPDX-License-Identifier: BSD-3-Clause */
/* internal.h -- the objects of the registration layer and the one lock that guards them
 *
 *   protection_domain   one of the kernel's, known by (context, handle): a parent domain has another struct,
 *     |                 the same handle
 *     domain            the rights in it; active from the first request on
 *       |
 *       region          one granule-aligned range; lives as long as it has a tenancy
 *         |- tenancy    an allocation that needs the region
 *         '- handle     what a client holds
 *
 * The rule that makes sharing right: an allocation only ever uses the region whose range is its own, rounded
 * out to granules. So every granule of a region holds a part of each of its allocations, and while one of
 * them lives the driver cannot have put another page there. Allocations that round to the same range share
 * one region.
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

enum region_state {
	REGION_IDLE,	    /* made, not queued, not registered */
	REGION_QUEUED,	    /* the worker will register it */
	REGION_REGISTERING, /* somebody is registering it, without the lock */
	REGION_READY,
	REGION_FAILED,
};

struct region {
	struct region *next_free;
	struct domain *domain;		 /* until it has ended */
	struct protection_domain *owner; /* of the domain */
	uint64_t base, length;
	enum region_state state;
	bool ended;	    /* out of every index; freed with the last user */
	bool used;	    /* a client asked for it */
	unsigned int users; /* threads that look at it without the lock, or wait for it */
	unsigned int handles;
	struct ibv_mr *mr; /* ours, while READY */
	struct registration_keys keys;
	struct tenancy *tenancies;
	struct handle *held;			      /* its handles */
	struct region *domain_previous, *domain_next; /* in its domain; ended: among those that retire */
	struct region *range_next;		      /* same hash of the base */
	struct region *queue_previous, *queue_next;   /* while QUEUED */
};

struct tenancy {
	struct tenancy *next_free;
	uint64_t allocation; /* id */
	uint32_t place;	     /* the allocation's */
	struct region *region;
	struct tenancy *bucket_next; /* at the same place */
	struct tenancy *region_next;
};

struct domain {
	struct domain *next_free;
	struct protection_domain *owner;
	_Atomic int access; /* read by look-ups, too */
	struct region *regions;
	struct domain *next;
	_Atomic unsigned int
		note;	   /* where its keys stand beside each allocation; MEMORY_NOTES: in the array */
	struct arena keys; /* of struct keys, by place; stays with the struct when it is used again */
};

/* What a look-up hands out in a domain beyond those that have a note. It is right if `allocation` is the id of the living
 * allocation that has this place: who reads it reads the id, the keys, and then whether that allocation still has
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
	bool closing;
	struct domain *domains;
	struct protection_domain *next;
};

extern pthread_mutex_t registration_lock;
extern pthread_cond_t region_settled;
extern pthread_cond_t work_queued;

/* ---- domain.c; the lock is held ---- */

extern struct protection_domain *protection_domains;

struct protection_domain *protection_domain_find(struct ibv_context *context, uint32_t handle);
struct domain *domain_find(struct protection_domain *owner, int access);
struct domain *domain_make(struct protection_domain *owner, int access);

/* ---- keys.c; the lock is held ---- */

/* The region is registered: look-ups of these allocations, in its domain, find its keys from now on. What cannot be
 * stored is not found. */
void keys_publish(const struct region *region, const struct tenancy *tenancy);
void keys_publish_all(const struct region *region);

/* A domain begins, or has ended: then every region of it has withdrawn its keys. */
void keys_begin(struct domain *domain);
void keys_end(struct domain *domain);

/* No longer. Before the region is deregistered. */
void keys_withdraw(const struct region *region, const struct tenancy *tenancy);

/* ---- region.c; the lock is held, but where it is said otherwise ---- */

/* The range that an allocation needs registered. No lock. */
void region_range(const struct allocation *allocation, uint64_t *base, uint64_t *length);

/* The region that serves `allocation` in `domain`, made if there is none, with a tenancy for the
 * allocation. *made tells whether it is new, in state REGION_IDLE. NULL: out of memory. */
struct region *region_for(const struct allocation *allocation, struct domain *domain, bool *made);

/* Registers a region in state REGION_REGISTERING; drops the lock meanwhile. The region may have ended when
 * this returns, so the caller counts among its users. Returns the nanoseconds that it took. */
uint64_t region_register(struct region *region);

/* Waits while the region is being registered; drops the lock meanwhile. */
void region_await_settled(struct region *region);

void region_release_user(struct region *region);

/* Takes the region out of every index, cancels or awaits its registration, revokes its handles, and puts
 * it on *ending (linked by queue_next) if there is something to deregister. Drops the lock while waiting. */
void region_end(struct region *region, struct region **ending);

/* Ends the tenancies of an allocation; regions left without any are ended as above. */
void region_end_tenancies(const struct allocation *allocation, struct region **ending);

/* Deregisters what is on the list, without the lock. */
void region_unpin_all(struct region *ending);

/* Two ends may meet: memory is freed while its protection domain is closed. Only one of them finds the
 * region; the other one must not go on before it is deregistered. These wait for regions that others ended;
 * a caller deregisters its own first. */
void region_await_range(uint64_t base, uint64_t size);
void region_await_owner(const struct protection_domain *owner);

/* ---- handle.c; the lock is held ---- */

/* Replaces an older handle at the same address. Returns 0 or -ENOMEM. */
int handle_insert(const void *key, struct region *region, uint64_t allocation);

/* Takes it out; false if there is none. *revoked: its memory had ended before. */
bool handle_remove(const void *key, bool *revoked);

/* These two need no lock in a forked child: whoever held it is not there, and chains are always whole. */
bool handle_exists(const void *key);
bool handle_forget(const void *key); /* false if there is none */

/* Revokes the region's handles: all of them, or those of one allocation if that is not 0. */
void handle_revoke(struct region *region, uint64_t allocation);

/* ---- worker.c; the lock is held, but where it is said otherwise ---- */

void worker_enqueue(struct region *region);
void worker_dequeue(struct region *region);

/* Makes sure that what is queued gets done, in the way that PEERPIN_EAGER says. Without the lock. */
void worker_start(void);

#endif
