/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_evict.c -- evicts idle regions, and releases kept memory, for a client's own registration
 */
#include "intercept/verbs.h"

#include <errno.h>

#include "base/process.h"
#include "memory/keep.h"

/* An adapter out of room reports only the failure, not the missing bytes: double them for each
 * attempt. */
#define ATTEMPTS 3

static __thread unsigned int forwarding __attribute__((tls_model("initial-exec")));

bool verbs_is_internal(void)
{
	return forwarding || process_is_passive() || registration_is_own_call();
}

void verbs_begin_forwarding(void)
{
	forwarding++;
}

void verbs_end_forwarding(void)
{
	forwarding--;
}

bool verbs_evicted(struct verbs_evict *eviction, int error)
{
	int saved_errno = errno;
	bool evicted;

	if (error != ENOMEM || eviction->times++ >= ATTEMPTS || verbs_is_internal())
		return false;
	evicted = registration_evict(eviction->context, eviction->bytes);
	/* Regions of kept memory are not idle while a client caches its client MRs. */
	if ((!evicted || eviction->times == ATTEMPTS) && keep_is_on() && keep_release_idle())
		evicted = true;
	eviction->bytes = eviction->bytes > UINT64_MAX / 2 ? UINT64_MAX : eviction->bytes * 2;
	errno = saved_errno;
	return evicted;
}

void verbs_drop_stale(const struct verbs_mr *vmr)
{
	int saved_errno = errno;

	if (!verbs_is_internal())
		registration_drop(vmr);
	errno = saved_errno;
}
