/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.h -- contract of the memory layer: which GPU memory exists
 *
 * Each allocation has one record, from the driver's success until just before the driver frees the
 * memory. A new allocation ends every record that overlaps its range. The layer does not use verbs.
 *
 * Look-ups are wait-free on any number of threads. Allocations and frees take the table's lock. The
 * layer calls neither memory_hook nor a driver function while holding the lock.
 */
#ifndef PEERPIN_MEMORY_MEMORY_H
#define PEERPIN_MEMORY_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomics.h"
#include "memory/cuda_abi.h"

/* Kinds of GPU memory: enumerator, name in the log, the trace and the statistics. */
#define ALLOCATION_KINDS(KIND)                                                                     \
	KIND(DEVICE, device)                                                                       \
	KIND(PITCHED, pitched)                                                                     \
	KIND(MANAGED, managed)                                                                     \
	KIND(POOL, pool)     /* stream-ordered, from a pool */                                     \
	KIND(MAPPED, mapped) /* VMM memory: one cuMemMap */                                        \
	KIND(SHARED, shared) /* another process's: opened by IPC handle or imported into a pool */ \
	KIND(EXTERNAL, external) /* buffer of external memory (another interface) */

enum allocation_kind {
#define KIND(kind, name) ALLOCATION_##kind,
	ALLOCATION_KINDS(KIND)
#undef KIND
		ALLOCATION_HOST, /* host memory, allocated by the driver */
};

#define ALLOCATIONS_MAX (1u << 22) /* live at once: greater than every slot */
#define DEVICES_MAX	64	   /* GPUs with state of their own: ordinals below it */

/* Copy of a record; a later free does not change it. */
struct allocation {
	uint64_t base;	    /* address of the first byte */
	uint64_t size;	    /* bytes, as requested from the driver */
	uint64_t id;	    /* of the memory: unique in the process, never reused */
	uint64_t event_id;  /* of the program's use: kept memory gets a new one when it is reused */
	uint64_t buffer_id; /* BUFFER_ID of the driver */
	CUcontext context;
	uint64_t keep_key; /* what distinguishes it from others of its kind and size (keep.h) */
	uint32_t slot;	   /* unique while live, reused after free; 1 to the peak of live ones */
	/* One word of the record (TRAIT_* in lookup.h): both processors fill it from the lowest
	 * bit, and a copy need not take it apart. */
	union {
		uint64_t traits;
		struct {
			int device; /* ordinal */
			enum allocation_kind kind : 8;
			bool rdma_capable : 1; /* IS_GPU_DIRECT_RDMA_CAPABLE */
			bool accessible : 1; /* false: VMM memory that its device may not access */
			bool host : 1;	     /* memory type: host; otherwise device */
			bool managed : 1;
			bool described : 1;  /* the driver reported all fields, as expected */
			bool used : 1;	     /* by an adapter */
			bool integrated : 1; /* host memory for an integrated GPU: adapters may
						register it */
			bool hidden : 1;     /* freed by the program, and kept (keep.h) */
			bool gone : 1;	     /* of a record that ends: freed before by the driver */
		};
	};
};

/* True if an adapter may register the memory by address. */
static inline bool memory_is_registrable(const struct allocation *allocation)
{
	return (allocation->rdma_capable || allocation->integrated) && allocation->accessible;
}

/* True if the driver exports the memory as a dma-buf. The driver exports more than it reports as
 * capable (measured: pool memory, and VMM memory created without the flag). */
static inline bool memory_is_exportable(const struct allocation *allocation)
{
	return allocation->accessible &&
	       (allocation->kind == ALLOCATION_DEVICE || allocation->kind == ALLOCATION_PITCHED ||
		allocation->kind == ALLOCATION_POOL || allocation->kind == ALLOCATION_MAPPED);
}

/* The driver carves allocations from blocks (measured), aligned to this many bytes (documented;
 * measured: 512), and exports whole host pages. */
#define BLOCK	  ((uint64_t)2 << 20)
#define ALIGNMENT ((uint64_t)256)
#define PAGE	  ((uint64_t)4096)

/* Bytes from `base` in which no other allocation can be: at least `size`. Clients round ranges, UCX
 * to 16 bytes, NCCL to pages. A range in these bytes needs this allocation alone, and ends with
 * its free. Only device memory larger than a block has its last page to itself: smaller memory
 * shares blocks, also that of 1 to 2 MiB, and pools share theirs (measured). Host memory and
 * buffers of another interface have neighbours that the driver did not place. */
static inline uint64_t memory_extent(const struct allocation *allocation)
{
	uint64_t unit = ALIGNMENT;

	if (allocation->kind == ALLOCATION_HOST || allocation->kind == ALLOCATION_EXTERNAL)
		return allocation->size;
	if ((allocation->kind == ALLOCATION_DEVICE || allocation->kind == ALLOCATION_PITCHED) &&
	    allocation->size > BLOCK)
		unit = PAGE;
	return ((allocation->base + allocation->size + unit - 1) & ~(unit - 1)) - allocation->base;
}

