/* SPDX-License-Identifier: BSD-3-Clause */
/* lock.c -- the lock of the registration layer */
#include "registration/lock.h"

#include <limits.h>

#include "base/kernel.h"
#include "base/log.h"
#include "report/statistics.h"

#define SLEEP_NS 1000000

/* Adaptive: the lock is held so briefly that spinning beats sleeping. */
pthread_mutex_t registration_mutex = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;

static const char *failed; /* the last invariant that failed, not logged yet; guarded by the lock */

static _Atomic uint32_t wakes; /* futex word of sleeping threads */
static _Atomic unsigned int sleepers;

void registration_failed(const char *invariant)
{
	assert(!"an invariant");
	statistics_count(internal_errors);
	failed = invariant;
}

void registration_lock(void)
{
	pthread_mutex_lock(&registration_mutex);
}

void registration_unlock(void)
{
	const char *to_log = failed;

	failed = NULL;
	pthread_mutex_unlock(&registration_mutex);
	if (to_log)
		log_once(LOG_ERROR, "an internal consistency check failed: %s. Please report this.",
			 to_log);
}

void registration_wake(void)
{
	add_seq_cst(&wakes, 1);
	if (load_seq_cst(&sleepers))
		kernel_futex_wake(&wakes, INT_MAX);
}

void registration_sleep(void)
{
	uint32_t before = load_relaxed(&wakes);

	add_seq_cst(&sleepers, 1);
	registration_unlock();
	kernel_futex_wait(&wakes, before, SLEEP_NS);
	subtract_seq_cst(&sleepers, 1);
	registration_lock();
}

void registration_lock_renew(void)
{
	registration_mutex = (pthread_mutex_t)PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
}
