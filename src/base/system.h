/* SPDX-License-Identifier: BSD-3-Clause */
/* system.h -- functions of libc for which a plain call would be wrong
 *
 * The library is linked lazily, so a plain call of libc costs nothing in a process that never makes
 * it. Names are those of glibc 2.17: an older glibc refuses a library that references a newer
 * version ("version GLIBC_2.34 not found"), and with it the preloaded program.
 */
#ifndef PEERPIN_BASE_SYSTEM_H
#define PEERPIN_BASE_SYSTEM_H

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>

/* Call libc's own dlsym, not an override; RTLD_NEXT: the object after this library. For the
 * caller's own look-up alone: it changes what dlerror() returns to the thread (loaded.h). */
void *system_dlsym(void *handle, const char *symbol);
/* Return the address of libc's dlsym; NULL: not found. */
const void *system_libc_dlsym(void);

/* Return ns of CLOCK_MONOTONIC, by libc's own clock_gettime: a preload that stops the clocks of a
 * program (libfaketime) must not make a wait endless. Without a system call: a miss takes the time
 * several times. */
uint64_t system_clock(void);

/* The same clock at its last tick, a few ms ago at most: a few ns. */
uint64_t system_coarse_clock(void);

/* Disable cancellation of the thread until the release. For calls that would leave work half done
 * for which other threads wait. Calls nest. Before glibc 2.34 libc's function stores nothing in a
 * program without libpthread. */
static inline int system_hold_cancellation(void)
{
	int state = PTHREAD_CANCEL_ENABLE;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	return state;
}

static inline void system_release_cancellation(int held)
{
	pthread_setcancelstate(held, NULL);
}

/* Wait on the condition; the thread is not cancelled with the mutex held. */
static inline void system_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
	int held = system_hold_cancellation();

	pthread_cond_wait(condition, mutex);
	system_release_cancellation(held);
}

/* atexit and pthread_atfork are in libc's static part, which needs a start file that this library
 * lacks (src/local.mk); these are their targets. No handle of an object: the library is never
 * unloaded. */
int __cxa_atexit(void (*handler)(void *), void *argument, void *object);
int __register_atfork(void (*before)(void), void (*after)(void), void (*in_child)(void),
		      void *object);

static inline void system_at_exit(void (*handler)(void *unused))
{
	__cxa_atexit(handler, NULL, NULL);
}

/* The handler runs in each child of fork(), until the end of the process. */
static inline void system_at_fork(void (*in_child)(void))
{
	__register_atfork(NULL, NULL, in_child, NULL);
}

/* Start a detached thread, on one of `cpus`, a set of `size` bytes, unless NULL or the process may
 * use none of them. Return 0 or an errno value; ENOSYS in a program without libpthread. */
int system_start_thread(void *(*run)(void *), const cpu_set_t *cpus, size_t size);

#endif
