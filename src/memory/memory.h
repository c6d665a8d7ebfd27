/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.h -- which GPU memory exists: the contract of the memory layer
 *
 * One record for each allocation, from the driver's success at its allocation until just before the driver frees
 * it. A record never outlives what it describes: whatever is allocated at an address ends every record that
 * overlaps it. The layer knows nothing of verbs; who wants to hear of allocations and frees is a subscriber.
 *
 * Look-ups are wait-free on any number of threads. Allocations and frees take the table's lock; no subscriber
 * and no driver function is called with it held.
 */
#ifndef PEERPIN_MEMORY_MEMORY_H
#define PEERPIN_MEMORY_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "memory/cuda_abi.h"

enum allocation_kind {
	ALLOCATION_DEVICE,
	ALLOCATION_PITCHED,
	ALLOCATION_MANAGED,
	ALLOCATION_POOL,     /* from a pool, in the order of a stream */
	ALLOCATION_MAPPED,   /* one cuMemMap */
	ALLOCATION_SHARED,   /* another process's, opened by an IPC handle or imported into a pool */
	ALLOCATION_EXTERNAL, /* a buffer of another interface's memory */
	ALLOCATION_HOST,     /* the host's, allocated or registered with the driver */
};

/* What is known of an allocation, as a copy: it stays what it is when the allocation ends. */
struct allocation {
	uint64_t base;	    /* address of its first byte */
	uint64_t size;	    /* bytes, as requested */
	uint64_t id;	    /* of this process; never used again */
	uint64_t buffer_id; /* the driver's BUFFER_ID */
	CUcontext context;
	CUmemoryPool pool;
	uint64_t range_base; /* what the driver calls its range: of mapped memory the reservation */
	uint64_t range_size;
	int device; /* ordinal */
	uint32_t
		slot; /* no two living ones have the same; below the highest number that ever lived at once */
	enum allocation_kind kind;
	unsigned int memory_type; /* CU_MEMORYTYPE_ */
	bool rdma_capable;	  /* IS_GPU_DIRECT_RDMA_CAPABLE */
	bool accessible;	  /* false: mapped, but its device may not read and write it */
	bool managed, ipc_capable, mapped;
	bool integrated;       /* the host's, allocated for a GPU that shares it: what adapters get there */
	bool described;	       /* the driver has told all of the above */
	bool sync, sync_known; /* what it says of SYNC_MEMOPS, unless somebody has set it unseen */
};

/* Whether an adapter may be given the memory by its address. */
static inline bool memory_is_registrable(const struct allocation *allocation)
{
	return (allocation->rdma_capable || allocation->integrated) && allocation->accessible;
}

/* Whether it may be given a dma-buf of the memory. The driver exports more than it calls capable (measured: pool memory, and
 * mapped memory that was created without the flag). */
static inline bool memory_is_exportable(const struct allocation *allocation)
{
	return allocation->accessible &&
	       (allocation->kind == ALLOCATION_DEVICE || allocation->kind == ALLOCATION_PITCHED ||
		allocation->kind == ALLOCATION_POOL || allocation->kind == ALLOCATION_MAPPED);
}

/* Subscribers hear of nothing else. */
static inline bool memory_is_for_adapters(const struct allocation *allocation)
{
	return memory_is_registrable(allocation) || memory_is_exportable(allocation);
}

/* Told bottom up at allocation, top down at free, of what is accessible: memory whose access is taken away dies
 * for them, and is allocated again, as another allocation, when it is given back. `freeing` returns only when nothing of the subscriber's still
 * uses the memory; the driver frees it next. Called on the thread that allocates or frees. */
struct memory_subscriber {
	void (*expect)(uint32_t slot,
		       uint64_t size); /* an allocation, probably there: fetches what it needs; or NULL */
	void (*allocated)(const struct allocation *allocation);
	void (*freeing)(const struct allocation *allocation);
};

/* The list, ended by NULL: fixed at link time by the layer that puts the parts together. */
extern const struct memory_subscriber *const memory_subscribers[];

/* ---- look-up: wait-free, any thread ---- */

/* The living allocation that contains `address`. */
bool memory_find(uint64_t address, struct allocation *found);

/* Whether the allocation still lives. A free is visible here before any subscriber hears of it. */
bool memory_is_alive(const struct allocation *allocation);

/* A walk over all that live: copies up to `count` of those behind *cursor, which is 0 at first, and moves it. What lives
 * throughout the walk is seen once; what begins or ends meanwhile perhaps. Returns how many; 0 is the end. */
unsigned int memory_next(uint32_t *cursor, struct allocation *batch, unsigned int count);

/* ---- allocations ---- */

/* Before the driver is asked for memory: fetches what the allocation will need (base/near.h), and does nothing else. */
void memory_expect(uint64_t size);

/* After the driver's success. Reads what cannot change about the allocation, once. A size of 0 is read, too:
 * what is opened by a handle is as large as its owner made it. */
void memory_allocated(enum allocation_kind kind, uint64_t base, uint64_t size);

/* The driver has allocated memory of the host, not only registered it: where its GPU is part of the processor it is what
 * adapters may have, pinned by pages of 4 KiB (GPUDirect RDMA guide, on Tegra). */
void memory_host_allocated(uint64_t base, uint64_t size);

