/* SPDX-License-Identifier: BSD-3-Clause */
/* use.c -- SYNC_MEMOPS, set before the first use by an adapter */
#include "memory/driver.h"

#include "base/log.h"
#include "memory/memory.h"
#include "memory/table.h"
#include "report/errors.h"
#include "report/statistics.h"

/* False: adapters use the memory without. */
static bool use_set_sync(const struct allocation *allocation)
{
	const struct driver_calls *driver = driver_calls();
	CUstreamCaptureMode mode;
	unsigned int on = 1;
	bool relaxed;
	CUresult result;

	/* The driver refuses SYNC_MEMOPS for VMM memory (measured). */
	if (allocation->kind == ALLOCATION_MAPPED || !driver->cuPointerSetAttribute)
		return false;
	/* The allocation has ended: its address may be another's. */
	if (!memory_is_live(allocation))
		return false;
	relaxed = driver_relax_capture(&mode);
	result = driver->cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
					       allocation->base);
	driver_restore_capture(relaxed, &mode);
	if (result != CUDA_SUCCESS)
		log_once(LOG_INFO,
			 "CU_POINTER_ATTRIBUTE_SYNC_MEMOPS could not be set at 0x%llx: %s. %s",
			 (unsigned long long)allocation->base,
			 errors_cause(ERRORS_SYNC_MEMOPS, (int)result),
			 errors_fix(ERRORS_SYNC_MEMOPS, (int)result));
	return result == CUDA_SUCCESS;
}

/* Two threads may both set SYNC_MEMOPS; neither continues before it is set. */
void memory_used_by_adapter(const struct allocation *allocation)
{
	bool set;

	if (table_is_used(allocation))
		return;
	set = use_set_sync(allocation);
	if (table_mark_used(allocation) && !set)
		statistics_count(sync_missing);
}
