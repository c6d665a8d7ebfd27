/* SPDX-License-Identifier: BSD-3-Clause */
/* peerpin.h -- what a program or a library may ask peerpin
 *
 * No program needs this: peerpin works on unmodified ones. A registration cache that knows it can ask for keys at each
 * use instead of keeping registrations of its own, and can hear of allocations and frees of GPU memory instead of comparing
 * the driver's tags. docs/examples/cache.c does both, peerpin(3) is the manual.
 *
 * A library looks these functions up with dlsym(RTLD_DEFAULT, ...): where peerpin is not preloaded they are absent, and it
 * does without. A program may link with -lpeerpin (pkg-config peerpin).
 *
 * Addresses and sizes are in bytes. Each function may be called on any thread, and sets no errno: errors are returned,
 * negative. Structs that may grow begin with their size, as whoever fills them knows it; what lies beyond that is not
 * there.
 */
#ifndef PEERPIN_H
#define PEERPIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_pd; /* of <infiniband/verbs.h> */

/* The version, "major.minor.patch"; static, never NULL. */
const char *peerpin_version(void);

/* The counter `name` (a key of the statistics' JSON) of this process, at this moment, through *value.
 * Returns 0, -ENOENT for a name that is none, -EINVAL for a null pointer. Takes no lock. */
int peerpin_statistic(const char *name, uint64_t *value);

/* ---- keys ---- */

/* The rights `access` (IBV_ACCESS_ flags) in a protection domain. Owned by peerpin. */
struct peerpin_domain;

struct peerpin_keys {
	uint32_t lkey, rkey;
};

/*
 * Activates the rights `access` in `pd`, so that GPU memory is registered there ahead of its use, and stores what look-ups
 * in it need in *domain: the same for the same question. It is valid until ibv_dealloc_pd(pd) is called, and
 * afterwards if that fails; it is not given back. May start peerpin's thread. To be called once, not at each use.
 *
 * Returns 0, or, with *domain NULL:
 *   -EINVAL      a null pointer
 *   -ENOENT      the protection domain is unknown (made past peerpin), is being deallocated, or cannot have registrations
 *                with these rights that are shared (IBV_ACCESS_ON_DEMAND, IBV_ACCESS_MW_BIND, ...)
 *   -EOPNOTSUPP  peerpin passes everything through: PEERPIN_DISABLE, or a forked child
 */
int peerpin_domain(struct ibv_pd *pd, int access, struct peerpin_domain **domain);

/*
 * The keys of [address, address + length) in `domain`, for one use: if the range lies in one allocation that lives and is
 * registered there. `access` is what the domain was asked for. Wait-free: takes no lock, allocates nothing and does not
 * enter the driver, unless PEERPIN_VERIFY is set or peerpin has found that memory is freed past it.
 *
 * Keys of an allocation that has begun to end are never handed out: from before the first subscriber hears of its free,
 * nothing is found at its addresses until other memory is there, and that has other keys. Keys that were handed out
 * before are good until the memory is freed or ibv_dealloc_pd is called for the protection domain. That call ends them
 * also where it fails (EBUSY, since something else is left in it): peerpin's registrations have to go before the kernel
 * is asked. The memory is then registered once more, and look-ups find it by other keys. To keep keys beyond the use that
 * they were asked for, to use them after that or outside of the range, and to free the memory or to deallocate the
 * protection domain while a transfer uses them, are the caller's own errors, as they are with the keys of ibv_reg_mr.
 *
 * Nothing is to be given back. No attribute of the memory is set: whoever sets CU_POINTER_ATTRIBUTE_SYNC_MEMOPS where
 * peerpin is absent sets it here, too.
 *
 * Returns 0, or -ENOENT, which is no failure: the memory is not registered yet, or is not peerpin's to register; or
 * domain is NULL. The caller then calls ibv_reg_mr as ever, which peerpin answers. In a forked child always -ENOENT.
 */
int peerpin_lookup(const struct peerpin_domain *domain, uint64_t address, uint64_t length, int access,
		   struct peerpin_keys *keys);

/* ---- allocations and frees ---- */

