/* SPDX-License-Identifier: BSD-3-Clause */
/* keep.h -- kept memory (PEERPIN_KEEP): part of the memory layer's contract
 *
 * A caching allocator in the driver's place. A free of memory that cuMemAlloc, cuMemAllocHost or
 * cuMemHostAlloc returned waits for the context, as the driver's free does (measured), and leaves
 * the memory with the driver. The next allocation of that bin in that context gets it, without a
 * call that allocates. Regions and client MRs stay: the physical memory does not change.
 *
 * Reused memory has the length of its whole block, as the driver has it. A client that receives no
 * free of kept memory (UCX) keeps base and length of the first use: exports, queries, CUDA IPC and
 * copies agree with them.
 *
 * To the program it is freed memory. Its record is hidden: the look-up of queries and requests
 * finds no allocation. Calls with a hidden address are forwarded with KEEP_ABSENT instead. The
 * driver answers there as at freed memory (measured), in its own order of checks. Events: KEEPING,
 * then REUSED with a new event_id, or RELEASING before the driver frees the memory in the end.
 *
 * An allocation, or another call that needs memory, waits for the GPU in one case alone: the driver
 * refused it for want of memory. A client's registration without room on the adapter waits for 1 s
 * for each GPU at most. All other releases are part of frees, which wait anyway.
 *
 * Whatever is in doubt is forwarded: the driver frees and allocates during a capture, with a
 * context that is not usable, and for memory that does not fit within the limit. After a bypassing
 * caller was found, and under compute-sanitizer, nothing is kept.
 *
 * Any thread. No lock is held across a call to the driver or to memory_hook.
 */
#ifndef PEERPIN_MEMORY_KEEP_H
#define PEERPIN_MEMORY_KEEP_H

#include <stdbool.h>

#include "base/atomics.h"
#include "memory/memory.h"

/* An address without memory: processes map nothing in the first 64 KiB (vm.mmap_min_addr). */
#define KEEP_ABSENT 0x1000

/* KEEP_ENDED: nothing more is kept; kept memory stays hidden until its release. */
enum keep_mode { KEEP_OFF, KEEP_UNDECIDED, KEEP_ON, KEEP_ENDED };
extern _Atomic int keep_mode;

/* The settings decide at the first call. False in a forked child and during exit, too. */
bool keep_has_begun(void);

/* True if memory may be kept, or is kept. */
static inline bool keep_is_on(void)
{
	return __builtin_expect(load_relaxed(&keep_mode) != KEEP_OFF, 0) && keep_has_begun();
}

/* Keep nothing more. Each free releases what its context keeps. */
void keep_end(void);

/* The functions that free kept memory in the end: the next definitions, found at each call, since
 * libraries may leave the process. Of the intercept layer. */
struct keep_targets {
	CUresult (*free_device)(CUdeviceptr address);
	CUresult (*free_host)(void *address);
};
extern const struct keep_targets keep_targets;

/* An allocation above 1 MiB begins blocks of its own, which count as used (measured). */
#define KEPT_SMALL ((uint64_t)1 << 20)

/* The size of the largest memory in the bin of device memory of that size. */
static inline uint64_t keep_bin_size(uint64_t size)
{
	uint64_t unit = size > KEPT_SMALL ? BLOCK
			: size < 4096	  ? 512
					  : (uint64_t)1 << (60 - __builtin_clzll(size));

	return (size + unit - 1) & ~(unit - 1);
}

/* What the program asked for. */
struct keep_request {
	enum allocation_kind kind; /* DEVICE or HOST */
	uint64_t flags;		   /* of host memory */
	uint64_t size;		   /* bytes */
};

/* Stands for the flags of cuMemAllocHost, which the driver chooses: beyond any of cuMemHostAlloc.
 */
#define KEEP_ALLOC_HOST ((uint64_t)1 << 32)

/* True: *address is kept memory for the request, and the program's now. */
bool keep_allocate(const struct keep_request *request, CUdeviceptr *address);

/* Call after the driver has allocated host memory, whose record does not have the flags. */
void keep_allocated_host(const struct keep_request *request, uint64_t base);

/* True: the program's free of `address` is done, with CUDA_SUCCESS. False: forward the call, with
 * the address from keep_visible(). */
bool keep_free(enum memory_free call, uint64_t address);

/* The address to forward instead of `address`. */
uint64_t keep_visible_slowly(uint64_t address);

static inline uint64_t keep_visible(uint64_t address)
{
	return keep_is_on() ? keep_visible_slowly(address) : address;
}

static inline void *keep_visible_pointer(void *address)
{
	return (void *)(uintptr_t)keep_visible((uintptr_t)address);
}

/* For an export of [address, address + size): the driver exports pages of which the program has any
 * byte (measured), and UCX exports whole pages. */
uint64_t keep_exported_slowly(uint64_t address, uint64_t size);

static inline uint64_t keep_exported(uint64_t address, uint64_t size)
{
	return keep_is_on() ? keep_exported_slowly(address, size) : address;
}

/* Kept bytes that the driver would report as free memory of the current context's device. The pool
 * returns its unused memory before the driver reports. */
uint64_t keep_free_bytes(void);
void keep_return_pool(void);

/* Wait as a free of the memory at `address` does, by an event, where that is memory of the calling
 * thread's current context: a free of other memory does not wait for that context. False: it is
 * other memory, a stream may be captured, or the driver has no events of contexts. */
bool keep_await_free(uint64_t address);

/* ---- want of memory ---- */

#define KEEP_CURRENT (-1) /* the current context's device */
#define KEEP_HOST    (-2) /* host memory */
#define KEEP_DEVICES (-3) /* all devices */
#define KEEP_POOL    (-4) /* the current device, then all: the driver does not report a pool's */

/* For a client's registration without room: the GPU's work may wait for this thread. Release the
 * kept memory of each device, and of the host, whose context has no work, or none after 1 s. False:
 * nothing was. */
bool keep_release_idle(void);

/* Number of releases that have ended, by all threads. */
extern _Atomic uint64_t keep_releases_ended;

/* A call that the driver may refuse for want of memory; all 0 at first. */
struct keep_refusal {
	uint64_t ended; /* keep_releases_ended before the call */
	int device;	/* ordinal, or as given */
	unsigned int tries;
	uint64_t end; /* of the time in which other ranks release; 0: they were not asked */
	int held;     /* cancellation */
};

/* Call after each refusal of a call that needs `bytes` there; 0: unknown. True: repeat the call. At
 * first all that is kept there is released, unless more is needed than could come back; then the
 * job's other ranks on that GPU are asked, for 100 ms. Until keep_settled() nothing is kept. */
bool keep_retry(struct keep_refusal *refusal, int device, uint64_t bytes);
void keep_end_refusal(const struct keep_refusal *refusal);

static inline void keep_settled(const struct keep_refusal *refusal)
{
	if (__builtin_expect(refusal->tries != 0, 0))
		keep_end_refusal(refusal);
}

/* ---- pools (keep_pools.c) ---- */

/* Call after an allocation from a pool of the device. */
void keep_pool_allocated(int device);

/* Call with an attribute that the driver has stored: turns it into that of a pool which has the
 * driver's threshold and holds nothing. */
void keep_pool_read(CUmemoryPool pool, CUmemPool_attribute attribute, uint64_t *value);

/* ---- ends of contexts ---- */

/* Release all kept memory of a context that is about to end, and wait until other threads have
 * released theirs of it. */
void keep_release_context(CUcontext context);

/* Call after contexts may have ended: forget kept memory that ended with them. */
void keep_forget_ended(void);

#endif
