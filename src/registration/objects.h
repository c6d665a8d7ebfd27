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
 *       entry             one allocation; names the regions that serve it
 *       region            one range of granules, or of pages where clients bring dma-bufs; counts
 *         |               the entries that name it, and ends with the last one
 *         '- client MR    the registration that a client got: a hold of the region (holds.h)
 *
 * Sharing is correct by one rule: an entry names only regions of its allocation's own range or of a
 * part of it, rounded out to granules, or to pages where clients bring dma-bufs. So every
 * allocation whose entry names a region has a part of each of its pages, and while one of them is
 * live the driver cannot have replaced a page. Allocations that round to the same range share one
 * region: their client MRs hold it until the last of these allocations is freed. A span
 * (requests.c) is a region over several mappings of VMM memory, in a list of its domain in place of
 * entries: it serves only requests that need them all, and ends with the first of them.
 *
 * An entry names a region by a hold, which ends with the region: no end of a region searches its
 * entries.
 *
 * registration_mutex guards every field below, except where a comment names another rule. Lock
 * order: registration_mutex, then the memory table's lock. With registration_mutex held, no code
 * calls malloc or free (see base/pool.h), the driver or verbs. While a thread registers a region
 * without the lock, the region is a flight: in no index, but in the list of flights, where frees
 * find it (region.h).
 */
#ifndef PEERPIN_REGISTRATION_OBJECTS_H
#define PEERPIN_REGISTRATION_OBJECTS_H

#include <pthread.h>
#include <sys/queue.h>

#include "base/pool.h"
#include "base/process.h"
#include "registration/policy.h"
#include "registration/registration.h"

/* Classes of allocation sizes: one for each power of two. */
#define SIZE_CLASSES 64u

/* The driver pins GPU memory in granules (GPUDirect RDMA guide 3.2); an integrated GPU's memory is
 * host memory, pinned in host pages (the guide, Tegra). A granule divides the driver's block, so
 * rounding stays inside the block. */
#define GRANULE ((uint64_t)64 << 10)

/* What hits read of a region. Type-stable; range and keys are constant within a generation
 * (holds.h). One cache line. */
struct region_hits {
	_Atomic uint64_t base, length;
	_Atomic uint64_t keys; /* lkey in the upper half, rkey in the lower */
	_Atomic uint32_t kernel_handle;
	_Atomic uint32_t used_at; /* last use (holds.h) */
	_Atomic uint32_t caller;  /* that of its protection domain */
	struct region *region;	  /* set once */
} __attribute__((aligned(64)));

TAILQ_HEAD(region_list, region);

/* The struct and its number stay together, in use or not. */
struct region {
	struct region_hits *hits; /* set once */
	union {
		struct region *next_unused;
		struct region *range_next;  /* equal hash of the base; of short ranges alone */
		struct region *ending_next; /* ended: in a list to deregister */
	};
	struct domain *domain;		 /* valid until deregistered */
	struct protection_domain *owner; /* the domain's protection domain, until that has ended */
	uint64_t base, length;
	uint64_t allocation; /* id of the one that it was registered for, as are the next fields */
	CUcontext context;
	int device;
	uint32_t used_at; /* last use known in its GPU's list (holds.h) */
	uint64_t size;
	uint64_t ids;		/* of a span: sum of the ids of its mappings */
	uint64_t background_ns; /* duration of its background registration; 0: synchronous */
	bool dma_buf_only;
	bool entered;	  /* in the indexes; false: in flight */
	bool ended;	  /* in flight: to be deregistered; else out of every index */
	bool exporting;	  /* in flight: the worker exports its memory, and requests do not wait */
	bool used;	  /* a client has requested it */
	bool spans;	  /* over several mappings */
	bool listed;	  /* in the list of its entry, or of spans */
	bool shared;	  /* further allocations find it */
	bool alone;	  /* in flight: they will not */
	bool counted;	  /* part of the pinned bytes */
	bool evicted;	  /* ended by an eviction */
	bool freed;	  /* ended by a free */
	bool from_source; /* registered from the given dma-buf */
	bool speculative; /* registered in the background before any request for its allocation */
	unsigned int entries;			  /* that name it */
	struct ibv_mr *mr;			  /* the region's registration; NULL: in flight */
	const struct registration_method *method; /* of `mr` */
	struct registration_keys keys;
	struct held_file ready;	      /* its dma-buf for clients (ready_exports.c); inode 0: none */
	struct region *ready_next;    /* of equal hash */
	TAILQ_ENTRY(region) in_ready; /* by last use */
	struct region *imported;      /* holds of client MRs without an allocation; NULL: none */
	TAILQ_ENTRY(region) in_list;  /* of flights, of the domain's, of retiring or revoked ones */
	TAILQ_ENTRY(region) in_gpu;   /* in the order of evictions */
	LIST_ENTRY(region) in_entry;  /* with `listed`: of unique keys; spans: in their domain's */
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
	struct region_list regions;
	LIST_HEAD(, region) spans;  /* of these */
	struct domain *next;	    /* in its protection domain */
	TAILQ_ENTRY(domain) in_all; /* in order of creation */
	TAILQ_ENTRY(domain) in_behind;
	struct arena entries; /* of struct entry, by slot; survives reuse of the struct */
	/* Regions of each class of sizes that ended in a row without a request, at most
	 * POLICY_VAIN. */
	uint8_t vain[SIZE_CLASSES];
};

/* The entry of an allocation in a domain. Valid if `allocation` is the id of the live allocation at
 * this slot. A hit follows holds.h. One cache line. */
struct entry {
	_Atomic uint64_t allocation; /* 0: none */
	_Atomic uint64_t hold;	     /* for hits: of one of the regions; 0: none */
	/* With registration_mutex held. */
	union {
		/* Holds of its regions; 0 or ended: none. The whole, then parts. */
		uint64_t regions[1 + POLICY_PARTS];
		LIST_HEAD(, region) own; /* unique keys: in place of them */
	};
	uint32_t made : 3; /* parts and spans so far, at most POLICY_PARTS */
	/* Failures of parts and spans, and of the whole, temporary errors excluded; at most
	 * POLICY_FAILURES. */
	uint32_t failures : 2, whole_failures : 2;
	uint32_t forwards : 5;	/* requests to forward after a further failure */
	uint32_t requested : 1; /* a client has requested the allocation */
} __attribute__((aligned(64)));

struct protection_domain {
	struct protection_domain *next_free;
	struct ibv_context *context; /* set once */
	uint32_t handle;	     /* set once */
	struct ibv_pd *pd;	     /* set once */
	struct adapter *adapter;
	uint32_t caller; /* of ibv_alloc_pd (report/callers.h) */
	bool own_keys;	 /* at most 1 client MR per key; set once */
	bool closing;
	int expected; /* access flags of registration_expect(); 0: none */
	struct domain *domains;
	struct region_list revoked;	/* ended, but the client has yet to deregister client MRs */
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
