/* SPDX-License-Identifier: BSD-3-Clause */
/* near.h -- prefetch and code placement for events after a pause
 *
 * An allocation event executes little code, in many layers. After a pause the caches are cold, and
 * most of the time goes to pages and cache lines fetched one after another. NEAR places the event's
 * functions side by side. near_fetch() prefetches the event's memory all at once before the driver
 * call, which takes longer than the prefetch. Both are hints: unfetched or evicted lines are
 * fetched at use.
 */
#ifndef PEERPIN_BASE_NEAR_H
#define PEERPIN_BASE_NEAR_H

/* The linker places hot functions of all objects together. */
#define NEAR __attribute__((hot))

/* Prefetch a cache line for writing or for reading. Any address is valid, also NULL or unmapped. */
#define near_fetch(address)	 __builtin_prefetch((const void *)(address), 1)
#define near_fetch_read(address) __builtin_prefetch((const void *)(address), 0)

#endif
