/* SPDX-License-Identifier: BSD-3-Clause */
/* once.h -- what one thread finds out and all others then read
 *
 * Not pthread_once: nothing here is referred to, and a child that was forked while another thread was at it does it again
 * instead of waiting for a thread that it does not have. What is done between begin and end calls nothing that could wait for
 * another of our threads.
 */
#ifndef PEERPIN_BASE_ONCE_H
#define PEERPIN_BASE_ONCE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/kernel.h"

#define ONCE_DONE (-1)

/* 0: not yet; ONCE_DONE; else the process in which a thread is at it. */
typedef _Atomic int once;

static inline bool once_is_done(const once *state)
{
	return atomic_load_explicit(state, memory_order_acquire) == ONCE_DONE;
}

/* True: the caller has to do it, and to call once_end(). False: it is done. */
static inline bool once_begin(once *state)
{
	int seen = atomic_load_explicit(state, memory_order_acquire), process;

	if (__builtin_expect(seen == ONCE_DONE, 1))
		return false;
	process = kernel_process();
	while (seen != ONCE_DONE) {
		if (seen != process) {
			if (atomic_compare_exchange_strong_explicit(
				    state, &seen, process, memory_order_acquire, memory_order_acquire))
				return true;
			continue;
		}
		kernel_yield();
		seen = atomic_load_explicit(state, memory_order_acquire);
	}
	return false;
}

static inline void once_end(once *state)
{
	atomic_store_explicit(state, ONCE_DONE, memory_order_release);
}

#endif
