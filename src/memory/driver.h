/* SPDX-License-Identifier: BSD-3-Clause */
/* driver.h -- driver functions for the library's own calls, always the real ones
 *
 * NULL where the installed driver lacks a function. Callable on any thread, but never with a lock
 * of the library held.
 */
#ifndef PEERPIN_MEMORY_DRIVER_H
#define PEERPIN_MEMORY_DRIVER_H

#include <stdbool.h>

#include "memory/cuda_abi.h"

#define DRIVER_CALLS(CALL)                                                                         \
	CALL(cuPointerGetAttribute)                                                                \
	CALL(cuPointerGetAttributes)                                                               \
	CALL(cuPointerSetAttribute)                                                                \
	CALL(cuMemGetAccess)                                                                       \
	CALL(cuMemGetHandleForAddressRange)                                                        \
	CALL(cuCtxGetCurrent)                                                                      \
	CALL(cuCtxSetCurrent)                                                                      \
	CALL(cuCtxPushCurrent_v2)                                                                  \
	CALL(cuCtxPopCurrent_v2)                                                                   \
	CALL(cuCtxGetDevice)                                                                       \
	CALL(cuCtxGetApiVersion)                                                                   \
	CALL(cuCtxGetFlags)                                                                        \
	CALL(cuCtxRecordEvent)                                                                     \
	CALL(cuEventCreate)                                                                        \
	CALL(cuEventSynchronize)                                                                   \
	CALL(cuEventDestroy_v2)                                                                    \
	CALL(cuMemAlloc_v2)                                                                        \
	CALL(cuMemFree_v2)                                                                         \
	CALL(cuDeviceTotalMem_v2)                                                                  \
	CALL(cuDeviceGetCount)                                                                     \
	CALL(cuDeviceGetAttribute)                                                                 \
	CALL(cuStreamIsCapturing)                                                                  \
	CALL(cuStreamIsCapturing_ptsz)                                                             \
	CALL(cuThreadExchangeStreamCaptureMode)                                                    \
	CALL(cuDevicePrimaryCtxGetState)                                                           \
	CALL(cuDevicePrimaryCtxRetain)                                                             \
	CALL(cuDevicePrimaryCtxRelease_v2)

struct driver_calls {
#define CALL(symbol) __typeof__(symbol) *symbol;
	DRIVER_CALLS(CALL)
#undef CALL
};

/* Looked up at the first use. */
const struct driver_calls *driver_calls(void);

/* Bracket the library's own driver calls on one thread: in the default mode they would invalidate a
 * capture of the application (measured). True: driver_restore_capture() must restore the mode. */
static inline bool driver_relax_capture(CUstreamCaptureMode *mode)
{
	const struct driver_calls *driver = driver_calls();

	*mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	return driver->cuThreadExchangeStreamCaptureMode &&
	       driver->cuThreadExchangeStreamCaptureMode(mode) == CUDA_SUCCESS;
}

static inline void driver_restore_capture(bool relaxed, CUstreamCaptureMode *mode)
{
	if (relaxed)
		driver_calls()->cuThreadExchangeStreamCaptureMode(mode);
}

/* False: no such device, or the driver does not know the attribute. */
static inline bool driver_device_attribute(int device, CUdevice_attribute attribute, int *value)
{
	const struct driver_calls *driver = driver_calls();

	return driver->cuDeviceGetAttribute &&
	       driver->cuDeviceGetAttribute(value, attribute, device) == CUDA_SUCCESS;
}

/* True if the attribute is known, and not 0. */
static inline bool driver_device_has(int device, CUdevice_attribute attribute)
{
	int value;

	return driver_device_attribute(device, attribute, &value) && value;
}

static inline bool driver_primary_is_active(CUdevice device)
{
	const struct driver_calls *driver = driver_calls();
	unsigned int flags;
	int active = 0;

	return driver->cuDevicePrimaryCtxGetState &&
	       driver->cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS &&
	       active;
}

#endif
