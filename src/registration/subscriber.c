/* SPDX-License-Identifier: BSD-3-Clause */
/* subscriber.c -- allocated and freeing events in the registration layer
 *
 * A free ends all regions and client MRs of the allocation before the driver frees it.
 */
#include "registration/registration.h"

#include "base/system.h"
#include "registration/background.h"
#include "registration/lock.h"
#include "registration/region.h"
#include "registration/region_end.h"
#include "report/statistics.h"

void registration_freeing(const struct allocation *allocation)
{
	uint64_t since = 0; /* start of the deregistrations that delay this free; 0: none */
	struct region *ending = NULL;

	registration_lock();
	if (region_is_queued(allocation))
		region_unqueue(allocation);
	region_end_references(allocation, &ending, &since);
	region_await_range(allocation->base, allocation->size, &ending, &since);
	registration_unlock();
	if (since)
		statistics_time(free_ns, system_clock() - since, free_ns);
}

bool registration_is_in_use(const struct allocation *allocation)
{
	bool in_use;

	registration_lock();
	in_use = region_is_in_use_for(allocation);
	registration_unlock();
	return in_use;
}

void registration_allocated(const struct allocation *allocation)
{
	background_allocated(allocation);
}