/* The driver has given [base, base + size) to something that is no memory yet: whatever is recorded there has been
 * freed unseen. Memory comes there by a call that is seen (a reservation), or by one that is not (memory_graph_taken: a
 * graph's allocation, with each launch). */
void memory_range_taken(uint64_t base, uint64_t size);
void memory_graph_taken(uint64_t base, uint64_t size);

/* Something else of CUDA's may be there now, at an address that the program knows, or anywhere: no allocation, and never
 * recorded. */
void memory_unrecorded(uint64_t base, uint64_t size);
void memory_unrecorded_anywhere(void);

/* ---- access to mapped memory ---- */

/* The device's right to read and write what is mapped in [base, base + size) is about to be taken away. */
void memory_access_ending(uint64_t base, uint64_t size, int device);

/* After any change of access to the range, or the refusal of one: the driver is asked what holds now. */
void memory_access_settled(uint64_t base, uint64_t size);

/* ---- frees ---- */

/* Which call frees: each refuses what another one has to free (measured), and what is refused must not cost
 * registrations. */
enum memory_free {
	FREE_DEVICE, /* cuMemFree and its kin */
	FREE_SHARED, /* cuIpcCloseMemHandle */
	FREE_HOST,
};

/* The free of `base` is about to go to the driver. Fills *ended and returns true if it is tracked, and the call is one
 * that frees it. */
bool memory_freeing(enum memory_free way, uint64_t base, struct allocation *ended);

/* The driver has freed the allocation, although it was not expected to: it ends now, if it has not ended since. */
void memory_freed(const struct allocation *allocation);

/* The driver refused the free of *ended: it lives on if the driver still says so. */
void memory_free_refused(const struct allocation *ended);

/* What one call is about to end. Between the two calls the driver does its part. */
struct pending_frees;

/* [base, base + size) is about to be unmapped. NULL: nothing of ours is there, or the driver is going to refuse, since
 * it unmaps no part of a mapping (measured), and nothing else: then what is there must not lose its registrations. */
struct pending_frees *memory_range_freeing(uint64_t base, uint64_t size);

/* Nothing should be in [base, base + size) any more: what is still recorded there ends, unless the driver knows it. That
 * it does is another thread's allocation: addresses that were given back are given out at once. */
void memory_range_gone(uint64_t base, uint64_t size);

/* `context` is about to be destroyed: its allocations die. NULL: it has none. */
struct pending_frees *memory_context_freeing(CUcontext context);

/* What came of it. Where the driver refused, what it still knows lives on, in new registrations. */
void memory_frees_settled(struct pending_frees *frees, bool refused);

/* A context may have ended just now (a detach, a release of the primary context): ends what the driver no
 * longer knows. `device` is an ordinal, -1 for all. */
void memory_ask_driver(int device);

/* The same for what was allocated in `context`: perhaps the release of it just now was the last one. No subscriber is told
 * of any other allocation, so this may be called on behalf of one. */
void memory_context_released(CUcontext context);

/* The driver has cleaned up its pools: a chance to find out what was freed unseen. */
void memory_check_pools(void);

/* ---- checks ---- */

/* Whether the driver has at `allocation` what was recorded there (BUFFER_ID, the tag check). If not, the
 * record is ended, as freed unseen. */
bool memory_check(const struct allocation *allocation);

/* From now on there are callers whose frees are not seen: memory_check() before every use. With PEERPIN_VERIFY so it is
 * from the first allocation on. */
void memory_verify_always(void);

extern _Atomic bool memory_verify_mode; /* written by memory only */

static inline bool memory_is_verified(void)
{
	return atomic_load_explicit(&memory_verify_mode, memory_order_relaxed);
}

/* ---- exports ---- */

/* The id of the youngest allocation so far: to be asked before the driver is asked for a dma-buf. */
uint64_t memory_youngest(void);

/* A client holds a dma-buf of [address, address + size): `fd` is its descriptor now. Known until 1024 newer
 * ones have been made; a copy of the descriptor is the same dma-buf. */
void memory_exported(int fd, uint64_t address, uint64_t size, uint64_t youngest);

/* What the dma-buf `fd` was exported from; false if it is not known. */
struct found_export {
	uint64_t address, size;
	uint64_t youngest; /* what lives there and is not younger is in the dma-buf; no other surely is */
};
bool memory_find_export(int fd, struct found_export *found);

/* ---- notes ---- */

/* Words of the layer above beside each record, in the same cache line: 0 at allocation. What is stored is stored only while the
 * allocation lives, so that a reader who has found it (lookup.h) reads the notes of this one and no other. */
#define MEMORY_NOTES 2
void memory_note(const struct allocation *allocation, unsigned int which, uint64_t value);

/* ---- use ---- */

/* A client is about to let an adapter access the allocation: sets CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, the
 * first time only (not at allocation: it slows down the program's own copies). */
void memory_used_by_adapter(const struct allocation *allocation);

/* The client's own call that sets SYNC_MEMOPS at `address` is about to go to the driver, and has come back. Between the
 * two nobody knows what the attribute says. */
struct memory_sync {
	struct allocation allocation;
	uint32_t token;
	bool tracked;
};
void memory_setting_sync(struct memory_sync *sync, uint64_t address);
void memory_sync_settled(const struct memory_sync *sync, bool taken, bool value);

#endif
