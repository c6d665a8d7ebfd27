/* SPDX-License-Identifier: BSD-3-Clause */
/* green.c -- green contexts: a part of a device, in its primary context
 *
 * A green context retains the primary context. Its allocations belong to the primary context and
 * end with that (measured).
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

/* Never freed: a stale handle is recognised. */
struct CUgreenCtx_st {
	struct CUgreenCtx_st *next;
	int device;
	CUcontext context;
	bool alive;
};

static struct CUgreenCtx_st *greens;

static bool green_is_live(CUgreenCtx green)
{
	const struct CUgreenCtx_st *entry = greens;

	while (entry && entry != green)
		entry = entry->next;
	return entry && entry->alive;
}

/* The resource carries only its type: each green context here has the whole device. */
SIM_CALL(cuDeviceGetDevResource, (device, resource, type), CUdevice device, CUdevResource *resource,
	 CUdevResourceType type)
{
	if (device < 0 || device >= sim_device_count)
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
	CUcontext primary;

	if (device < 0 || device >= sim_device_count)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!green || !resources || flags != CU_GREEN_CTX_DEFAULT_STREAM)
		return CUDA_ERROR_INVALID_VALUE;
	made = calloc(1, sizeof(*made));
	primary = made ? sim_retain_primary(device) : NULL;
	if (!primary) {
		free(made);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*made = (struct CUgreenCtx_st){ .next = greens,
					.device = device,
					.context = sim_make_context(device, 0, false),
					.alive = true };
	if (made->context)
		made->context->owner = primary;
	greens = made;
	*green = made;
	return CUDA_SUCCESS;
}

SIM_CALL(cuCtxFromGreenCtx, (context, green), CUcontext *context, CUgreenCtx green)
{
	if (!context || !green_is_live(green))
		return CUDA_ERROR_INVALID_CONTEXT;
	*context = green->context;
	return *context ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_CALL(cuGreenCtxDestroy, (green), CUgreenCtx green)
{
	if (!green_is_live(green))
		return CUDA_ERROR_INVALID_CONTEXT;
	green->alive = false;
	if (green->context)
		green->context->alive = false;
	sim_release_primary(green->device);
	return CUDA_SUCCESS;
}
