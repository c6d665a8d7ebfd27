/* SPDX-License-Identifier: BSD-3-Clause */
/* peerpin.h -- the public interface
 *
 * The whole public interface is experimental: names and layouts may change until version 1.0.
 *
 * Programs do not need it: peerpin works on unmodified ones. With it, a registration cache receives
 * allocations and frees of GPU memory instead of comparing the driver's tags. docs/examples/cache.c
 * does; peerpin(3) is the manual.
 *
 * A library looks up these functions with dlsym(RTLD_DEFAULT, ...). Without peerpin preloaded they
 * are absent, and the library runs without them. A program may link with -lpeerpin (pkg-config
 * peerpin).
 *
 * Addresses and sizes are in bytes. Each function may be called on any thread. No function sets
 * errno: errors are returned as negative values. Structs that may grow begin with their size, as
 * known to the side that fills them; members beyond this size do not exist.
 */
#ifndef PEERPIN_H
#define PEERPIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version, "major.minor.patch"; static, never NULL. */
const char *peerpin_version(void);

/* Store the current value of this process's counter `name` (a key of the statistics JSON) in
 * *value. Returns 0, -ENOENT for an unknown name, -EINVAL for a null pointer. Takes no lock. */
int peerpin_statistic(const char *name, uint64_t *value);

/* ---- allocations and frees ----
 *
 * The subscription interface is experimental: names and layouts may change until version 1.0.
 */

/* Later versions may add kinds. */
enum peerpin_kind {
	PEERPIN_DEVICE,	  /* cuMemAlloc */
	PEERPIN_PITCHED,  /* cuMemAllocPitch */
	PEERPIN_MANAGED,  /* cuMemAllocManaged */
	PEERPIN_POOL,	  /* cuMemAllocAsync, cuMemAllocFromPoolAsync */
	PEERPIN_MAPPED,	  /* one cuMemMap, while its device has read and write access */
	PEERPIN_SHARED,	  /* memory of another process */
	PEERPIN_EXTERNAL, /* a buffer of another interface's memory */
	PEERPIN_HOST	  /* host memory, allocated by or registered with the driver */
};

/* Argument of the callbacks. Only memory that an adapter may access is reported: memory that the
 * driver calls capable of GPUDirect RDMA, or exports as a dma-buf. */
struct peerpin_allocation {
	size_t struct_size; /* of this struct, as known to the library */
	uint64_t id;	    /* never reused in this process */
	uint64_t base;	    /* address of its first byte */
	uint64_t size;
	int32_t device; /* ordinal of the GPU */
	int32_t kind;	/* enum peerpin_kind */
};

#define PEERPIN_SUBSCRIBERS_MAX 8

/*
 * Callbacks of a subscriber; either may be NULL.
 *
 * `allocated` is called after the driver has made the memory and before the program gets its
 * address, on the allocating thread. `freeing` is called before the driver frees the memory, on the
 * freeing thread: when it returns, the subscriber must not use the memory any more. At some ends of
 * contexts it is called after the driver's call (docs/limits.md, Frees). The struct
 * peerpin_allocation is valid only during the callback.
 *
 * Callbacks run on several threads at once, without any lock of peerpin's. They may call every
 * function of this header, register and deregister, allocate and free, but must not free or unmap
 * the reported memory. They return normally: no thread exit, no long jump, no exception. A lock
 * that a callback takes must not be held around a call that allocates or frees GPU memory,
 * subscribes or unsubscribes.
 */
struct peerpin_subscriber {
	size_t struct_size; /* sizeof(struct peerpin_subscriber) */
	void *context;	    /* last argument of each callback */
	void (*allocated)(const struct peerpin_allocation *allocation, void *context);
	void (*freeing)(const struct peerpin_allocation *allocation, void *context);
};

/*
 * Begin a subscription; *subscriber is copied. Its number (greater than 0, never reused) is stored
 * in *subscription before the first callback. Guarantees to each subscriber:
 *   - Live memory is reported as allocated on this thread, before the call returns. Memory
 *     allocated later is reported at its allocation, which may come before reports of live memory.
 *     No memory is reported as allocated twice.
 *   - Memory reported as allocated is reported as freeing once. This happens after `allocated` has
 *     returned, and before other memory at any of its addresses is reported as allocated. Memory
 *     that is freed before its `allocated` callback, also by another thread during the call, may
 *     be reported as freeing alone: ignore unknown ids.
 *   - If the driver refuses a free, the memory is reported as allocated again, with another id. The
 *     same holds for VMM memory after its access was removed and restored, and for a primary
 *     context that goes on after the last release that peerpin counts.
 *   - After a missed free, the memory is reported as freeing when peerpin detects it.
 *   - If peerpin lacks memory to record an allocation, the allocation is not reported (counter
 *     `untracked`). A cache therefore keeps only entries about reported memory.
 * A forked child gets no callbacks.
 *
 * Returns 0, -EINVAL (a null pointer, or struct_size too small), -E2BIG (*subscriber sets a member
 * unknown to this library), -ENOSPC (PEERPIN_SUBSCRIBERS_MAX subscriptions exist), -EOPNOTSUPP
 * (peerpin forwards all calls: PEERPIN_DISABLE, or a forked child).
 */
int peerpin_subscribe(const struct peerpin_subscriber *subscriber, int *subscription);

/*
 * End a subscription: none of its callbacks begins any more, and the call returns when none is
 * running. Inside a callback of this subscription, the call does not wait for that callback. Inside
 * any callback, the call never waits, and returns -EINPROGRESS if callbacks of this subscription
 * still run on other threads. A subscriber ends its subscription before dlclose or exit removes its
 * code or data.
 *
 * Returns 0, -ENOENT (unknown or already ended), -EINPROGRESS, -EOPNOTSUPP (in a forked child).
 */
int peerpin_unsubscribe(int subscription);

#ifdef __cplusplus
}
#endif

#endif
