/* SPDX-License-Identifier: BSD-3-Clause */
/* model.h -- expected answers to one thread's calls: a plain sequential model
 *
 * A client is one thread. Its memory, registrations and some protection domains are its own, so no
 * other thread changes its answers, however many share blocks, granules, addresses, two protection
 * domains and the worker. Arrays, searched linearly. Nothing here calls the library.
 */
#ifndef PEERPIN_TESTS_RANDOM_MODEL_H
#define PEERPIN_TESTS_RANDOM_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "random/source.h"
#include "random/world.h"

#define ALLOCATIONS 192
#define HANDLES	    64
#define SHARED_PDS  2
#define OWN_PDS	    2
#define PDS_OF_ONE  (SHARED_PDS + OWN_PDS)
#define REMEMBERED  16 /* last freed ranges of the thread's own heap */

/* Access flags of regions; the first are the most frequent. */
#define RIGHTS_OF_REGIONS 5
extern const int model_access[RIGHTS_OF_REGIONS];

struct model_memory {
	uint64_t base, size; /* size 0: no memory */
	CUcontext context;
	enum allocation_kind kind;
	uint64_t event_id; /* of the last event; 0: of the record */
	bool own;	   /* no other thread gets its addresses */
	bool rdma_capable, accessible;
};

struct model_handle {
	bool known;   /* served, not yet deregistered */
	bool alive;   /* memory and protection domain are live */
	bool perhaps; /* its memory has ended; other memory of its region may be live */
	/* The program has freed the memory, and it was kept: it is live until its release. */
	bool kept;
	struct allocation record;
	struct model_memory *memory;
	const struct ibv_pd *pd;
	uint64_t address, length;
	int access;
	uint32_t lkey, rkey;
	bool spans; /* `memory` is the first of several mappings */
};

struct model_pd {
	struct ibv_pd pd;
	struct ibv_pd parent; /* a parent domain: another struct, the same handle */
	unsigned int device;
	bool open;
};

/* Reasons to bypass a request, as bits. */
enum reason {
	REASON_RANGE = 1,
	REASON_FLAGS = 2,
	REASON_ADDRESS = 4,
	REASON_CAPABILITY = 8,
	REASON_DOMAIN = 16,
	REASON_ENDED = 32,
};

/* Expected counters at the end; `perhaps`: possibly revoked MRs. */
struct model_totals {
	uint64_t operations, requests, served, forwarded, failed;
	uint64_t range, flags, address, capability, domain,
		ended; /* forwarded for this reason alone */
	uint64_t allocations, frees, revoked, late, forks, refused_ends, perhaps;
	uint64_t host_allocations, host_frees, untracked_frees, kept, reused;
};

struct client {
	unsigned int number;
	struct source source;
	struct model_memory memories[ALLOCATIONS];
	struct model_handle handles[HANDLES];
	/* Their addresses stand for the provider's structs. */
	struct {
		char bytes[64];
	} structs[HANDLES + 1];
	struct model_pd *pds[PDS_OF_ONE];
	struct model_pd own_pds[OWN_PDS];
	struct {
		uint64_t base, size;
	} freed[REMEMBERED];
	unsigned int freed_next;
	unsigned int target; /* bytes of memory that the program aims at */
	bool keeps;	     /* frees may keep memory */
	struct model_totals totals;
};

void model_begin(struct client *client, unsigned int number, struct source source,
		 struct model_pd *shared);

/* The client's memory that holds the address; NULL: none. */
struct model_memory *model_memory_at(struct client *client, uint64_t address);
struct model_memory *model_unused_memory(struct client *client);
bool model_overlaps(struct client *client, uint64_t base, uint64_t size);

/* Whether a request for the range, whose first byte the memory holds, needs this memory alone:
 * clients round the end. */
bool model_serves(const struct model_memory *memory, uint64_t address, uint64_t length);

/* The next mapping of a run; NULL: one region cannot serve both. */
struct model_memory *model_next_mapping(struct client *client, const struct model_memory *memory,
					bool dma_buf);

/* Reasons against serving a request; 0: it must be served. `pd` NULL: none of that number. A
 * dma-buf may be of memory that is not RDMA-capable. */
unsigned int model_refuses(struct client *client, const struct model_pd *pd, uint64_t address,
			   uint64_t length, uint64_t iova, int access, bool dma_buf);

/* True if its region may be one granule, which other memory shares: that alone revokes it then. */
bool model_may_share(const struct model_handle *handle);

/* Memory is about to end, or to lose its registrations. */
void model_memory_ending(struct client *client, struct model_memory *memory);
void model_memory_freed(struct client *client, struct model_memory *memory);

/* The memory was freed, and kept: its registrations stay. */
void model_memory_kept(struct client *client, const struct model_memory *memory,
		       const struct allocation *record);

/* The registrations in this protection domain that the client has not deregistered. */
unsigned int model_held_in(const struct client *client, const struct ibv_pd *pd);
void model_pd_ended(struct client *client, unsigned int which);

void model_add(struct model_totals *to, const struct model_totals *totals);

#endif
