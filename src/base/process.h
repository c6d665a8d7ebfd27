/* SPDX-License-Identifier: BSD-3-Clause */
/* process.h -- whether the library acts in this process; who it is, is in identity.h
 *
 * States: inert (nothing has happened, nothing will be printed), active (from the first allocation or the first
 * registration on), passive (disabled, or a forked child): every call is passed through and nothing of the
 * parent's is touched. Any thread; nothing here takes a lock of ours, and only
 * process_activate() may wait.
 */
#ifndef PEERPIN_BASE_PROCESS_H
#define PEERPIN_BASE_PROCESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/identity.h"

/* True where every call has to be passed through: PEERPIN_DISABLE, or a forked child. */
bool process_is_passive(void);

/* The same for the dlsym path, as far as the environment alone tells: no file is read for it. False where the other
 * is true does no harm, since each of our entry points asks the other again. */
bool process_is_passive_early(void);

/* True only in a forked child of a process in which the library was active. */
bool process_is_forked(void);

/* True in a forked child, and from the moment exit handlers run: what the driver would say by then is its own affair.
 * For what is asked on each use. */
extern _Atomic bool process_done;

static inline bool process_is_done(void)
{
	return atomic_load_explicit(&process_done, memory_order_relaxed);
}

/* Called when the process becomes active, while others wait, and then, when nobody does; and in a forked child. Set before, by who puts
 * the library together. */
extern void (*process_begins)(void), (*process_begun)(void), (*process_forks)(void);

/* Makes the process active. The first call starts watching for fork, puts the statistics into their file and reports bad
 * settings; until the second is done, other callers wait. In a thread that is at it already it does nothing. */
void process_activate(void);
bool process_is_active(void);

/* From the moment exit handlers run, no new work is begun; the kernel releases what is left. An active process calls
 * the first by itself, before those handlers that were there when it became active: so before the driver's. */
void process_begin_exit(void);
bool process_is_exiting(void);

#endif
