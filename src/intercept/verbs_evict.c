/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_evict.c -- a client's own registration goes before regions that nobody holds */
#include "intercept/verbs.h"

#include <errno.h>

#include "base/process.h"

/* An adapter that runs out of room says how much it lacks by no more than its failure. */
#define TIMES 3

static __thread unsigned int passing __attribute__((tls_model("initial-exec")));

bool verbs_stand_aside(void)
{
	return passing || process_is_passive() || registration_is_own_call();
}

void verbs_begin_passing(void)
{
	passing++;
}

void verbs_end_passing(void)
{
	passing--;
}

bool verbs_evicted(struct verbs_evict *room, int error)
{
	int saved_errno = errno;
	bool made;

	if (error != ENOMEM || room->times++ >= TIMES || verbs_stand_aside())
		return false;
	made = registration_make_room(room->context, room->bytes);
	room->bytes = room->bytes > UINT64_MAX / 2 ? UINT64_MAX : room->bytes * 2;
	errno = saved_errno;
	return made;
}

void verbs_is_own(const struct verbs_mr *vmr)
{
	int saved_errno = errno;

	if (!verbs_stand_aside())
		registration_drop(vmr);
	errno = saved_errno;
}
