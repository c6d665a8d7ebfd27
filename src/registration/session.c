/* SPDX-License-Identifier: BSD-3-Clause */
/* session.c -- lock sessions */
#include "registration/session.h"

#include "base/log.h"
#include "registration/internal.h"
#include "report/statistics.h"

/* In this session; guarded by registration_lock. */
static struct region *ended;
static const char *failed; /* a broken invariant */

void session_begin(void)
{
	lock_take(&registration_lock);
}

void session_end(void)
{
	struct region *to_unpin = ended;
	const char *to_log = failed;

	session_assert();
	ended = NULL;
	failed = NULL;
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

void session_failed(const char *invariant)
{
	assert(!"an invariant");
	statistics_count(internal_errors);
	failed = invariant;
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
