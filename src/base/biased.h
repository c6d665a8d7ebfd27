/* SPDX-License-Identifier: BSD-3-Clause */
/* biased.h -- a lock that costs its owner two plain stores and a load
 *
 * Each owner has a flag `busy`, set inside the lock. Another thread, rarely, stops all owners at
 * once. The owner stores `busy`, then loads `stopped`; the stopping thread stores `stopped`, then
 * waits until no owner is busy. Between its store and its load each side needs the other's store to
 * be visible. The stopping thread pays for both: membarrier(2) makes every processor that runs a
 * thread of this process execute a full barrier.
 *
 *	owner			stopping thread
 *	busy = 1		stopped = 1
 *	(compiler barrier)	membarrier
 *	stopped? then leave	while (busy) wait
 *
 * An owner's store before its processor's barrier is visible to the stopping thread, which waits
 * for it. After that barrier the owner's load finds `stopped`. tests/model/leases.pml is a model
 * with store buffers. Stores inside the lock are visible to the thread that waited (busy: release,
 * acquire), and its stores to the owner that enters next (stopped: release, acquire). Without
 * membarrier both sides use a full fence.
 *
 * The caller needs a lock around stop and go, and a list of all owners.
 */
#ifndef PEERPIN_BASE_BIASED_H
#define PEERPIN_BASE_BIASED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomics.h"

struct biased {
	_Atomic bool stopped;
	_Atomic bool asymmetric; /* the kernel has membarrier */
};

/* ThreadSanitizer does not model fences; both sides synchronize by `busy` and `stopped`, which it
 * does model. */
#ifdef __SANITIZE_THREAD__
#pragma GCC diagnostic ignored "-Wtsan"
#endif

/* ---- owner ---- */

/* False: stopped, the owner has not entered. Neither waits nor nests. */
static inline __attribute__((always_inline)) bool biased_enter(const struct biased *all,
							       _Atomic uint32_t *busy)
{
	store_relaxed(busy, 1);
	if (__builtin_expect(load_relaxed(&all->asymmetric), 1))
		atomic_signal_fence(memory_order_seq_cst);
	else
		atomic_thread_fence(memory_order_seq_cst);
	if (__builtin_expect(!load_acquire(&all->stopped), 1))
		return true;
	store_release(busy, 0);
	return false;
}

static inline __attribute__((always_inline)) void biased_leave(_Atomic uint32_t *busy)
{
	store_release(busy, 0);
}

/* ---- stopping thread ---- */

/* Call before the first owner enters: registers for membarrier. */
void biased_begin(struct biased *all);

/* biased_stop(): no owner enters from now on; without owners it needs no barrier. biased_await():
 * waits until one owner has left. An owner counts as left if its `thread` (gettid()) ended inside,
 * cancelled or from a signal handler. */
void biased_stop(struct biased *all, bool has_owners);
void biased_await(_Atomic uint32_t *busy, int thread);
void biased_go(struct biased *all);

#endif
