/* SPDX-License-Identifier: BSD-3-Clause */
/* events.c -- what births and deaths mean for what is registered
 *
 * A birth is queued; no client waits for it here. A death ends all that is registered of the allocation, before the driver frees it.
 */
#include "registration/registration.h"

#include "base/near.h"
#include "base/statistics.h"
#include "registration/internal.h"

static NEAR void expect(uint32_t place, uint64_t size)
{
	if (!domain_somebody_may_want())
		return;
	ahead_expect();
	learning_expect(size);
	region_expect(place);
	worker_expect();
}

static NEAR void born(const struct allocation *allocation)
{
	if (ahead_queue(allocation))
		ahead_go();
}

static void dying(const struct allocation *allocation)
{
	struct region *ending = NULL;
	uint64_t start;
	int ended = 0;

	pthread_mutex_lock(&registration_lock);
	if (region_is_queued(allocation)) {
		region_unqueue(allocation);
		statistics_count(cancelled);
	}
	region_end_tenancies(allocation, &ending);
	if (ending) {
		pthread_mutex_unlock(&registration_lock);
		start = statistics_clock();
		for (const struct region *region = ending; region; region = region->ending_next)
			ended++;
		statistics_add(invalidated, ended);
		region_unpin_all(ending);
		statistics_time(free_ns, statistics_clock() - start, free_ns);
		pthread_mutex_lock(&registration_lock);
	}
	region_await_range(allocation->base, allocation->size);
	pthread_mutex_unlock(&registration_lock);
}

const struct memory_subscriber registration_subscriber = { .expect = expect, .born = born, .dying = dying };
