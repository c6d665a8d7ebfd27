/* SPDX-License-Identifier: BSD-3-Clause */
/* load_watch.h -- whether anything may have been loaded whose calls are not seen
 *
 * What dlopen loads is bound to the program's scope first, where our exports stand, unless it is opened with
 * RTLD_DEEPBIND or by dlmopen. So dlopen and dlmopen are exported: they note such a load before it begins, and are
 * libc's in everything else, the caller's address included. As long as none has begun, and everybody calls them here,
 * nobody has to look at what is loaded (bypass.h).
 */
#ifndef PEERPIN_INTERCEPT_LOADS_H
#define PEERPIN_INTERCEPT_LOADS_H

#include <stdatomic.h>
#include <stdbool.h>

/* Set, and never cleared, before a load begins that may go past us, and when somebody gets a function by which one
 * may begin unnoticed. */
extern _Atomic bool load_watch_go_past;

static inline void load_watch_note(void)
{
	atomic_store(&load_watch_go_past, true);
}

static inline bool load_watch_are_noted(void)
{
	return atomic_load_explicit(&load_watch_go_past, memory_order_relaxed);
}

/* Whether the name is one of the functions that load, or that find these. */
bool load_watch_is_loader(const char *symbol);

/* dlsym is asked for such a function; notes it if another one than ours may be found. */
void load_watch_looked_up(void *handle, const char *symbol);

/* Whether what is loaded plainly is bound to us first: no definition stands before ours. */
bool load_watch_come_here(void);

/* What the exported functions have to do: each jumps to what is returned, with its arguments and its caller's address
 * as they came; where that is NULL it returns NULL. They take no lock and allocate nothing. */
void *dlopen_decide(const char *file, int mode);
void *dlmopen_decide(void);
void *dlvsym_decide(void *handle, const char *symbol);

#endif
