/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_context.c -- ends of contexts, which end the memory that was allocated in them
 *
 * Where it is certain beforehand what will end, registrations go first, as for a free. Where only the driver
 * knows whether anything ends (the last of several attachments or retains, which others may hold unseen), it
 * is asked afterwards: the kernel keeps the pages of a registration until it is gone.
 */
#include "base/process.h"
#include "intercept/entry_points.h"
#include "memory/driver.h"
#include "memory/memory.h"

static CUresult settled(struct pending_frees *frees, CUresult result)
{
	memory_frees_settled(frees, result != CUDA_SUCCESS);
	return result;
}

/* Counting retains ourselves would not do: the runtime has ways to retain that nobody sees. */
static void after_release(CUdevice device)
{
	const struct driver_calls *driver = driver_calls();
	unsigned int flags;
	int active = 0;

	if (process_is_passive())
		return;
	if (driver->cuDevicePrimaryCtxGetState &&
	    driver->cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && active)
		return;
	/* CUdevice is an ordinal in today's drivers, but nothing says so: every device is asked about. */
	memory_ask_driver(-1);
}

/* The handle of a device's primary context, if it is active. Retaining it is the only way to learn it; the
 * release gives back what the retain took, and no more. */
static CUcontext primary_context(CUdevice device)
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
	after_release(device); /* meanwhile it may have become the last */
	return context;
}

/* The device's own, too, although this is not the call for it: nothing written says that every driver refuses, and if one did not,
 * what is registered would outlive its memory. */
static struct pending_frees *before_destroy(CUcontext context)
{
	return process_is_passive() ? NULL : memory_context_freeing(context);
}

/* What began in the context after the frees were told has ended with it. */
static CUresult after_destroy(struct pending_frees *frees, CUcontext context, CUresult result)
{
	if (result == CUDA_SUCCESS && !process_is_passive())
		memory_context_released(context);
	return settled(frees, result);
}

WRAP(cuCtxDestroy_v2, (context), CUcontext context)
{
	struct pending_frees *frees = before_destroy(context);

	return after_destroy(frees, context, forward(context));
}

WRAP(cuCtxDestroy, (context), CUcontext context)
{
	struct pending_frees *frees = before_destroy(context);

	return after_destroy(frees, context, forward(context));
}

WRAP(cuCtxDetach, (context), CUcontext context)
{
	CUresult result = forward(context);

	if (!process_is_passive())
		memory_ask_driver(-1);
	return result;
}

static struct pending_frees *before_reset(CUdevice device)
{
	return process_is_passive() ? NULL : memory_context_freeing(primary_context(device));
}

/* Whether memory without a context (of pools, mappings) outlives it is for the driver to say, as is what has begun meanwhile. */
static CUresult after_reset(struct pending_frees *frees, CUresult result)
{
	if (result == CUDA_SUCCESS && !process_is_passive())
		memory_ask_driver(-1);
	return settled(frees, result);
}

WRAP(cuDevicePrimaryCtxReset_v2, (device), CUdevice device)
{
	struct pending_frees *frees = before_reset(device);

	return after_reset(frees, forward(device));
}

WRAP(cuDevicePrimaryCtxReset, (device), CUdevice device)
{
	struct pending_frees *frees = before_reset(device);

	return after_reset(frees, forward(device));
}

WRAP(cuDevicePrimaryCtxRelease_v2, (device), CUdevice device)
{
	CUresult result = forward(device);

	after_release(device);
	return result;
}

WRAP(cuDevicePrimaryCtxRelease, (device), CUdevice device)
{
	CUresult result = forward(device);

	after_release(device);
	return result;
}

WRAP(cuGreenCtxDestroy, (context), CUgreenCtx context)
{
	CUresult result = forward(context);

	if (!process_is_passive())
		memory_ask_driver(-1);
	return result;
}
