/* SPDX-License-Identifier: BSD-3-Clause */
/* model.h -- what each call of one thread must answer: a plain sequential model
 *
 * A client is one thread. Its memory, its handles and some protection domains are its own, so
 * nobody else changes what its calls must answer, however many threads share blocks, granules,
 * addresses, two protection domains and the worker. Arrays, searched from one end to the other.
 * Nothing here calls the library.
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
#define CONTEXTS    2
#define REMEMBERED  16 /* ranges of the thread's own heap that were freed last */

/* Rights that regions are shared by; the first is asked for most. */
#define RIGHTS_OF_REGIONS 5
extern const int model_rights[RIGHTS_OF_REGIONS];

struct model_memory {
	uint64_t base, size; /* size 0: no memory */
	CUcontext context;
	enum allocation_kind kind;
	bool own; /* nobody else gets its addresses */
	bool rdma_capable, accessible;
	bool exported; /* served by a dma-buf since it may be reached */
	/* The keys that a look-up has handed out last: good until the memory or the protection
	 * domain ends. */
	struct model_found {
		const struct ibv_pd *pd; /* NULL: none */
		int access;
		uint64_t address, length;
		uint32_t lkey, rkey;
	} found;
};

struct model_handle {
	bool known; /* served, and not given back */
	bool alive; /* its memory and its protection domain have not ended */
	struct model_memory *memory;
	const struct ibv_pd *pd;
	uint64_t address, length;
	int access;
	uint32_t lkey, rkey;
};

struct model_pd {
	struct ibv_pd pd;
	struct ibv_pd parent; /* a parent domain: another struct, the same number */
	unsigned int device;
	bool open;
};

/* Why a request is not served, in bits: more than one may be true. */
enum reason {
	REASON_RANGE = 1,
	REASON_FLAGS = 2,
	REASON_ADDRESS = 4,
	REASON_CAPABILITY = 8,
	REASON_DOMAIN = 16,
	REASON_ENDED = 32,
};

/* What the counters must show once all has ended; `perhaps` handles may have been revoked, and may
 * not. */
struct model_totals {
	uint64_t operations, requests, served, bypassed, failed;
	uint64_t range, flags, address, capability, domain,
		ended; /* not served for this reason alone */
	uint64_t allocations, frees, revoked, late, found, not_found, forks, refused_ends, perhaps;
};

struct client {
	unsigned int number;
	struct source source;
	struct model_memory memories[ALLOCATIONS];
	struct model_handle handles[HANDLES];
	char structs[HANDLES + 1]; /* their addresses stand for the provider's */
	struct model_pd *pds[PDS_OF_ONE];
	struct model_pd own_pds[OWN_PDS];
	struct domain *domains[PDS_OF_ONE][RIGHTS_OF_REGIONS];
	struct {
		uint64_t base, size;
	} freed[REMEMBERED];
	unsigned int freed_next;
	unsigned int target; /* so much memory the program would like to have now */
	char contexts[CONTEXTS];
	struct model_totals totals;
};

void model_begin(struct client *client, unsigned int number, struct source source,
		 struct model_pd *shared);

/* The client's own memory that holds the address; NULL: none. */
struct model_memory *model_memory_at(struct client *client, uint64_t address);
struct model_memory *model_unused_memory(struct client *client);
bool model_overlaps(struct client *client, uint64_t base, uint64_t size);

/* Why a request must not be served; 0: it must be. `pd` is NULL if there is none with that number.
 * A dma-buf may be of memory that is not capable of RDMA. */
unsigned int model_refuses(struct client *client, const struct model_pd *pd, uint64_t address,
			   uint64_t length, uint64_t iova, int access, bool dma_buf);

/* Whether a look-up of this range must find keys: a registration of the same memory is in the
 * client's hands. */
bool model_must_find(struct client *client, const struct ibv_pd *pd, int access, uint64_t address,
		     uint64_t length);

/* Memory is about to end, or to lose its registrations. */
void model_memory_ending(struct client *client, struct model_memory *memory);
void model_memory_freed(struct client *client, struct model_memory *memory);

/* Registrations of this protection domain that the client holds and that live. */
unsigned int model_held_in(const struct client *client, const struct ibv_pd *pd);
void model_pd_ended(struct client *client, unsigned int which);

void model_add(struct model_totals *to, const struct model_totals *totals);

#endif
