/* SPDX-License-Identifier: BSD-3-Clause */
/* own_thread.h -- the library's own thread, its CPUs, and the locks that it shares with the program
 *
 * The process has at most one such thread. It yields to every other: it may lose its CPU at any
 * time, also while it holds a lock. A thread of the program that needs the lock would then wait
 * until a CPU has time for the holder: 99 of 100 such waits took up to 440 ms where a thread polls
 * on each CPU (16 CPUs, Linux 6.18). So a thread that has waited for OWN_THREAD_PATIENCE_NS lends
 * the own thread its own CPU, which it does not need while it waits: then 0.16 ms.
 */
#ifndef PEERPIN_BASE_OWN_THREAD_H
#define PEERPIN_BASE_OWN_THREAD_H

#include <assert.h>
#include <pthread.h>

#include "base/atomics.h"
#include "base/kernel.h"
#include "base/process.h"
#include "base/system.h"

#define OWN_THREAD_PATIENCE_NS 50000
#define OWN_THREAD_AGAIN_NS    1000000 /* before the next loan, of this thread's or another CPU */

extern _Atomic int own_thread;	     /* its number; 0: none, or it holds no lock for now */
extern _Atomic bool own_thread_lent; /* it may run on a lender's CPU alone */

/* Any thread. Lends the calling thread's CPU until the own thread drops a lock. Call it before a
 * wait for the own thread; without any, and from the own thread, it does nothing. */
void own_thread_lend_cpu(void);

void own_thread_take_back(void);

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

/* Number of loans that have ended; for the own thread. */
unsigned int own_thread_loans(void);

/* For each lock that the own thread may take; system_prepare() has been called once it exists. */
void lock_take(pthread_mutex_t *lock);
void lock_drop(pthread_mutex_t *lock);

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

/* The own thread calls these. It runs on `cpus` from now on, of which it may use some. */
void own_thread_run_on(const struct kernel_cpus *cpus);

/* From now on it takes locks; from now on it takes none, and no thread will lend it a CPU. */
void own_thread_begin(void);
void own_thread_end(void);

/* In a child, which has no such thread. */
void own_thread_renew(void);

#endif
