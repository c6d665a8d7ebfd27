/* SPDX-License-Identifier: BSD-3-Clause */
/* keep.h -- kept memory (PEERPIN_KEEP): part of the memory layer's contract
 *
 * A free of memory that cuMemAlloc, cuMemAllocPitch, cuMemAllocHost or cuMemHostAlloc returned
 * waits for the context, as the driver's free does (measured), and leaves the memory with the
 * driver. The next equal allocation in that context gets it, without a call that allocates. Regions
 * and client MRs stay: the physical memory does not change.
 *
 * An allocation also gets larger memory of its class of sizes (kept_class_of()), small memory also
 * of some more (kept_most_of()). Such memory has the length of its whole block, as the driver has
 * it: UCX sees no free of kept memory, and keeps base and length of the first use. Exports,
 * queries, CUDA IPC and copies agree.
 *
 * To the program it is freed memory. Its record is hidden: the look-up of queries and requests
 * finds no allocation. Calls with a hidden address are forwarded with KEEP_ABSENT instead. The
 * driver answers there as at freed memory (measured), in its own order of checks. Subscribers of
 * the program's events receive a free, and an allocation with a new event_id. All others receive
 * `freeing` before the driver frees the memory in the end.
 *
 * Whatever is in doubt is forwarded: the driver frees and allocates during a capture, with a
 * context that is not usable, and for memory that does not fit within the limit. After a bypassing
 * caller was found, and under compute-sanitizer, nothing is kept.
 *
 * Any thread. No lock is held across a call to the driver or to a subscriber.
 */
#ifndef PEERPIN_MEMORY_KEEP_H
#define PEERPIN_MEMORY_KEEP_H

#include <stdbool.h>

#include "base/atomics.h"
#include "memory/memory.h"

/* An address without memory: processes map nothing in the first 64 KiB (vm.mmap_min_addr). */
#define KEEP_ABSENT 0x1000

/* KEEP_WATCHING: nothing is kept, and what could have been is measured (keep_watch.h). KEEP_ENDED:
 * nothing more is kept; kept memory stays hidden until its release. */
enum keep_mode { KEEP_OFF, KEEP_WATCHING, KEEP_UNDECIDED, KEEP_ON, KEEP_ENDED };
extern _Atomic int keep_mode;

/* The settings decide at the first call. False in a forked child and during exit, too. */
bool keep_has_begun(void);

/* True if a call that allocates or frees has to call a function of this file. */
static inline bool keep_is_concerned(void)
{
	return __builtin_expect(load_relaxed(&keep_mode) != KEEP_OFF, 0) && keep_has_begun();
}

/* True if memory may be kept now. */
static inline bool keep_is_on(void)
{
	return __builtin_expect(load_relaxed(&keep_mode) >= KEEP_UNDECIDED, 0) &&
	       keep_has_begun() && load_relaxed(&keep_mode) >= KEEP_ON;
}

/* Keep nothing more. */
void keep_end(void);

/* What the program asked for: allocations with equal requests are interchangeable, and larger
 * device memory serves as well. */
struct keep_request {
	enum allocation_kind kind; /* DEVICE, PITCHED or HOST */
	uint64_t detail;	   /* PITCHED: bytes of an element; HOST: flags */
	uint64_t width, height;	   /* DEVICE, HOST: bytes, and 0 */
};

/* By cuMemAllocHost, whose flags are the driver's: beyond any flags of cuMemHostAlloc. */
#define KEEP_ALLOC_HOST ((uint64_t)1 << 32)

/* True: *address is kept memory for the request, and the program's now. *pitch (NULL: not PITCHED):
 * its pitch. */
bool keep_allocate(const struct keep_request *request, CUdeviceptr *address, size_t *pitch);

/* Call after the driver has allocated host memory or pitched memory, which the record alone does
 * not describe. */
void keep_allocated(const struct keep_request *request, uint64_t base, uint64_t pitch);

/* The function that frees kept memory in the end: the target of the program's own call. */
union keep_target {
	CUresult (*device)(CUdeviceptr address);
	CUresult (*host)(void *address);
};

/* True: the program's free of `address` is done, with CUDA_SUCCESS. False: forward the call, with
 * the address from keep_visible(). */
bool keep_free(enum memory_free call, uint64_t address, union keep_target target);

/* The address to forward instead of `address`. */
uint64_t keep_visible_slowly(uint64_t address);

static inline uint64_t keep_visible(uint64_t address)
{
	return keep_is_on() ? keep_visible_slowly(address) : address;
}

/* For an export of [address, address + size): the driver exports pages of which the program has any
 * byte (measured), and UCX exports whole pages. */
uint64_t keep_exported_slowly(uint64_t address, uint64_t size);

static inline uint64_t keep_exported(uint64_t address, uint64_t size)
{
	return keep_is_on() ? keep_exported_slowly(address, size) : address;
}

static inline void *keep_visible_pointer(void *address)
{
	return (void *)(uintptr_t)keep_visible((uintptr_t)address);
}

/* Kept bytes that the driver would report as free memory of the current context's device. Pools
 * return theirs before the driver reports: keep_return_pools(). */
uint64_t keep_free_bytes(void);
void keep_return_pools(void);

/* An allocation of `bytes` on the device failed for want of memory, or a registration for want of
 * room (client MRs of kept memory take room): release at least so many there, the largest first.
 * False: nothing was kept there. keep_release_for(): also what pools hold, and with
 * PEERPIN_KEEP=auto what the job's other ranks keep; `tries`: of the allocation so far. */
#define KEEP_CURRENT (-1) /* the current context's device */
#define KEEP_HOST    (-2) /* host memory */
#define KEEP_ANY     (-3) /* all devices, and the host */
#define KEEP_POOL    (-4) /* the current device, then all: the driver does not report a pool's */
bool keep_release(int device, uint64_t bytes);
bool keep_release_for(int device, uint64_t bytes, unsigned int tries);

/* Nothing is kept: wait for memory that other threads are releasing. `ended`:
 * keep_releases_ended before the allocation. True: memory has been released since. */
bool keep_await_release(uint64_t ended);
extern _Atomic uint64_t keep_releases_ended; /* number of releases, by all threads */

/* A pool's release threshold is peerpin's until the program sets it (keep_pools.c). Call with an
 * attribute that the driver has stored: turns it into that of a pool which holds nothing. */
void keep_pool_read(CUmemoryPool pool, CUmemPool_attribute attribute, uint64_t *value);

/* Call before the program sets the threshold, or destroys the pool, with true for
 * keep_pool_give_back() if the driver refuses; keep_pool_forget(): destroyed. */
bool keep_pool_take(CUmemoryPool pool);
void keep_pool_give_back(CUmemoryPool pool);
void keep_pool_forget(CUmemoryPool pool);

/* Release all kept memory of a context that is about to end, and wait until other threads have
 * released theirs of it. NULL: of all contexts, with a wait for one such release at most. */
void keep_release_context(CUcontext context);

/* Call after contexts may have ended: forget kept memory that ended with them. */
void keep_forget_ended(void);

#endif
