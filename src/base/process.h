/* SPDX-License-Identifier: BSD-3-Clause */
/* process.h -- states of the library in this process (rank, job and host: identity.h)
 *
 * States: inert (no event yet, nothing is printed), active (from the first allocation or
 * registration on), passive (disabled, observing, or the child of an active process). A passive
 * library forwards every call, counts and logs nothing, and takes no lock. The child of a process
 * in which the library was inert is a program of its own: its first call makes the state anew. Any
 * thread; no function takes a lock of peerpin; only process_enter() and process_activate() may
 * wait.
 *
 * A child is detected by a page that the kernel zeroes in it (MADV_WIPEONFORK), whichever call made
 * it: fork(), _Fork(), clone(2). A child that shares its parent's memory (vfork(), posix_spawn())
 * has the page, too, until it executes a program. On kernels before Linux 4.14 a fork handler
 * zeroes the page, which only fork() runs.
 */
#ifndef PEERPIN_BASE_PROCESS_H
#define PEERPIN_BASE_PROCESS_H

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/atomics.h"
#include "base/identity.h"
#include "base/kernel.h"
#include "base/once.h"

/* The page: zero in a child, and in a process that has not entered. */
enum { PROCESS_OWN = 1, PROCESS_EXITING = 2, PROCESS_OBSERVES = 4 };
extern struct process_page {
	_Atomic unsigned char state;
	once entered;
} __attribute__((aligned(KERNEL_PAGE_MAX))) process_page __attribute__((visibility("hidden")));

/* Enter, at the first call of the process. Return false if every call must be forwarded. */
bool process_enter(void);

/* Return true if every call must be forwarded: PEERPIN_DISABLE, or a forked child. Each entry point
 * calls it before any other function that takes a lock. */
static inline bool process_is_passive(void)
{
	return __builtin_expect(!(load_acquire(&process_page.state) & PROCESS_OWN), 0) &&
	       !process_enter();
}

/* Return true if the process is passive because calls are only observed (PEERPIN_OBSERVE). A forked
 * child observes its own calls. */
static inline bool process_observes(void)
{
	unsigned char state = load_acquire(&process_page.state);

	if (__builtin_expect(state & PROCESS_OWN, 1))
		return false;
	return state || (!process_enter() && load_acquire(&process_page.state));
}

/* process_is_passive() for the dlsym path: reads the environment only, no file. A wrong false is
 * harmless: each entry point calls process_is_passive() again. */
bool process_is_passive_early(void);

/* Return true only in a forked child of a process in which the library was active. */
bool process_is_forked(void);

/* Return true once exit handlers run: no new work begins; the kernel releases the rest. */
static inline bool process_is_exiting(void)
{
	return load_relaxed(&process_page.state) & PROCESS_EXITING;
}

/* Return true if passive or exiting: queries are then forwarded to the driver. For checks on each
 * use. */
static inline bool process_is_done(void)
{
	unsigned char state = load_acquire(&process_page.state);

	return __builtin_expect(state != PROCESS_OWN, 0) && (state || !process_enter());
}

/* Hooks, set by the layer that assembles the library before its first call. process_begins: at
 * activation, other threads wait. process_begun: afterwards, no thread waits. process_renews: in a
 * child that becomes a program of its own. A thread that only the parent has may have held any
 * lock, and changed the guarded data by half. Other threads of the child wait. process_exits: as
 * exit begins, once. */
extern void (*process_begins)(void), (*process_begun)(void), (*process_renews)(void);
extern void (*process_exits)(void);

/* Activate the process, unless it is passive. The first call registers the exit handler, begins
 * statistics and trace and reports invalid settings. Other callers wait until both have begun. A
 * nested call in the activating thread does nothing. */
void process_activate(void);
bool process_is_active(void);

/* An active process calls process_begin_exit() by itself, before all handlers that existed at
 * activation, hence before the driver's. */
void process_begin_exit(void);

/* ---- the library's own thread, of which the process has at most one, and the locks that it shares
 * with the program ---- */

extern __thread bool own_thread_here __attribute__((tls_model("initial-exec")));

static inline bool own_thread_is_current(void)
{
	return own_thread_here;
}

/* True on the own thread as soon as exit has begun: it begins no call into the driver or verbs,
 * whose destructors may have run. */
static inline bool own_thread_is_done(void)
{
	return __builtin_expect(process_is_exiting(), 0) && own_thread_here;
}

/* The calling thread as glibc stores it in each mutex that it takes: after _Fork or clone() another
 * number than the kernel's. */
static inline int lock_owner(void)
{
	pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
	int owner;

	pthread_mutex_lock(&own);
	owner = own.__data.__owner;
	pthread_mutex_unlock(&own);
	return owner;
}

/* True if the calling thread has the lock: a signal handler may have interrupted it there. */
static inline bool lock_is_held(const pthread_mutex_t *lock)
{
	return __atomic_load_n(&lock->__data.__owner, __ATOMIC_RELAXED) == lock_owner();
}

#define assert_held(lock) assert(lock_is_held(lock))

#endif