/* The layers above receive events of this memory only. */
static inline bool memory_is_for_adapters(const struct allocation *allocation)
{
	return memory_is_registrable(allocation) || memory_is_exportable(allocation);
}

/* Events of an allocation, on the allocating or freeing thread. Loss of access to VMM memory is
 * FREEING; restored access is a new allocation. */
enum memory_event {
	MEMORY_ALLOCATED, /* after the driver's success */
	MEMORY_FREEING,	  /* before the driver's free, or where a free was missed */
	MEMORY_KEEPING,	  /* the program has freed memory that peerpin keeps (keep.h) */
	MEMORY_REUSED,	  /* the program has been given kept memory */
	MEMORY_RELEASING, /* before the driver's free of kept memory */
};

/* The one call that climbs: the intercept layer defines it, at link time, since constructors of
 * other libraries allocate before this library's. Memory ends in the middle of other calls: a stale
 * record under a new allocation, kept memory that a free releases, a check that fails. The layers
 * above must have stopped using it when the hook returns from FREEING and RELEASING, because the
 * driver's free, or the record of the new allocation, follows. */
extern void (*const memory_hook)(enum memory_event event, const struct allocation *allocation);

/* Frees of this thread that are in progress: clients have hooks in the driver's. */
extern __thread unsigned int memory_frees_here
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* ---- look-up: wait-free, any thread ---- */

/* Find the live allocation that contains `address`. */
bool memory_find(uint64_t address, struct allocation *found);

/* True while the allocation is live: false before memory_hook receives MEMORY_FREEING. Kept memory
 * is live; memory_find() does not find it. */
bool memory_is_live(const struct allocation *allocation);

/* True if the program has not freed the allocation since the event with this event_id. */
bool memory_is_visible(const struct allocation *allocation);

/* Find a live allocation by its first byte and id, also kept memory. Takes the table's lock. */
bool memory_find_live(uint64_t base, uint64_t id, struct allocation *found);

/* Walk over all live allocations: copies up to `count` records after *cursor and advances *cursor,
 * 0 at first. The walk returns each allocation that is live throughout once, kept memory included,
 * and may miss others. Returns the number of copies; 0 ends the walk. */
unsigned int memory_next(uint32_t *cursor, struct allocation *batch, unsigned int count);

/* ---- allocations ---- */

/* Call after the driver's success. Reads the constant attributes of the allocation once. Size 0:
 * read from the driver, because the owner of memory opened by a handle chose its size. Host memory
 * on an integrated GPU is registrable, pinned in pages of 4 KiB (GPUDirect RDMA guide, Tegra). */
void memory_allocated(enum allocation_kind kind, uint64_t base, uint64_t size);

/* RESERVED: [base, base + size) is a driver address range without memory. Stale records in it end
 * as missed frees. */
void memory_reserved(uint64_t base, uint64_t size);

/* ---- access to VMM memory ---- */

/* Call before the driver removes the device's read and write access to VMM memory in [base, base +
 * size). */
void memory_access_ending(uint64_t base, uint64_t size, int device);

/* Call after any change, or refused change, of access to the range. Reads the current access from
 * the driver. */
void memory_access_settled(uint64_t base, uint64_t size);

/* ---- frees ---- */

/* Kinds of free call. The driver refuses a free of memory that belongs to another kind (measured);
 * a refused free must not cost registrations. */
enum memory_free {
	FREE_DEVICE, /* cuMemFree and variants */
	FREE_SHARED, /* cuIpcCloseMemHandle */
	FREE_HOST,
};

/* Call before the driver frees `base`. If the memory is tracked and the kind of call frees it, ends
 * the record, fills *ended and returns true. */
bool memory_freeing(enum memory_free call, uint64_t base, struct allocation *ended);

/* Call after an unexpected success of the driver's free. Ends the record, unless it has ended
 * since. */
void memory_freed(const struct allocation *allocation);

/* Call after the driver refused to free *ended. Records the memory again if the driver still
 * reports it. */
void memory_free_refused(const struct allocation *ended);

/* Records ended before one call to the driver, kept until its result. */
struct pending_frees;

/* Call before [base, base + size) is unmapped. Returns NULL if no allocation is there or the driver
 * will refuse. The driver unmaps whole mappings only (measured); a refused unmap must not cost
 * registrations. */
struct pending_frees *memory_range_freeing(uint64_t base, uint64_t size);

/* Call when [base, base + size) should be empty. Ends the records there, except those that the
 * driver still reports. The driver reuses freed addresses at once, so a reported one is another
 * thread's allocation. */
