/* SPDX-License-Identifier: BSD-3-Clause */
/* green.c -- green contexts: a part of a device, in its primary context
 *
 * A green context retains the primary context. Its allocations belong to the primary context and
 * end with that (measured).
 */
#include <string.h>

#include "sim.h"

struct CUgreenCtx_st {
	struct sim_object object;
	int device;
	CUcontext context;
};

static struct sim_object *greens;

/* The resource carries only its type: each green context here has the whole device. */
SIM_CALL(cuDeviceGetDevResource, (device, resource, type), CUdevice device, CUdevResource *resource,
	 CUdevResourceType type)
{
	if (sim_check_device(device) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!resource || type != CU_DEV_RESOURCE_TYPE_SM)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(resource, &type, sizeof(type));
	return CUDA_SUCCESS;
}

SIM_CALL(cuDevResourceGenerateDesc, (description, resources, count), CUdevResourceDesc *description,
	 CUdevResource *resources, unsigned int count)
{
	if (!description || !resources || !count)
		return CUDA_ERROR_INVALID_VALUE;
	*description = (CUdevResourceDesc)resources;
	return CUDA_SUCCESS;
}

SIM_CALL(cuGreenCtxCreate, (green, resources, device, flags), CUgreenCtx *green,
	 CUdevResourceDesc resources, CUdevice device, unsigned int flags)
{
	struct CUgreenCtx_st *made;
	CUcontext primary, context;

	if (sim_check_device(device) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!green || !resources || flags != CU_GREEN_CTX_DEFAULT_STREAM)
		return CUDA_ERROR_INVALID_VALUE;
	primary = sim_retain_primary(device);
	context = primary ? sim_make_context(device, 0, false) : NULL;
	made = context ? sim_make_object(&greens, sizeof(*made)) : NULL;
	if (!made) {
		if (context)
			context->object.live = false;
		if (primary)
			sim_release_primary(device);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	context->owner = primary;
	made->device = device;
	made->context = context;
	*green = made;
	return CUDA_SUCCESS;
}

SIM_CALL(cuCtxFromGreenCtx, (context, green), CUcontext *context, CUgreenCtx green)
{
	if (!context || !sim_is_live(greens, green))
		return CUDA_ERROR_INVALID_CONTEXT;
	*context = green->context;
	return CUDA_SUCCESS;
}

SIM_CALL(cuGreenCtxDestroy, (green), CUgreenCtx green)
{
	if (!sim_is_live(greens, green))
		return CUDA_ERROR_INVALID_CONTEXT;
	green->object.live = false;
	green->context->object.live = false;
	sim_release_primary(green->device);
	return CUDA_SUCCESS;
}
