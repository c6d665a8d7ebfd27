/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.h -- which GPU memory exists: the contract of the memory layer
 *
 * One record for each allocation, from the driver's success at its birth until just before the driver frees
 * it. A record never outlives what it describes: whatever is born at an address ends every record that
 * overlaps it. The layer knows nothing of verbs; who wants to hear of births and deaths is a subscriber.
 *
 * Look-ups are wait-free on any number of threads. Births and deaths take the table's lock; no subscriber
 * and no driver function is called with it held.
 */
#ifndef PEERPIN_MEMORY_MEMORY_H
#define PEERPIN_MEMORY_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/cuda_abi.h"

enum allocation_kind { ALLOCATION_DEVICE, ALLOCATION_PITCHED };

/* What is known of an allocation, as a copy: it stays what it is when the allocation ends. */
struct allocation {
	uint64_t base;	    /* address of its first byte */
	uint64_t size;	    /* bytes, as requested */
	uint64_t id;	    /* of this process; never used again */
	uint64_t buffer_id; /* the driver's BUFFER_ID */
	CUcontext context;
	int device; /* ordinal */
	enum allocation_kind kind;
	bool rdma_capable; /* IS_GPU_DIRECT_RDMA_CAPABLE */
};

/* Told bottom up at birth, top down at death. `dying` returns only when nothing of the subscriber's still
 * uses the memory; the driver frees it next. Called on the thread that allocates or frees. */
struct memory_subscriber {
	void (*born)(const struct allocation *allocation);
	void (*dying)(const struct allocation *allocation);
};

/* The list, ended by NULL: fixed at link time by the layer that puts the parts together. */
extern const struct memory_subscriber *const memory_subscribers[];

/* ---- look-up: wait-free, any thread ---- */

/* The living allocation that contains `address`. */
bool memory_find(uint64_t address, struct allocation *found);

/* Whether the allocation with this base and id still lives. A death is visible here before any subscriber
 * hears of it. */
bool memory_is_alive(uint64_t base, uint64_t id);

/* Calls visit for each living allocation, with the table's lock held: visit must neither call the driver
 * nor allocate, nor call this layer. */
void memory_visit(void (*visit)(const struct allocation *allocation, void *argument), void *argument);

/* ---- births ---- */

/* After the driver's success. Reads what cannot change about the allocation, once. */
void memory_born(enum allocation_kind kind, uint64_t base, uint64_t size);

/* ---- deaths ---- */

/* The free of `base` is about to go to the driver. Fills *ended and returns true if it is tracked. */
bool memory_dying(uint64_t base, struct allocation *ended);

/* The driver refused the free of *ended: it lives on if the driver still says so. */
void memory_survived(const struct allocation *ended);

/* `context` is about to be destroyed: its allocations die. Should the driver refuse, they stay unknown here,
 * and whatever is asked about them is passed through. */
void memory_context_dying(CUcontext context);

/* A context may have ended just now (a detach, a release of the primary context): ends what the driver no
 * longer knows. `device` is an ordinal, -1 for all. */
void memory_ask_driver(int device);

/* ---- use ---- */

/* A client is about to let an adapter access the allocation: sets CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, the
 * first time only (not at birth: it slows down the program's own copies). */
void memory_used_by_adapter(const struct allocation *allocation);

#endif
