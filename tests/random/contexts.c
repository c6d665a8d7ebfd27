/* SPDX-License-Identifier: BSD-3-Clause */
/* contexts.c -- GPUs and contexts of the driver of random programs */
#include <sched.h>

#include "memory/driver.h"
#include "random/heap.h"

#define DEPTH 4

unsigned int world_threads;
__thread CUcontext world_waited;
_Atomic int world_captures;

static struct CUctx_st contexts[WORLD_THREADS + 1][CONTEXTS];
static uint64_t gpu_total, gpu_used[GPUS], keep_end_at;
static bool has_faults;
static __thread CUcontext stack[DEPTH];
static __thread unsigned int depth;
static __thread bool fails;
static __thread CUstreamCaptureMode capture_mode;

CUcontext world_context(unsigned int thread, unsigned int which)
{
	return &contexts[thread][which];
}

CUcontext world_shared_context(unsigned int which)
{
	return &contexts[WORLD_THREADS][which];
}

/* Called while there is one thread. */
void world_begin_contexts(unsigned int threads)
{
	world_threads = threads;
	gpu_total = world_from_environment("CHECK_RANDOM_GPU", 0);
	if (!gpu_total)
		gpu_total = (uint64_t)64 << 30;
	has_faults = world_from_environment("CHECK_RANDOM_FAULTS", 1);
	keep_end_at = world_from_environment("CHECK_RANDOM_KEEP_END", 0);
	if (!keep_end_at)
		keep_end_at = UINT64_MAX;
	for (unsigned int i = 0; i <= WORLD_THREADS; i++) {
		for (unsigned int j = 0; j < CONTEXTS; j++)
			contexts[i][j] = (struct CUctx_st){ .gpu = (i + j) % GPUS, .alive = true };
	}
}

bool world_has_faults(void)
{
	return has_faults;
}

uint64_t world_keep_end_at(void)
{
	return keep_end_at;
}

void world_enter(CUcontext context)
{
	context->alive = true;
	stack[0] = context;
	depth = 1;
}

void world_fail_waits(bool failing)
{
	fails = failing;
}

void world_context_ended(CUcontext context, bool settled)
{
	struct memory *memory = NULL;

	pthread_mutex_lock(&world_lock);
	context->alive = false;
	while ((memory = heap_next(memory))) {
		if (memory->context != context)
			continue;
		if (settled && memory->kept.given_up)
			broken("a context ended with kept memory at 0x%llx",
			       (unsigned long long)memory->base);
		memory->gone = true;
	}
	pthread_mutex_unlock(&world_lock);
	if (settled)
		world_context_settled(context);
}

void world_context_settled(CUcontext context)
{
	struct memory *memory = NULL;

	pthread_mutex_lock(&world_lock);
	while ((memory = heap_next(memory))) {
		if (memory->context == context)
			heap_end(memory);
	}
	pthread_mutex_unlock(&world_lock);
}

/* ---- bytes of GPUs ---- */

uint64_t gpu_bytes(void)
{
	return gpu_total;
}

bool gpu_has_room(unsigned int gpu, uint64_t size)
{
	return size <= gpu_total - gpu_used[gpu];
}

void gpu_use(unsigned int gpu, uint64_t size, bool begins)
{
	gpu_used[gpu] += begins ? size : -size;
}

/* ---- the driver's functions ---- */

static CUresult state(void)
{
	if (!depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	return stack[depth - 1]->alive ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult context_get_current(CUcontext *context)
{
	CUresult result = state();

	if (result == CUDA_ERROR_CONTEXT_IS_DESTROYED)
		return result;
	*context = depth ? stack[depth - 1] : NULL;
	return CUDA_SUCCESS;
}

CUresult context_get_device(CUdevice *device)
{
	CUresult result = state();

	if (result == CUDA_SUCCESS)
		*device = (CUdevice)stack[depth - 1]->gpu;
	return result;
}

CUresult context_get_version(CUcontext context, unsigned int *version)
{
	(void)context;
	*version = 3020;
	return state();
}

CUresult context_push(CUcontext context)
{
	if (!context->alive)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (depth == DEPTH)
		broken("contexts are pushed, and never popped");
	stack[depth++] = context;
	return CUDA_SUCCESS;
}

CUresult context_pop(CUcontext *context)
{
	if (!depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	*context = stack[--depth];
	return CUDA_SUCCESS;
}

/* ---- waits ---- */

struct CUevent_st {
	CUcontext of;
	bool recorded, polled;
};

CUresult context_create_event(CUevent *event, unsigned int flags)
{
	static __thread struct CUevent_st own;

	(void)flags;
	if (own.of)
		broken("an event is left");
	if (state() != CUDA_SUCCESS)
		return state();
	own = (struct CUevent_st){ .of = stack[depth - 1] };
	*event = &own;
	return CUDA_SUCCESS;
}

CUresult context_record_event(CUcontext context, CUevent event)
{
	int captures = world_captures;

	if (context != event->of)
		broken("an event of one context is recorded for another");
	sched_yield();
	if (captures || world_captures)
		broken("the record of an event ends a capture");
	event->recorded = true;
	return CUDA_SUCCESS;
}

static CUresult context_wait(CUcontext context)
{
	if (!context_is_relaxed())
		broken("a wait in a mode that disturbs captures");
	sched_yield();
	if (fails)
		return (CUresult)719; /* a kernel failed */
	world_waited = context;
	return CUDA_SUCCESS;
}

CUresult context_synchronize_event(CUevent event)
{
	if (!event->recorded)
		broken("a wait for an event that is not recorded");
	return context_wait(event->of);
}

/* The work ends before the second query. */
CUresult context_query_event(CUevent event)
{
	if (!event->recorded)
		broken("a query of an event that is not recorded");
	if (!event->polled) {
		event->polled = true;
		return CUDA_ERROR_NOT_READY;
	}
	return context_wait(event->of);
}

CUresult context_destroy_event(CUevent event)
{
	event->of = NULL;
	return CUDA_SUCCESS;
}

/* Memory of peerpin's own, whose free waits. */
#define OWN_MEMORY 4096

CUresult context_allocate(CUdeviceptr *address, size_t size)
{
	(void)size;
	*address = OWN_MEMORY;
	return state();
}

CUresult context_free(CUdeviceptr address)
{
	if (address != OWN_MEMORY)
		broken("0x%llx is freed by peerpin itself", (unsigned long long)address);
	return context_wait(stack[depth - 1]);
}

CUresult context_exchange_mode(CUstreamCaptureMode *mode)
{
	CUstreamCaptureMode before = capture_mode;

	capture_mode = *mode;
	*mode = before;
	return CUDA_SUCCESS;
}

bool context_is_relaxed(void)
{
	return capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED;
}

CUresult context_memory(size_t *unused, size_t *total)
{
	CUresult result = state();

	if (result != CUDA_SUCCESS)
		return result;
	pthread_mutex_lock(&world_lock);
	*unused = gpu_total - gpu_used[stack[depth - 1]->gpu];
	*total = gpu_total;
	pthread_mutex_unlock(&world_lock);
	return CUDA_SUCCESS;
}
