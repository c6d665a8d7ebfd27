/* SPDX-License-Identifier: BSD-3-Clause */
/* events.c -- what allocations and frees mean for what is registered
 *
 * An allocation is queued; no client waits for it here. A free ends all that is registered of the allocation, before the driver frees it.
 */
#include "registration/registration.h"

#include "base/near.h"
#include "base/statistics.h"
#include "registration/internal.h"

static NEAR void expect(uint32_t slot, uint64_t size)
{
	if (!domain_somebody_may_want())
		return;
	background_expect();
	learning_expect(size);
	region_expect(slot);
	worker_expect();
}

static NEAR void allocated(const struct allocation *allocation)
{
	if (!background_queue(allocation))
		return;
	background_go();
	background_await(allocation);
}

static void freeing(const struct allocation *allocation)
{
	struct region *ending = NULL;
	uint64_t since = 0; /* when adapters began to hold the free up; 0: they have not */
	bool queued;

	pthread_mutex_lock(&registration_lock);
	queued = region_is_queued(allocation);
	if (queued)
		region_unqueue(allocation);
	/* What is queued still may have been taken over by a client, or be in the making: then it has a reference. */
	if (!region_end_references(allocation, &ending, &since) && queued)
		statistics_count(cancelled);
	if (ending) {
		pthread_mutex_unlock(&registration_lock);
		region_unpin_all(ending);
		pthread_mutex_lock(&registration_lock);
	}
	region_await_range(allocation->base, allocation->size, &since);
	pthread_mutex_unlock(&registration_lock);
	if (since)
		statistics_time(free_ns, statistics_clock() - since, free_ns);
}

const struct memory_subscriber registration_subscriber = { .expect = expect,
							   .allocated = allocated,
							   .freeing = freeing };
