/* SPDX-License-Identifier: BSD-3-Clause */
/* kept_limit.c -- bytes of kept allocations, as the driver counts them, and their limits */
#include "memory/kept.h"

#include "base/config.h"
#include "memory/driver.h"

/* An allocation above 1 MiB begins blocks of its own, which count as used (measured). */
#define SMALL_MAX ((uint64_t)1 << 20)

uint64_t kept_block_bytes_of(const struct allocation *allocation)
{
	if (allocation->kind == ALLOCATION_HOST || allocation->size <= SMALL_MAX)
		return 0;
	return (allocation->size + BLOCK - 1) & ~(BLOCK - 1);
}

uint64_t kept_bytes_of(const struct allocation *allocation)
{
	uint64_t blocks = kept_block_bytes_of(allocation);

	return blocks ? blocks : allocation->size;
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

static uint64_t kept_limit_of(int device)
{
	uint64_t keep = config_get()->keep;

	return keep & CONFIG_SHARE ? kept_total(device) / 100 * (keep & ~CONFIG_SHARE) : keep;
}

uint64_t kept_limit(const struct allocation *allocation)
{
	return allocation->kind == ALLOCATION_HOST ? config_get()->keep_host
						   : kept_limit_of(allocation->device);
}

bool kept_is_within_limit(const struct allocation *allocation)
{
	return kept_bytes_of(allocation) <= kept_limit(allocation);
}
