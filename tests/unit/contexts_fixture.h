/* SPDX-License-Identifier: BSD-3-Clause */
/* contexts_fixture.h -- contexts of a stand-in driver: the current one of each thread, capture
 * modes
 */
#ifndef PEERPIN_TESTS_CONTEXTS_FIXTURE_H
#define PEERPIN_TESTS_CONTEXTS_FIXTURE_H

#include <stdbool.h>

#include "standin.h"

struct CUctx_st {
	int device;
	bool alive;
	_Atomic unsigned int waits; /* for all of its work */
};

static __thread CUcontext stack[4];
static __thread unsigned int depth;
static __thread CUstreamCaptureMode capture_mode;
static _Atomic unsigned int pushes;
static bool pop_fails_once_dead; /* no pop of a destroyed context */

static inline CUcontext current(void)
{
	return depth ? stack[depth - 1] : NULL;
}

static CUresult state(void)
{
	if (!depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	return current()->alive ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

static CUresult get_current(CUcontext *context)
{
	standin_called();
	*context = current();
	return CUDA_SUCCESS;
}

static CUresult get_device(CUdevice *device)
{
	if (state() == CUDA_SUCCESS)
		*device = current()->device;
	return state();
}

static CUresult push(CUcontext context)
{
	pushes++;
	if (!context->alive)
		return CUDA_ERROR_INVALID_CONTEXT;
	stack[depth++] = context;
	return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *context)
{
	if (!depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (pop_fails_once_dead && !current()->alive)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	*context = stack[--depth];
	return CUDA_SUCCESS;
}

static CUresult exchange_mode(CUstreamCaptureMode *mode)
{
	CUstreamCaptureMode before = capture_mode;

	capture_mode = *mode;
	*mode = before;
	return CUDA_SUCCESS;
}

/* After standin_reset(). */
static void set_up_contexts(void)
{
	pushes = 0;
	depth = 0;
	pop_fails_once_dead = false;
	standin_driver.cuCtxGetCurrent = get_current;
	standin_driver.cuCtxGetDevice = get_device;
	standin_driver.cuCtxPushCurrent_v2 = push;
	standin_driver.cuCtxPopCurrent_v2 = pop;
	standin_driver.cuThreadExchangeStreamCaptureMode = exchange_mode;
}

#endif
