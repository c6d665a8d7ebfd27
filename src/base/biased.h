/* SPDX-License-Identifier: BSD-3-Clause */
/* biased.h -- a lock that costs its owner two plain stores and a load
 *
 * Each owner has a flag, which says that it is inside. Somebody else, who is rare, stops all owners
 * at once. The owner stores `busy` and looks whether all are stopped; who stops them stores
 * `stopped`, and waits until nobody is busy. Between its store and its load each side needs the
 * other's store to be visible, and who stops pays for both: membarrier has every processor that
 * runs a thread of this process pass a full barrier.
 *
 *	owner			who stops
 *	busy = 1		stopped = 1
 *	(compiler's barrier)	membarrier
 *	stopped? then out	while (busy) wait
 *
 * Either the owner's store came before its processor's barrier: then it is seen, and waited for. Or
 * it came after: then so did the owner's load, which sees `stopped`. tests/model/leases.pml has it
 * with store buffers. What the owner has written is seen by who waited (busy: release, acquire);
 * what that one writes, by the owner when it enters the next time (stopped: release, acquire).
 * Where the kernel has no membarrier, both sides have a full fence.
 *
 * What is stopped by whom, and how that one finds all owners, is the caller's: it needs a lock
 * around stop and go.
 */
#ifndef PEERPIN_BASE_BIASED_H
#define PEERPIN_BASE_BIASED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomics.h"

struct biased {
	_Atomic bool stopped;
	_Atomic bool asymmetric; /* who stops has membarrier */
};

/* What ThreadSanitizer does not know of fences it need not: what it sees of each other's writes
 * goes by busy and stopped. */
#ifdef __SANITIZE_THREAD__
#pragma GCC diagnostic ignored "-Wtsan"
#endif

/* ---- an owner's side ---- */

/* False: all are stopped, and it is not inside. Does not wait, nor nest. */
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

/* ---- who stops them ---- */

/* Before the first owner enters: asks the kernel for membarrier. */
void biased_begin(struct biased *all);

/* From now on nobody enters; who is inside is still to be waited for, one owner after the other.
 * Without an owner yet the barrier is not needed. An owner whose thread (the kernel's number) has
 * ended in there, cancelled or from a signal handler, has left then. */
void biased_stop(struct biased *all, bool has_owners);
void biased_await(_Atomic uint32_t *busy, int thread);
void biased_go(struct biased *all);

#endif
