/* SPDX-License-Identifier: BSD-3-Clause */
/* load_watch.h -- notes loads that may bypass peerpin
 *
 * dlopen binds an object to the program's scope first, where this library's exports are, except
 * with RTLD_DEEPBIND or dlmopen. So dlopen and dlmopen are exported: they note such a load before
 * it begins, and otherwise equal libc's, including the caller's address. As long as no such load
 * has begun, and all callers use these exports, no scan of the loaded objects is needed (bypass.h).
 */
#ifndef PEERPIN_INTERCEPT_LOAD_WATCH_H
#define PEERPIN_INTERCEPT_LOAD_WATCH_H

#include <stdbool.h>

#include "base/atomics.h"

/* Set before a load begins that may bypass peerpin, and when a caller gets a function that can
 * begin one unnoticed. Never cleared. */
extern _Atomic bool load_watch_go_past;

static inline void load_watch_note(void)
{
	store_seq_cst(&load_watch_go_past, true);
}

static inline bool load_watch_are_noted(void)
{
	return load_relaxed(&load_watch_go_past);
}

/* True if the name is a function that loads objects, or one that looks up such functions. */
bool load_watch_is_loader(const char *symbol);

/* Called with the result of a look-up of such a function. Notes a load if it is another definition
 * than this library's. */
void load_watch_looked_up(const void *found, const char *symbol);

/* True if plainly loaded objects bind to this library first: no other definition precedes its
 * exports. */
bool load_watch_come_here(void);

/* The program's dlsym, if it precedes this library's and does not hand on a look-up of this string;
 * else NULL. This library's dlsym answers the string, known by its address, with itself, so libc's
 * state of the thread stays (loaded.h) unless the other dlsym bypasses this one. */
extern const char load_watch_probe[];
const void *load_watch_skipping_dlsym(void);

/* Decisions of the exported functions. Each jumps to the returned address with its arguments and
 * its caller's address unchanged; on NULL it returns NULL. These functions take no lock and
 * allocate nothing. */
void *dlopen_decide(const char *file, int mode);
void *dlmopen_decide(void);
void *dlvsym_decide(void *handle, const char *symbol);

#endif
