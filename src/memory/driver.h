/* SPDX-License-Identifier: BSD-3-Clause */
/* driver.h -- driver functions for the library's own calls, always the real ones
 *
 * The intercept layer fills the table and bypasses every wrapper; NULL where the installed driver
 * lacks a function. Callable on any thread, but never with a lock of the library held.
 */
#ifndef PEERPIN_MEMORY_DRIVER_H
#define PEERPIN_MEMORY_DRIVER_H

#include <stdbool.h>

#include "memory/cuda_abi.h"

struct driver_calls {
	__typeof__(cuPointerGetAttribute) *cuPointerGetAttribute;
	__typeof__(cuPointerGetAttributes) *cuPointerGetAttributes;
	__typeof__(cuPointerSetAttribute) *cuPointerSetAttribute;
	__typeof__(cuMemGetAccess) *cuMemGetAccess;
	__typeof__(cuMemGetHandleForAddressRange) *cuMemGetHandleForAddressRange;
	__typeof__(cuCtxGetCurrent) *cuCtxGetCurrent;
	__typeof__(cuCtxSetCurrent) *cuCtxSetCurrent;
	__typeof__(cuCtxPushCurrent_v2) *cuCtxPushCurrent_v2;
	__typeof__(cuCtxPopCurrent_v2) *cuCtxPopCurrent_v2;
	__typeof__(cuCtxGetDevice) *cuCtxGetDevice;
	__typeof__(cuCtxGetApiVersion) *cuCtxGetApiVersion;
	__typeof__(cuDeviceGetCount) *cuDeviceGetCount;
	__typeof__(cuDeviceGetAttribute) *cuDeviceGetAttribute;
	__typeof__(cuStreamIsCapturing) *cuStreamIsCapturing;
	__typeof__(cuStreamIsCapturing_ptsz) *cuStreamIsCapturing_ptsz;
	__typeof__(cuThreadExchangeStreamCaptureMode) *cuThreadExchangeStreamCaptureMode;
	__typeof__(cuDevicePrimaryCtxGetState) *cuDevicePrimaryCtxGetState;
	__typeof__(cuDevicePrimaryCtxRetain) *cuDevicePrimaryCtxRetain;
	__typeof__(cuDevicePrimaryCtxRelease_v2) *cuDevicePrimaryCtxRelease_v2;
};

/* Table of functions, as far as the driver has them; looked up at the first use. */
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

#endif
