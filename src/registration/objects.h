/* SPDX-License-Identifier: BSD-3-Clause */
/* objects.h -- objects of the registration layer and the one lock that guards them
 *
 *   adapter               an open device
 *     |
 *   protection_domain     one of the kernel's, identified by (context, handle): a parent domain has
 *     |                   another struct with an equal handle
 *     domain              one set of access flags, and one mapping of the memory: hosts with
 *       |                   NVLink-C2C have two paths between adapter and GPU memory, without
 *       |                   order between them. Enabled by the first request, or at the start
 *       region            one range of granules, or of pages where clients bring dma-bufs; exists
 *         |               while it has a reference
 *         |- reference      an allocation's share in the region
 *         '- client MR    the registration that a client got
 *
 * Sharing is correct by one rule: an allocation uses only regions of its own range or of a part of
 * it, rounded out to granules, or to pages where clients bring dma-bufs. So every one of them in a
 * region holds a part of each of its allocations. While one of them is live the driver cannot have
 * replaced a page. Allocations that round to the same range share one region. An allocation may
 * have several references in a domain (requests.c); hits use one of them. A span (requests.c) is a
 * region over several mappings of VMM memory, referenced by each of them: it serves only requests
 * that need them all, and ends with the first of them.
 *
 * registration_mutex guards every field below, except where a comment names another rule. Lock
 * order: registration_mutex, then the memory table's lock. With registration_mutex held, no code
 * calls malloc or free (see base/pool.h), the driver or verbs. A region being registered has state
 * REGION_REGISTERING and stays in its indexes until it settles; registration_wake() follows.
 */
#ifndef PEERPIN_REGISTRATION_OBJECTS_H
#define PEERPIN_REGISTRATION_OBJECTS_H

#include <pthread.h>
#include <sys/queue.h>

#include "base/pool.h"
#include "base/process.h"
#include "registration/registration.h"

/* Classes of allocation sizes: one for each power of two. */
#define SIZE_CLASSES 64u

/* The driver pins GPU memory in granules (GPUDirect RDMA guide 3.2); an integrated GPU's memory is
 * host memory, pinned in host pages (the guide, Tegra). A granule divides the driver's block, so
 * rounding stays inside the block. */
#define GRANULE ((uint64_t)64 << 10)

enum region_state {
	REGION_IDLE,	    /* created, not registered */
	REGION_REGISTERING, /* a thread registers it, without the lock */
	REGION_READY,
	REGION_FAILED,
};

struct region {
	union {
		struct region *next_free;
		struct region *range_next;  /* equal hash of the base; of short ranges alone */
		struct region *ending_next; /* ended: in a list to deregister */
	};
	struct domain *domain;		 /* valid until deregistered */
	struct protection_domain *owner; /* the domain's protection domain */
	uint64_t base, length;
	CUcontext context; /* of the region's first allocation, as are `device`, `size` */
	int device;
	uint32_t used_at; /* last use known in its GPU's list (holds.h) */
	uint64_t size;
	uint64_t background_ns; /* duration of its background registration; 0: synchronous */
	enum region_state state;
	bool dma_buf_only;
	bool ended;	    /* out of every index; freed with the last user */
	bool used;	    /* a client has requested it */
	bool spans;	    /* over several mappings */
	bool counted;	    /* part of the pinned bytes */
	bool evicted;	    /* ended by an eviction */
	bool freed;	    /* ended by a free */
	bool evictable;	    /* in its GPU's order (eviction.h) */
	bool aside;	    /* there: not idle when last looked at */
	bool with_worker;   /* region_register_prepared() has not returned */
	bool from_source;   /* registered from the given dma-buf */
	bool speculative;   /* registered in the background before any request for its allocation */
	unsigned int users; /* threads that use it without the lock, or wait */
	struct ibv_mr *mr;  /* the region's registration, while READY */
	const struct registration_method *method; /* of `mr` */
	struct ready_export *ready; /* its dma-buf for clients (ready_exports.c); NULL: none */
	struct registration_keys keys;
	uint32_t references;		   /* number of the first (holds.h); 0: none */
	struct region_reference *imported; /* of client MRs without an allocation; NULL: none yet */
	LIST_ENTRY(region) in_domain;	   /* ended: in the list of retiring regions */
	TAILQ_ENTRY(region) in_gpu;	   /* while READY: in the order of evictions */
};

