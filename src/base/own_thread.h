/* SPDX-License-Identifier: BSD-3-Clause */
/* own_thread.h -- the library's own thread, and the locks that it shares with the program
 *
 * The process has at most one such thread.
 */
#ifndef PEERPIN_BASE_OWN_THREAD_H
#define PEERPIN_BASE_OWN_THREAD_H

#include <assert.h>
#include <pthread.h>

#include "base/process.h"

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

static inline void lock_take(pthread_mutex_t *lock)
{
	pthread_mutex_lock(lock);
}

static inline void lock_drop(pthread_mutex_t *lock)
{
	pthread_mutex_unlock(lock);
}

#ifndef NDEBUG
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
#endif

#define assert_held(lock)                                                                          \
	assert(__atomic_load_n(&(lock)->__data.__owner, __ATOMIC_RELAXED) == lock_owner())

#endif
