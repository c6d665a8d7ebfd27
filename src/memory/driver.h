/* SPDX-License-Identifier: BSD-3-Clause */
/* driver.h -- the driver that peerpin serves, and its functions for the library's own calls
 *
 * A program may load several drivers: one to query the version, another to use. The first one that
 * a look-up or a linked call reaches is served, until it leaves the process. A driver can leave
 * until its cuInit succeeds (measured), and return elsewhere or as another build. Until then no
 * address in it is kept without a check, and none is kept loaded.
 */
#ifndef PEERPIN_MEMORY_DRIVER_H
#define PEERPIN_MEMORY_DRIVER_H

#include <stdbool.h>

#include "memory/cuda_abi.h"

#define DRIVER_CALLS(CALL)                                                                         \
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
	CALL(cuEventQuery)                                                                         \
	CALL(cuEventSynchronize)                                                                   \
	CALL(cuEventDestroy_v2)                                                                    \
	CALL(cuMemAlloc_v2)                                                                        \
	CALL(cuMemFree_v2)                                                                         \
	CALL(cuMemGetInfo_v2)                                                                      \
	CALL(cuDeviceGetUuid_v2)                                                                   \
	CALL(cuDeviceGetDefaultMemPool)                                                            \
	CALL(cuMemPoolGetAttribute)                                                                \
	CALL(cuMemPoolSetAttribute)                                                                \
	CALL(cuMemPoolTrimTo)                                                                      \
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

/* Always the driver's own functions; NULL where the installed driver lacks one, and on the worker
 * once exit has begun. Any thread, but never with a lock of the library held. */
const struct driver_calls *driver_calls(void);

/* An address in the served driver; NULL: none is loaded. If none was served, or it has left, `seen`
 * selects another one, if it is an address in a driver; otherwise the first one loaded is served.
 */
const void *driver_served(const void *seen);

/* True once the served driver is initialised: it never leaves. driver_check() queries the driver,
 * so it is not for look-ups, which the driver's own initialisation makes too. */
bool driver_stays(void);
void driver_check(void);

/* True if the address lies in a libcuda of this namespace. */
bool driver_contains(const void *address);

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
	const struct driver_calls *driver = driver_calls();

	if (relaxed && driver->cuThreadExchangeStreamCaptureMode)
		driver->cuThreadExchangeStreamCaptureMode(mode);
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