void memory_range_gone(uint64_t base, uint64_t size);

/* Call before `context` is destroyed. Ends its allocations. Returns NULL if there are none. */
struct pending_frees *memory_context_freeing(CUcontext context);

/* Call before a release of `context` that seems to be the last one. Ends its allocations as
 * memory_context_freeing() does, except kept memory and memory that is_in_use(): its users would
 * lose it if the context went on. Stops once *retains has changed: another thread has retained the
 * context, and may have allocated memory in it. */
struct pending_frees *
memory_context_releasing(CUcontext context, bool (*is_in_use)(const struct allocation *allocation),
			 const _Atomic unsigned int *retains, unsigned int unchanged);

/* Call with the driver's result. After a refusal, memory that the driver still reports gets new
 * records and registrations. */
void memory_frees_settled(struct pending_frees *frees, bool refused);

/* Call after a context may have ended (a detach, a release of the primary context). Ends the
 * records of memory that the driver no longer reports. */
void memory_end_unreported(void);

/* Call after a release of `context` that may have been the last. Ends the records of its memory
 * that the driver no longer reports. Emits no event of another context's allocation, so that code
 * that registers one allocation may call. */
void memory_context_released(CUcontext context);

/* Call after the driver trimmed its pools. Finds missed frees of pool memory. */
void memory_check_pools(void);

/* ---- checks ---- */

/* Compare the driver's BUFFER_ID with the record (the tag check). A difference ends the record as a
 * missed free. */
bool memory_check(const struct allocation *allocation);

/* Log once that GPU memory is not `what` because records, here or in the layers above, could not
 * grow. Nothing without such a failure since the last call. The caller holds no lock. */
void memory_report_refused(const char *what);

/* Start verify mode, because of bypassing callers: memory_check() precedes every use.
 * PEERPIN_VERIFY starts verify mode at the first allocation. */
void memory_verify_always(void);

extern _Atomic bool memory_verify_mode; /* written by the memory layer only */

static inline bool memory_is_verified(void)
{
	return load_relaxed(&memory_verify_mode);
}

/* In a child that starts anew: its parent recorded no allocation, but another thread of it may have
 * held a lock of this layer. */
void memory_renew(void);

/* ---- exports ---- */

/* Id of the youngest allocation. Read before the driver exports a dma-buf. */
uint64_t memory_youngest(void);

/* Likewise. A thread that adds a younger one sees what this thread has stored before the call. */
uint64_t memory_youngest_added(void);

/* A dma-buf of the program. */
struct found_export {
	uint64_t address, size;
	uint64_t youngest; /* only live allocations up to this id are surely in the dma-buf */
	bool pcie;	   /* mapped over PCIe, on a host with NVLink-C2C: another path */
};

/* Record a client's dma-buf, open as `fd`, while it holds a live allocation, or until
 * MEMORY_EXPORTS_MAX newer ones of live memory follow. A duplicate of the descriptor refers to the
 * recorded dma-buf. */
#define MEMORY_EXPORTS_MAX (1u << 17)
void memory_exported(int fd, const struct found_export *made);

/* Likewise, for one more descriptor of a dma-buf that the library knows. */
void memory_exported_again(uint64_t device, uint64_t inode, const struct found_export *made);

/* Find the source of the dma-buf `fd`; false: unknown. */
bool memory_find_export(int fd, struct found_export *found);

/* ---- use ---- */

/* Call before a client lets an adapter access the allocation. Sets
 * CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, the first time only, and not at allocation, because the
 * attribute slows the program's own copies. */
void memory_used_by_adapter(const struct allocation *allocation);

/* ---- captures of streams in progress (captures.c) ----
 *
 * During a capture the driver refuses some calls, and ends the capture: frees, SYNC_MEMOPS and
 * waits for a whole context (measured). The first two only in the thread that captures and in
 * threads of its mode. Any thread; no lock.
 */

/* Call before the program begins to capture a stream, and with its return value and the driver's
 * result, which it returns; and after the end of a capture. The first call waits for other threads
 * between captures_hold_off() and captures_admit(). */
bool captures_begin(void);
CUresult captures_begun(bool counted, CUresult result);
void captures_ended(void);

/* True if a stream may be captured now: rather too often, but false for captures begun by an
 * unknown call. */
bool captures_may_be_open(void);

/* True: no capture is open, and none begins before captures_admit(), unless by an unknown call.
 * False: do not call captures_admit(). In between: one call into the driver, which may end
 * captures, and does not wait for the GPU. A wait could be for work that the capturing thread has
 * yet to allow. */
bool captures_hold_off(void);
void captures_admit(void);

/* The driver has reported a capture that is not counted: captures count as open from now on, and
 * nothing more is kept. */
void captures_are_unknown(void);

#endif
