/* SPDX-License-Identifier: BSD-3-Clause */
/* keep_wait.c -- a free's wait for the work of its context, which ends no capture
 *
 * cuCtxSynchronize ends each capture, in each mode of the calling thread (measured), and no capture
 * may be made to wait for it: the work could depend on the thread that captures. An event of the
 * context splits it into a record, which ends captures too, but is short enough to hold them off,
 * and a wait for the event, which ends none (measured).
 */
#include "base/kernel.h"
#include "base/system.h"
#include "memory/memory.h"
#include "memory/driver.h"
#include "memory/kept.h"
#include "memory/table.h"

#define PATIENCE   ((uint64_t)1000 * 1000 * 1000) /* ns */
#define POLL_EVERY (100 * 1000)			  /* ns */

/* The event waits as the context does. */
static unsigned int keep_wait_flags(const struct driver_calls *driver)
{
	unsigned int flags = 0;

	if (driver->cuCtxGetFlags && driver->cuCtxGetFlags(&flags) == CUDA_SUCCESS &&
	    (flags & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_BLOCKING_SYNC)
		return CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC;
	return CU_EVENT_DISABLE_TIMING;
}

static bool keep_wait_record(const struct driver_calls *driver, CUcontext context, CUevent event)
{
	CUresult result;

	if (!captures_hold_off())
		return false;
	result = driver->cuCtxRecordEvent(context, event);
	captures_admit();
	if (result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
		captures_are_unknown();
	return result == CUDA_SUCCESS;
}

/* True: *result is that of the wait, or of the query. Drivers before CUDA 12.5 have no events of
 * contexts. */
static bool keep_wait_by_event(const struct driver_calls *driver, CUcontext context,
			       __typeof__(cuEventSynchronize) *wait, CUresult *result)
{
	bool recorded;
	CUevent event;

	if (!driver->cuCtxRecordEvent || !driver->cuEventCreate || !wait ||
	    !driver->cuEventDestroy_v2 ||
	    driver->cuEventCreate(&event, keep_wait_flags(driver)) != CUDA_SUCCESS)
		return false;
	recorded = keep_wait_record(driver, context, event);
	if (recorded)
		*result = wait(event);
	driver->cuEventDestroy_v2(event);
	return recorded;
}

/* Allocate and free: the driver's own free waits for the context, and ends no capture in relaxed
 * mode (measured). A free that meets a capture waits like this, too. */
static CUresult keep_wait_by_free(const struct driver_calls *driver)
{
	CUdeviceptr memory;
	CUresult result;

	if (!driver->cuMemAlloc_v2 || !driver->cuMemFree_v2)
		return CUDA_ERROR_NOT_SUPPORTED;
	result = driver->cuMemAlloc_v2(&memory, 1);
	return result == CUDA_SUCCESS ? driver->cuMemFree_v2(memory) : result;
}

static CUresult keep_wait_in_current(const struct driver_calls *driver, CUcontext context)
{
	CUstreamCaptureMode mode;
	bool relaxed = driver_relax_capture(&mode);
	CUresult result;

	if (!keep_wait_by_event(driver, context, driver->cuEventSynchronize, &result))
		result = keep_wait_by_free(driver);
	driver_restore_capture(relaxed, &mode);
	return result;
}

/* What `in_current` returns with the context current. */
static CUresult keep_wait_in(CUcontext context,
			     CUresult (*in_current)(const struct driver_calls *driver,
						    CUcontext context))
{
	const struct driver_calls *driver = driver_calls();
	CUcontext current = NULL;
	CUresult result;

	if (!driver->cuCtxGetCurrent || driver->cuCtxGetCurrent(&current) != CUDA_SUCCESS)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (current == context)
		return in_current(driver, context);
	result = driver->cuCtxPushCurrent_v2(context);
	if (result != CUDA_SUCCESS)
		return result;
	result = in_current(driver, context);
	driver->cuCtxPopCurrent_v2(&current);
	return result;
}

CUresult keep_wait(CUcontext context)
{
	return keep_wait_in(context, keep_wait_in_current);
}

static CUresult keep_wait_poll(CUevent event)
{
	const struct driver_calls *driver = driver_calls();
	uint64_t end = system_clock() + PATIENCE;
	CUresult result;

	while ((result = driver->cuEventQuery(event)) == CUDA_ERROR_NOT_READY &&
	       system_clock() < end)
		kernel_sleep(POLL_EVERY);
	return result;
}

/* By an event alone. */
static CUresult keep_wait_event(const struct driver_calls *driver, CUcontext context,
				__typeof__(cuEventSynchronize) *wait)
{
	CUstreamCaptureMode mode;
	bool relaxed = driver_relax_capture(&mode);
	CUresult result;

	if (!keep_wait_by_event(driver, context, wait, &result))
		result = CUDA_ERROR_NOT_SUPPORTED;
	driver_restore_capture(relaxed, &mode);
	return result;
}

static CUresult keep_wait_ask(const struct driver_calls *driver, CUcontext context)
{
	return keep_wait_event(driver, context, driver->cuEventQuery);
}

static CUresult keep_wait_briefly(const struct driver_calls *driver, CUcontext context)
{
	return keep_wait_event(driver, context, driver->cuEventQuery ? keep_wait_poll : NULL);
}

bool keep_is_idle(CUcontext context)
{
	return keep_wait_in(context, keep_wait_ask) == CUDA_SUCCESS;
}

bool keep_becomes_idle(CUcontext context)
{
	return keep_wait_in(context, keep_wait_briefly) == CUDA_SUCCESS;
}

bool keep_await_free(uint64_t address)
{
	const struct driver_calls *driver = driver_calls();
	struct allocation memory = { .kind = ALLOCATION_DEVICE };
	CUcontext current = NULL;

	/* Captures of callers that bypass are not known. */
	if (captures_may_be_open() || memory_is_verified() || !driver->cuCtxGetCurrent ||
	    driver->cuCtxGetCurrent(&current) != CUDA_SUCCESS || !current ||
	    !attributes_read(address, &memory) || memory.context != current)
		return false;
	return keep_wait_event(driver, current, driver->cuEventSynchronize) == CUDA_SUCCESS;
}
