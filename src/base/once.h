/* SPDX-License-Identifier: BSD-3-Clause */
/* once.h -- one thread computes a value, all others read it
 *
 * Not pthread_once: a child forked during the computation would wait for a thread that it lacks. Here the child computes again. Code between
 * once_begin() and once_end() must not wait for another thread inside peerpin.
 */
#ifndef PEERPIN_BASE_ONCE_H
#define PEERPIN_BASE_ONCE_H

#include <stdbool.h>

#include "base/atomics.h"
#include "base/kernel.h"

#define ONCE_DONE (-1)

/* 0: not begun; ONCE_DONE; else the process number of the computing thread. */
typedef _Atomic int once;

static inline bool once_is_done(const once *state)
{
	return load_acquire(state) == ONCE_DONE;
}

/* Return true if a thread of this process, or of one that it descends from, computes or has. */
static inline bool once_has_begun(const once *state)
{
	return load_acquire(state);
}

/* Return true if the caller must compute and then call once_end(); false if the value is ready. */
static inline bool once_begin(once *state)
{
	int seen = load_acquire(state), process;

	if (__builtin_expect(seen == ONCE_DONE, 1))
		return false;
	process = kernel_process();
	while (seen != ONCE_DONE) {
		if (seen == process) {
			kernel_call(SYS_sched_yield);
			seen = load_acquire(state);
		} else if (replace_seq_cst(state, &seen, process)) {
			return true;
		}
	}
	return false;
}

static inline void once_end(once *state)
{
	store_release(state, ONCE_DONE);
}

#endif
