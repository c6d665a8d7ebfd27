/* SPDX-License-Identifier: BSD-3-Clause */
/* primary.c -- a device's primary context: retain, release and reset */
#include "sim.h"

CUcontext sim_retain_primary(CUdevice device)
{
	struct sim_device *state = &sim_devices[device];

	if (!state->primary)
		state->primary = sim_make_context(device, state->primary_flags, true);
	if (!state->primary)
		return NULL;
	/* A device's primary context keeps its handle across resets. */
	state->primary->object.live = true;
	state->retains++;
	return state->primary;
}

SIM_CALL(cuDevicePrimaryCtxRetain, (context, device), CUcontext *context, CUdevice device)
{
	CUresult result = context ? sim_check_device(device) : CUDA_ERROR_INVALID_VALUE;

	if (result != CUDA_SUCCESS)
		return result;
	*context = sim_retain_primary(device);
	return *context ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Retain counts are unchanged: each retain still needs its release (measured). */
static void primary_reset(struct sim_device *device)
{
	if (device->primary && device->primary->object.live) {
		sim_free_context(device->primary);
		device->primary->object.live = false;
	}
}

void sim_release_primary(CUdevice device)
{
	if (!--sim_devices[device].retains)
		primary_reset(&sim_devices[device]);
}

SIM_CALL(cuDevicePrimaryCtxRelease_v2, (device), CUdevice device)
{
	CUresult result = sim_check_device(device);

	if (result == CUDA_SUCCESS && !sim_devices[device].retains)
		result = CUDA_ERROR_INVALID_CONTEXT;
	if (result == CUDA_SUCCESS)
		sim_release_primary(device);
	return result;
}

SIM_FORWARD(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (device), CUdevice device);

SIM_CALL(cuDevicePrimaryCtxReset_v2, (device), CUdevice device)
{
	CUresult result = sim_check_device(device);

	if (result == CUDA_SUCCESS)
		primary_reset(&sim_devices[device]);
	return result;
}

SIM_FORWARD(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2, (device), CUdevice device);

SIM_CALL(cuDevicePrimaryCtxGetState, (device, flags, active), CUdevice device, unsigned int *flags,
	 int *active)
{
	CUresult result = flags && active ? sim_check_device(device) : CUDA_ERROR_INVALID_VALUE;

	if (result == CUDA_SUCCESS) {
		*flags = sim_devices[device].primary_flags;
		*active = sim_devices[device].primary && sim_devices[device].primary->object.live;
	}
	return result;
}

SIM_CALL(cuDevicePrimaryCtxSetFlags_v2, (device, flags), CUdevice device, unsigned int flags)
{
	CUresult result = sim_check_device(device);

	if (result == CUDA_SUCCESS)
		sim_devices[device].primary_flags = flags;
	return result;
}

SIM_FORWARD(cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags_v2, (device, flags),
	    CUdevice device, unsigned int flags);