/* Type-stable. Range and keys are constant within a generation (holds.h). One cache line: with a
 * stride of two lines, references would share half of the cache's sets. */
struct region_reference {
	_Atomic uint64_t first,
		extent;	       /* bytes that the reference serves: memory_extent() at most */
	_Atomic uint64_t keys; /* lkey in the upper half, rkey in the lower */
	_Atomic uint32_t kernel_handle;
	_Atomic uint32_t used_at; /* last use (holds.h) */
	union {
		struct region *region;
		struct protection_domain *owner; /* ended, in its list of revoked ones */
	};
	uint64_t allocation; /* its id; 0: imports */
	/* Numbers of references (holds.h); 0: none. `next` also links the unused and the revoked
	 * ones. */
	uint32_t next, previous, next_in_region;
	uint32_t slot : 29; /* the allocation's slot */
	bool used : 1;	    /* a client has requested a part of the range in this domain */
	bool whole : 1;	    /* serves the whole allocation */
	bool leads : 1;	    /* of a span: of its first mapping */
};

/* Beside the access flags of a domain, and above all of them: its regions are dma-bufs that map the
 * memory over PCIe. A request by address, or by another dma-buf, has a domain without it. */
#define DOMAIN_PCIE (1 << 30)

/* The access flags of the request's domain. */
static inline int domain_access(const struct registration_request *request)
{
	return request->access | (request->pcie ? DOMAIN_PCIE : 0);
}

/* A value of `span_failures`: a span has been registered. */
#define SPANS_WORK UINT8_MAX

struct domain {
	struct domain *next_free;
	struct protection_domain *owner;
	/* Hits read these without the lock: context and handle of `owner`. */
	_Atomic(struct ibv_context *) context;
	_Atomic uint32_t handle;
	_Atomic int access;    /* with DOMAIN_PCIE */
	bool enabled;	       /* enabled: a client has requested memory in it */
	bool exports;	       /* clients bring dma-bufs of whole pages */
	bool dma_buf_only;     /* a request has been served that only a dma-buf can serve */
	bool behind;	       /* live allocations wait for its rescan: in that list */
	uint8_t span_failures; /* spans that could not be registered, or SPANS_WORK */
	uint64_t number;       /* in order of creation; never reused; 0: ended */
	uint64_t youngest;     /* id of an allocation: its rescan leaves later ones out */
	LIST_HEAD(, region) regions;
	struct domain *next;	    /* in its protection domain */
	TAILQ_ENTRY(domain) in_all; /* in order of creation */
	TAILQ_ENTRY(domain) in_behind;
	struct arena entries; /* of struct entry, by slot; survives reuse of the struct */
	/* Regions of each class of sizes that ended in a row without a request, at most
	 * POLICY_VAIN. */
	uint8_t vain[SIZE_CLASSES];
};

/* The entry of an allocation in a domain. Valid if `allocation` is the id of the live allocation at
 * this slot. A hit follows holds.h. The hold is of one of the allocation's references. */
struct entry {
	_Atomic uint64_t allocation; /* 0: none */
	_Atomic uint64_t hold;	     /* 0: no hit */
	/* With registration_mutex held. Number of the first reference in the list; the last ones
	 * may be of former allocations at this slot, whose frees wait for the lock. */
	uint32_t first;
	uint32_t made : 3; /* parts and spans so far, at most POLICY_PARTS */
	/* Failures of parts and spans, and of the whole, temporary errors excluded; at most
	 * POLICY_FAILURES. */
	uint32_t failures : 2, whole_failures : 2;
	uint32_t forwards : 5;	/* requests to forward after a further failure */
	uint32_t requested : 1; /* a client has requested the allocation */
} __attribute__((aligned(32)));

struct protection_domain {
	struct protection_domain *next_free;
	struct ibv_context *context; /* set once */
	uint32_t handle;	     /* set once */
	struct ibv_pd *pd;	     /* set once */
	struct adapter *adapter;
	bool own_keys; /* at most 1 client MR per key; set once */
	bool closing;
	int expected; /* access flags of registration_expect(); 0: none */
	struct domain *domains;
	/* Numbers of references whose client MRs were revoked, and may not be deregistered yet: the
	 * first and the last; 0: none. */
	uint32_t revoked, last_revoked;
	struct protection_domain *next; /* of equal hash */
	LIST_ENTRY(protection_domain) in_adapter;
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
	LIST_HEAD(, protection_domain) owners;
	struct adapter *next;
};

#endif
