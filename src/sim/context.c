/* SPDX-License-Identifier: BSD-3-Clause */
/* context.c -- contexts, also primary and green ones, and the memory that ends with them */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define STACK_DEPTH 64

/* The thread's contexts, the current one last. A destroyed context stays on the stack. */
static __thread CUcontext stack[STACK_DEPTH];
static __thread int depth;

static struct sim_object *contexts;
static unsigned long long last_id;

/* The thread's current context, maybe destroyed by another thread. NULL: none. */
static CUcontext context_current(void)
{
	return depth ? stack[depth - 1] : NULL;
}

/* A destroyed context stays current in its threads (cuda.h of 13.0, cuCtxDestroy). */
CUresult sim_enter_context(CUcontext *context)
{
	CUresult result = sim_enter();

	if (result != CUDA_SUCCESS)
		return result;
	*context = context_current();
	if (!*context)
		return sim_leave(CUDA_ERROR_INVALID_CONTEXT);
	if (!(*context)->object.live)
		return sim_leave(CUDA_ERROR_CONTEXT_IS_DESTROYED);
	return CUDA_SUCCESS;
}

CUresult sim_enter_any_context(CUcontext *context)
{
	CUresult result = sim_enter();

	if (result != CUDA_SUCCESS)
		return result;
	*context = context_current();
	if (*context && !(*context)->object.live)
		return sim_leave(CUDA_ERROR_CONTEXT_IS_DESTROYED);
	return CUDA_SUCCESS;
}

CUcontext sim_live_context(void)
{
	return context_current() && context_current()->object.live ? context_current() : NULL;
}

bool sim_context_exists(CUcontext context)
{
	return sim_is_live(contexts, context);
}

bool sim_in_old_context(void)
{
	return context_current() && context_current()->object.live && context_current()->old;
}

/* A new context, on no stack; NULL: out of memory. */
static CUcontext context_make(CUdevice device, unsigned int flags, bool primary)
{
	struct CUctx_st *context =
		sim_has_room(device) ? sim_make_object(&contexts, sizeof(*context)) : NULL;

	if (!context)
		return NULL;
	context->device = device;
	context->flags = flags;
	context->usage = 1;
	context->id = ++last_id;
	context->primary = primary;
	return context;
}

static CUresult context_push(CUcontext context)
{
	if (depth == STACK_DEPTH)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stack[depth++] = context;
	return CUDA_SUCCESS;
}

CUresult sim_check_device(CUdevice device)
{
	return device >= 0 && device < sim_device_count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

static CUresult context_create(CUcontext *context, unsigned int flags, CUdevice device)
{
	CUresult result = sim_enter();

	if (result != CUDA_SUCCESS)
		return result;
	result = context ? sim_check_device(device) : CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS)
		return sim_leave(result);
	*context = context_make(device, flags, false);
	return sim_leave(*context ? context_push(*context) : CUDA_ERROR_OUT_OF_MEMORY);
}

/* The old interface creates contexts in which only its own calls allocate (measured). */
CUresult cuCtxCreate(CUcontext *context, unsigned int flags, CUdevice device)
{
	CUresult result = context_create(context, flags, device);

	if (result == CUDA_SUCCESS)
		(*context)->old = true;
	return result;
}

SIM_FORWARD(cuCtxCreate_v2, context_create, (context, flags, device), CUcontext *context,
	    unsigned int flags, CUdevice device);
SIM_FORWARD(cuCtxCreate_v3, context_create, (context, flags, device), CUcontext *context,
	    CUexecAffinityParam *affinity, int count, unsigned int flags, CUdevice device);
SIM_FORWARD(cuCtxCreate_v4, context_create, (context, flags, device), CUcontext *context,
	    CUctxCreateParams *parameters, unsigned int flags, CUdevice device);

/* Limits are neither kept nor read. */
SIM_CONTEXT_CALL(cuCtxSetLimit, (limit, value), CUlimit limit, size_t value)
{
	(void)limit;
	(void)value;
	return sim_has_room(context->device) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Free the context's memory. Other threads' stacks keep the context, unusable. */
static void context_destroy(struct CUctx_st *context)
{
	sim_free_context(context);
	context->object.live = false;
	if (depth && stack[depth - 1] == context)
		depth--;
}

SIM_CALL(cuCtxDestroy_v2, (context), CUcontext context)
{
	if (!context)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_is_live(contexts, context) || context->primary)
		return CUDA_ERROR_INVALID_CONTEXT;
	context_destroy(context);
	return CUDA_SUCCESS;
}

SIM_FORWARD(cuCtxDestroy, cuCtxDestroy_v2, (context), CUcontext context);

CUresult cuCtxAttach(CUcontext *context, unsigned int flags)
{
	CUcontext attached;
	CUresult result = sim_enter_context(&attached);

	if (result != CUDA_SUCCESS)
		return result;
	if (!context || flags)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	attached->usage++;
	*context = attached;
	return sim_leave(CUDA_SUCCESS);
}

SIM_CALL(cuCtxDetach, (context), CUcontext context)
{
	if (!sim_is_live(contexts, context) || context->primary)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!--context->usage)
		context_destroy(context);
	return CUDA_SUCCESS;
}

SIM_CALL(cuCtxPushCurrent_v2, (context), CUcontext context)
{
	return sim_is_live(contexts, context) ? context_push(context) : CUDA_ERROR_INVALID_CONTEXT;
}

SIM_FORWARD(cuCtxPushCurrent, cuCtxPushCurrent_v2, (context), CUcontext context);

