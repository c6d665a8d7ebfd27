/* SPDX-License-Identifier: BSD-3-Clause */
/* session_lock.c -- registration_lock, and the invariants of what it guards */
#include "registration/session_lock.h"

#include "report/statistics.h"

/* Adaptive: the lock is held so briefly that spinning beats sleeping. */
pthread_mutex_t registration_lock = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;

static const char *failed; /* in this session; guarded by the lock */

void session_failed(const char *invariant)
{
	assert(!"an invariant");
	statistics_count(internal_errors);
	failed = invariant;
}

const char *session_take_failed(void)
{
	const char *taken = failed;

	session_assert();
	failed = NULL;
	return taken;
}
