/* SPDX-License-Identifier: BSD-3-Clause */
/* session.c -- lock sessions */
#include "registration/session.h"

#include "registration/internal.h"

static struct region *ended; /* in this session; guarded by registration_lock */

void session_begin(void)
{
	lock_take(&registration_lock);
}

void session_end(void)
{
	struct region *to_unpin = ended;

	ended = NULL;
	lock_drop(&registration_lock);
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

void session_add_ended(struct region *region)
{
	region->ending_next = ended;
	ended = region;
}

void session_renew(void)
{
	registration_lock = (pthread_mutex_t)PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
	ended = NULL;
}
