/* SPDX-License-Identifier: BSD-3-Clause */
/* kept_limit.c -- limits of kept allocations */
#include "memory/kept.h"

#include "base/atomics.h"
#include "base/config.h"
#include "memory/driver.h"
#include "report/statistics.h"

/* Beyond the room, memory goes once the program has allocated so many times its size: buffers of
 * which one is live at a time are reused, though only one of them counts as used. */
#define UNUSED 2

void kept_count_peaks(void)
{
	uint64_t bytes = statistics_get(kept_bytes), peak = statistics_get(kept_bytes_peak),
		 host_bytes = statistics_get(kept_host_bytes),
		 host_peak = statistics_get(kept_host_bytes_peak);

	if (bytes > peak)
		statistics_add(kept_bytes_peak, bytes - peak);
	if (host_bytes > host_peak)
		statistics_add(kept_host_bytes_peak, host_bytes - host_peak);
}

/* Memory of the device in bytes, which does not change; 0: unknown. */
static uint64_t kept_total(int device)
{
	static _Atomic uint64_t totals[DEVICES_MAX];
	size_t total;

	if (device < 0 || device >= DEVICES_MAX)
		return 0;
	if (!load_relaxed(&totals[device]) && driver_calls()->cuDeviceTotalMem_v2 &&
	    driver_calls()->cuDeviceTotalMem_v2(&total, device) == CUDA_SUCCESS)
		store_relaxed(&totals[device], total);
	return load_relaxed(&totals[device]);
}

uint64_t kept_device_limit(int device)
{
	uint64_t keep = config_get()->keep;

	return keep & CONFIG_SHARE ? kept_total(device) / 100 * (keep & ~CONFIG_SHARE) : keep;
}

uint64_t kept_limit(const struct allocation *allocation)
{
	return allocation->kind == ALLOCATION_HOST ? config_get()->keep_host
						   : kept_device_limit(allocation->device);
}

bool kept_is_within_limit(const struct allocation *allocation)
{
	return kept_bytes_of(allocation) <= kept_limit(allocation);
}

void kept_apply_limit(const struct allocation *allocation)
{
	unsigned int list = kept_list_number(allocation);

	kept_release_above(list, kept_limit(allocation), 0);
	kept_release_above(list, kept_room(list, 0), UNUSED);
}

void kept_make_room(int device, uint64_t bytes)
{
	unsigned int list = kept_list_of(device);

	kept_release_above(list, kept_room(list, bytes), UNUSED);
}
