/* SPDX-License-Identifier: BSD-3-Clause */
/* use.c -- SYNC_MEMOPS: set before the first use by an adapter, and tracked in the record */
#include "memory/driver.h"

#include "base/log.h"
#include "memory/memory.h"
#include "memory/table.h"
#include "report/errors.h"
#include "report/statistics.h"

void memory_setting_sync(struct memory_sync *sync, uint64_t address)
{
	sync->tracked = memory_find(address, &sync->allocation) &&
			table_setting_sync(&sync->allocation, &sync->token);
}

void memory_sync_settled(const struct memory_sync *sync, bool taken, bool value)
{
	if (sync->tracked)
		table_set_sync(&sync->allocation, sync->token, taken, value);
}

static void use_set_sync(const struct allocation *allocation)
{
	const struct driver_calls *driver = driver_calls();
	CUstreamCaptureMode mode;
	unsigned int on = 1;
	uint32_t token;
	bool relaxed;
	CUresult result;

	/* The driver refuses SYNC_MEMOPS for VMM memory (measured). */
	if (allocation->kind == ALLOCATION_MAPPED || !driver->cuPointerSetAttribute)
		return;
	/* The allocation has ended: its address may be another's. */
	if (!table_setting_sync(allocation, &token))
		return;
	relaxed = driver_relax_capture(&mode);
	result = driver->cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
					       allocation->base);
	driver_restore_capture(relaxed, &mode);
	table_set_sync(allocation, token, result == CUDA_SUCCESS, true);
	if (result != CUDA_SUCCESS)
		log_once(LOG_INFO,
			 "CU_POINTER_ATTRIBUTE_SYNC_MEMOPS could not be set at 0x%llx: %s. %s",
			 (unsigned long long)allocation->base,
			 errors_cause(ERRORS_SYNC_MEMOPS, (int)result),
			 errors_fix(ERRORS_SYNC_MEMOPS, (int)result));
}

void memory_used_by_adapter(const struct allocation *allocation)
{
	if (table_is_used(allocation))
		return;
	/* Two threads may both set SYNC_MEMOPS; neither continues before it is set. */
	if (!table_is_sync_set(allocation))
		use_set_sync(allocation);
	if (table_mark_used(allocation) && !table_is_sync_set(allocation))
		statistics_count(sync_missing);
}