SIM_CALL(cuCtxPopCurrent_v2, (context), CUcontext *context)
{
	if (!depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	depth--;
	if (context)
		*context = stack[depth];
	return CUDA_SUCCESS;
}

SIM_FORWARD(cuCtxPopCurrent, cuCtxPopCurrent_v2, (context), CUcontext *context);

SIM_CALL(cuCtxGetCurrent, (context), CUcontext *context)
{
	if (!context)
		return CUDA_ERROR_INVALID_VALUE;
	*context = context_current();
	return CUDA_SUCCESS;
}

/* NULL pops the current context. */
SIM_CALL(cuCtxSetCurrent, (context), CUcontext context)
{
	if (context && !sim_is_live(contexts, context))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (depth)
		depth--;
	return context ? context_push(context) : CUDA_SUCCESS;
}

/* A destroyed context still returns its device and its flags (measured). */
SIM_CALL(cuCtxGetDevice, (device), CUdevice *device)
{
	if (!context_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*device = context_current()->device;
	return CUDA_SUCCESS;
}

SIM_CALL(cuCtxGetFlags, (flags), unsigned int *flags)
{
	if (!context_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = context_current()->flags;
	return CUDA_SUCCESS;
}

SIM_CONTEXT_CALL(cuCtxSetFlags, (flags), unsigned int flags)
{
	context->flags = flags;
	return CUDA_SUCCESS;
}

/* Any capture fails the call, in each mode of the thread, and is lost (measured). */
CUresult cuCtxSynchronize(void)
{
	CUcontext context;
	CUresult result = sim_enter_context(&context);

	if (result != CUDA_SUCCESS)
		return result;
	result = sim_lose_captures();
	sim_await_callbacks(sim_enqueued_callbacks());
	return sim_leave(result != CUDA_SUCCESS ? result : sim_await_work(context));
}

/* NULL: the current context. */
CUresult cuCtxGetApiVersion(CUcontext context, unsigned int *version)
{
	CUresult result = context ? sim_enter() : sim_enter_context(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!version)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	if (!sim_is_live(contexts, context))
		return sim_leave(CUDA_ERROR_INVALID_CONTEXT);
	*version = context->old ? 3010 : 3020;
	return sim_leave(CUDA_SUCCESS);
}

/* NULL: the current context. */
CUresult cuCtxGetId(CUcontext context, unsigned long long *id)
{
	CUresult result = context ? sim_enter() : sim_enter_context(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!id)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	if (!sim_is_live(contexts, context))
		return sim_leave(CUDA_ERROR_INVALID_CONTEXT);
	*id = context->id;
	return sim_leave(CUDA_SUCCESS);
}

/* ---- primary contexts: retain, release and reset ---- */

/* The caller holds sim_lock. NULL: out of memory. */
static CUcontext context_retain_primary(CUdevice device)
{
	struct sim_device *state = &sim_devices[device];

	if (!state->primary)
		state->primary = context_make(device, state->primary_flags, true);
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
	*context = context_retain_primary(device);
	return *context ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Retain counts are unchanged: each retain still needs its release (measured). */
static void context_reset_primary(struct sim_device *device)
{
	if (device->primary && device->primary->object.live) {
		sim_free_context(device->primary);
		device->primary->object.live = false;
	}
}

static void context_release_primary(CUdevice device)
{
	if (!--sim_devices[device].retains)
		context_reset_primary(&sim_devices[device]);
}

SIM_DEVICE_CALL(cuDevicePrimaryCtxRelease_v2, (device), CUdevice device)
{
	if (!sim_devices[device].retains)
		return CUDA_ERROR_INVALID_CONTEXT;
	context_release_primary(device);
	return CUDA_SUCCESS;
}

SIM_FORWARD(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (device), CUdevice device);

SIM_DEVICE_CALL(cuDevicePrimaryCtxReset_v2, (device), CUdevice device)
{
	context_reset_primary(&sim_devices[device]);
	return CUDA_SUCCESS;
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

SIM_DEVICE_CALL(cuDevicePrimaryCtxSetFlags_v2, (device, flags), CUdevice device, unsigned int flags)
{
	sim_devices[device].primary_flags = flags;
	return CUDA_SUCCESS;
}

SIM_FORWARD(cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags_v2, (device, flags),
	    CUdevice device, unsigned int flags);

/* ---- green contexts: a part of a device, in its primary context ----
 *
 * A green context retains the primary context. Its allocations belong to the primary context and
 * end with that (measured). */

struct CUgreenCtx_st {
	struct sim_object object;
	int device;
	CUcontext context;
};

static struct sim_object *greens;

/* The resource carries only its type: each green context here has the whole device. */
SIM_DEVICE_CALL(cuDeviceGetDevResource, (device, resource, type), CUdevice device,
		CUdevResource *resource, CUdevResourceType type)
{
	(void)device;
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

SIM_DEVICE_CALL(cuGreenCtxCreate, (green, resources, device, flags), CUgreenCtx *green,
		CUdevResourceDesc resources, CUdevice device, unsigned int flags)
{
	struct CUgreenCtx_st *made;
	CUcontext primary, context;

	if (!green || !resources || flags != CU_GREEN_CTX_DEFAULT_STREAM)
		return CUDA_ERROR_INVALID_VALUE;
	primary = context_retain_primary(device);
	context = primary ? context_make(device, 0, false) : NULL;
	made = context ? sim_make_object(&greens, sizeof(*made)) : NULL;
	if (!made) {
		if (context)
			context->object.live = false;
		if (primary)
			context_release_primary(device);
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
	context_release_primary(green->device);
	return CUDA_SUCCESS;
}
