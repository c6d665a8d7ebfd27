/* SPDX-License-Identifier: BSD-3-Clause */
/* process.h -- states of the library in this process (rank, job and host: identity.h)
 *
 * States: inert (no event yet, nothing is printed), active (from the first allocation or
 * registration on), passive (disabled, or a forked child). A passive library forwards every call
 * and leaves the parent's state alone. Any thread; no function takes a lock of peerpin; only
 * process_activate() may wait.
 */
#ifndef PEERPIN_BASE_PROCESS_H
#define PEERPIN_BASE_PROCESS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/atomics.h"
#include "base/identity.h"

/* Return true if every call must be forwarded: PEERPIN_DISABLE, or a forked child. */
bool process_is_passive(void);

/* process_is_passive() for the dlsym path: reads the environment only, no file. A wrong false is
 * harmless: each entry point calls process_is_passive() again. */
bool process_is_passive_early(void);

enum { PROCESS_FORKED = 1, PROCESS_EXITING = 2 };
extern _Atomic unsigned char process_ends;

/* Return true only in a forked child of a process in which the library was active. */
static inline bool process_is_forked(void)
{
	return load_relaxed(&process_ends) & PROCESS_FORKED;
}

/* Return true once exit handlers run: no new work begins; the kernel releases the rest. */
static inline bool process_is_exiting(void)
{
	return load_relaxed(&process_ends) & PROCESS_EXITING;
}

/* Return true in both cases: queries are then forwarded to the driver. For checks on each use. */
static inline bool process_is_done(void)
{
	return load_relaxed(&process_ends);
}

/* Hooks, set by the layer that assembles the library before activation. process_begins: at
 * activation, other threads wait. process_begun: afterwards, no thread waits. process_forks: in a
 * forked child. */
extern void (*process_begins)(void), (*process_begun)(void), (*process_forks)(void);

/* Activate the process. The first call registers the fork and exit handlers, moves the statistics
 * into their file and reports invalid settings. Other callers wait until the statistics are in
 * their file. A nested call in the activating thread does nothing. */
void process_activate(void);
bool process_is_active(void);

/* An active process calls process_begin_exit() by itself, before all handlers that existed at
 * activation, hence before the driver's. */
void process_begin_exit(void);

#endif
