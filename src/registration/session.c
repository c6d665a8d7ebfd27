/* SPDX-License-Identifier: BSD-3-Clause */
/* session.c -- lock sessions */
#include "registration/session.h"

#include <limits.h>

#include "base/kernel.h"
#include "base/log.h"
#include "base/system.h"
#include "registration/region_end.h"

#define SLEEP_NS 1000000

static struct region *ended; /* in this session; guarded by the lock */

static _Atomic uint32_t wakes; /* futex word of sleeping threads */
static _Atomic unsigned int sleepers;

void session_begin(void)
{
	lock_take(&registration_lock);
}

void session_end(void)
{
	struct region *to_unpin = ended;
	const char *to_log = session_take_failed();

	ended = NULL;
	lock_drop(&registration_lock);
	if (to_log)
		log_once(LOG_ERROR, "an internal consistency check failed: %s. Please report this.",
			 to_log);
	if (to_unpin)
		region_unpin_all(to_unpin);
}

void session_flush(void)
{
	if (!ended)
		return;
	session_end();
	session_begin();
}

void session_wake(void)
{
	add_seq_cst(&wakes, 1);
	if (load_seq_cst(&sleepers))
		kernel_futex_wake(&wakes, INT_MAX);
}

void session_sleep(void)
{
	uint32_t before = load_relaxed(&wakes);

	add_seq_cst(&sleepers, 1);
	session_end();
	kernel_futex_wait(&wakes, before, SLEEP_NS);
	subtract_seq_cst(&sleepers, 1);
	session_begin();
}

void session_add_ended(struct region *region)
{
	session_assert();
	region->ending_next = ended;
	ended = region;
}

void session_renew(void)
{
	registration_lock = (pthread_mutex_t)PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
	ended = NULL;
}
