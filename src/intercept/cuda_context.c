/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_context.c -- ends of contexts, which free the memory allocated in them
 *
 * If peerpin can determine the ending allocations beforehand, registrations are removed first, as
 * for a free. Only the driver detects the end of the last attachment or retain, since some may be
 * unintercepted: there peerpin queries the driver afterwards. This is safe: the kernel keeps the
 * pages of a registration until its deregistration.
 */
#include "base/process.h"
#include "intercept/entry_points.h"
#include "memory/driver.h"
#include "memory/keep.h"
#include "memory/memory.h"

static CUresult cuda_context_settle(struct pending_frees *frees, CUresult result)
{
	memory_frees_settled(frees, result != CUDA_SUCCESS);
	return result;
}

static void cuda_context_end_unreported(void)
{
	memory_end_unreported();
	if (keep_is_on())
		keep_forget_ended();
}

/* Kept memory of the context is released first: its end frees the rest. */
static struct pending_frees *cuda_context_ending(CUcontext context)
{
	if (context && keep_is_on())
		keep_release_context(context);
	return memory_context_freeing(context);
}

/* Counting retains is not enough: the runtime has retain calls that peerpin does not intercept. */
static void cuda_context_after_release(CUdevice device)
{
	const struct driver_calls *driver = driver_calls();
	unsigned int flags;
	int active = 0;

	if (process_is_passive())
		return;
	if (driver->cuDevicePrimaryCtxGetState &&
	    driver->cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && active)
		return;
	cuda_context_end_unreported();
}

/* Handle of a device's primary context, or NULL if inactive. A retain is the only call that returns
 * the handle; the release undoes exactly this retain. */
static CUcontext cuda_context_primary(CUdevice device)
{
	const struct driver_calls *driver = driver_calls();
	CUcontext context = NULL;
	unsigned int flags;
	int active = 0;

	if (!driver->cuDevicePrimaryCtxGetState || !driver->cuDevicePrimaryCtxRetain ||
	    !driver->cuDevicePrimaryCtxRelease_v2)
		return NULL;
	if (driver->cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS || !active)
		return NULL;
	if (driver->cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS)
		return NULL;
	driver->cuDevicePrimaryCtxRelease_v2(device);
	cuda_context_after_release(device); /* may be the last retain by now */
	return context;
}

/* Primary contexts are included: drivers may accept this call for them (no document excludes it),
 * and registrations must not outlive their memory. */
static struct pending_frees *cuda_context_before_destroy(CUcontext context)
{
	return process_is_passive() ? NULL : cuda_context_ending(context);
}

/* memory_context_released() ends allocations made after memory_context_freeing(): the context's end
 * freed them too. */
static CUresult cuda_context_after_destroy(struct pending_frees *frees, CUcontext context,
					   CUresult result)
{
	if (result == CUDA_SUCCESS && !process_is_passive())
		memory_context_released(context);
	return cuda_context_settle(frees, result);
}

WRAP(cuCtxDestroy_v2, (context), CUcontext context)
{
	struct pending_frees *frees = cuda_context_before_destroy(context);

	return cuda_context_after_destroy(frees, context, forward(context));
}

WRAP_LIKE(cuCtxDestroy, cuCtxDestroy_v2, (context), CUcontext context)

WRAP(cuCtxDetach, (context), CUcontext context)
{
	CUresult result = forward(context);

	if (!process_is_passive())
		cuda_context_end_unreported();
	return result;
}

static struct pending_frees *cuda_context_before_reset(CUdevice device)
{
	return process_is_passive() ? NULL : cuda_context_ending(cuda_context_primary(device));
}

/* The driver decides whether memory without a context (pools, mappings) outlives the context, and
 * which allocations another thread has made since. */
static CUresult cuda_context_after_reset(struct pending_frees *frees, CUresult result)
{
	if (result == CUDA_SUCCESS && !process_is_passive())
		cuda_context_end_unreported();
	return cuda_context_settle(frees, result);
}

WRAP(cuDevicePrimaryCtxReset_v2, (device), CUdevice device)
{
	struct pending_frees *frees = cuda_context_before_reset(device);

	return cuda_context_after_reset(frees, forward(device));
}

WRAP_LIKE(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2, (device), CUdevice device)

WRAP(cuDevicePrimaryCtxRelease_v2, (device), CUdevice device)
{
	CUresult result = forward(device);

	cuda_context_after_release(device);
	return result;
}

WRAP_LIKE(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (device), CUdevice device)

WRAP(cuGreenCtxDestroy, (context), CUgreenCtx context)
{
	CUresult result = forward(context);

	if (!process_is_passive())
		cuda_context_end_unreported();
	return result;
}