/* There may be more. */
enum peerpin_kind {
	PEERPIN_DEVICE,	  /* cuMemAlloc */
	PEERPIN_PITCHED,  /* cuMemAllocPitch */
	PEERPIN_MANAGED,  /* cuMemAllocManaged */
	PEERPIN_POOL,	  /* cuMemAllocAsync, cuMemAllocFromPoolAsync */
	PEERPIN_MAPPED,	  /* one cuMemMap, while its device may read and write it */
	PEERPIN_SHARED,	  /* another process's */
	PEERPIN_EXTERNAL, /* a buffer of another interface's memory */
	PEERPIN_HOST	  /* the host's, allocated or registered with the driver */
};

/* The allocation that a callback is told of. Only memory that an adapter may be given is told: what the driver calls
 * capable of GPUDirect RDMA, or exports as dma-buf. */
struct peerpin_allocation {
	size_t struct_size; /* of this struct, as the library knows it */
	uint64_t id;	    /* never used again in this process */
	uint64_t base;	    /* address of its first byte */
	uint64_t size;
	int32_t device; /* ordinal of the GPU */
	int32_t kind;	/* enum peerpin_kind */
};

#define PEERPIN_SUBSCRIBERS_MAX 8

/*
 * What a subscriber wants to hear; either function may be NULL.
 *
 * `allocated` is called when the driver has made the memory, before the program gets to know of it, on the thread that
 * allocates. `freeing` is called when the memory is about to be freed, on the thread that frees, before the driver is
 * asked to: when it returns, nothing of the subscriber's may use the memory. The allocation's struct is gone afterwards.
 *
 * Callbacks run on several threads at once, without any lock of peerpin's. They may call everything here, register and
 * deregister, allocate and free; but not free or unmap the memory that they are told of. They return as usual: no exit
 * from the thread, no long jump, no exception. A lock that a callback takes must not be held around a call that allocates
 * or frees GPU memory, subscribes or unsubscribes.
 */
struct peerpin_subscriber {
	size_t struct_size; /* sizeof(struct peerpin_subscriber) */
	void *context;	    /* the last argument of each call */
	void (*allocated)(const struct peerpin_allocation *allocation, void *context);
	void (*freeing)(const struct peerpin_allocation *allocation, void *context);
};

/*
 * Begins a subscription; *subscriber is copied. *subscription, its number (greater than 0, never used again), is stored
 * before the first callback. Promised to each subscriber:
 *   - Memory that is alive at this moment is told as allocated, on this thread, before the call returns; memory that is allocated
 *     later is told when it is allocated, which may be earlier. Nothing is told as allocated twice.
 *   - What was told as allocated is told as being freed, once, after `allocated` has returned, and before other memory at any of its
 *     addresses is told as allocated. Only that is told. What ends before it was told is told neither way.
 *   - If the driver refuses a free, the memory is told as allocated again, by another id. So is mapped memory whose access
 *     was taken away and given back.
 *   - Memory that is freed in a way that peerpin does not see is told as being freed when it is found out.
 *   - If there is no memory left to remember an allocation by, it is not told (counter `untold`): a cache keeps only what
 *     is about memory that it was told of.
 * In a forked child nothing is told.
 *
 * Returns 0, -EINVAL (a null pointer, or a size too small), -E2BIG (*subscriber has something set that this library does
 * not know), -ENOSPC (there are PEERPIN_SUBSCRIBERS_MAX), -EOPNOTSUPP (as above).
 */
int peerpin_subscribe(const struct peerpin_subscriber *subscriber, int *subscription);

/*
 * Ends a subscription: no callback of it begins any more, and the call returns when none is running. Called inside one of
 * its own callbacks it does not wait for that one; called inside any callback it waits for nobody, and returns
 * -EINPROGRESS if callbacks of this subscription still run on other threads. A subscriber whose code or data is about to
 * go, by dlclose or at exit, ends its subscription first.
 *
 * Returns 0, -ENOENT (there is none, or it has been ended), -EINPROGRESS, -EOPNOTSUPP (in a forked child).
 */
int peerpin_unsubscribe(int subscription);

#ifdef __cplusplus
}
#endif

#endif
