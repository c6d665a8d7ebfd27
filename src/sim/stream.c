/* SPDX-License-Identifier: BSD-3-Clause */
/* stream.c -- streams and events of a device that runs all work at once */
#include <stdlib.h>
#include <time.h>

#include "sim.h"

struct CUevent_st {
	struct sim_object object;
	struct timespec when;
	bool recorded;
};

static struct sim_object *events;

SIM_CONTEXT_CALL(cuStreamCreateWithPriority, (stream, flags, priority), CUstream *stream,
		 unsigned int flags, int priority)
{
	(void)priority;
	if (!stream || flags > 1)
		return CUDA_ERROR_INVALID_VALUE;
	*stream = sim_make_stream(!flags);
	return *stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_FORWARD(cuStreamCreate, cuStreamCreateWithPriority, (stream, flags, 0), CUstream *stream,
	    unsigned int flags);

SIM_CALL(cuStreamDestroy_v2, (stream), CUstream stream)
{
	if ((uintptr_t)stream <= 2 || !sim_stream_exists(stream))
		return CUDA_ERROR_INVALID_HANDLE;
	sim_end_stream(stream);
	return CUDA_SUCCESS;
}

SIM_FORWARD(cuStreamDestroy, cuStreamDestroy_v2, (stream), CUstream stream);

static CUresult stream_check(CUstream stream)
{
	CUcontext context;
	CUresult result = sim_enter_context(&context);

	if (result != CUDA_SUCCESS)
		return result;
	return sim_leave(sim_stream_exists(stream) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

SIM_FORWARD(cuStreamSynchronize, stream_check, (stream), CUstream stream);
SIM_FORWARD(cuStreamQuery, stream_check, (stream), CUstream stream);

SIM_CONTEXT_CALL(cuStreamWaitEvent, (stream, event, flags), CUstream stream, CUevent event,
		 unsigned int flags)
{
	(void)flags;
	return sim_stream_exists(stream) && sim_is_live(events, event) ? CUDA_SUCCESS
								       : CUDA_ERROR_INVALID_HANDLE;
}

SIM_CONTEXT_CALL(cuEventCreate, (event, flags), CUevent *event, unsigned int flags)
{
	(void)flags;
	if (!event)
		return CUDA_ERROR_INVALID_VALUE;
	*event = sim_make_object(&events, sizeof(**event));
	return *event ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_CALL(cuEventDestroy_v2, (event), CUevent event)
{
	if (!sim_is_live(events, event))
		return CUDA_ERROR_INVALID_HANDLE;
	event->object.live = false;
	return CUDA_SUCCESS;
}

SIM_FORWARD(cuEventDestroy, cuEventDestroy_v2, (event), CUevent event);

SIM_CONTEXT_CALL(cuEventRecord, (event, stream), CUevent event, CUstream stream)
{
	if (!sim_is_live(events, event) || !sim_stream_exists(stream))
		return CUDA_ERROR_INVALID_HANDLE;
	clock_gettime(CLOCK_MONOTONIC, &event->when);
	event->recorded = true;
	return CUDA_SUCCESS;
}

static CUresult stream_check_event(CUevent event)
{
	CUresult result = sim_enter();

	if (result != CUDA_SUCCESS)
		return result;
	return sim_leave(sim_is_live(events, event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

SIM_FORWARD(cuEventQuery, stream_check_event, (event), CUevent event);
SIM_FORWARD(cuEventSynchronize, stream_check_event, (event), CUevent event);

SIM_CALL(cuEventElapsedTime, (milliseconds, start, end), float *milliseconds, CUevent start,
	 CUevent end)
{
	if (!milliseconds)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_is_live(events, start) || !sim_is_live(events, end) || !start->recorded ||
	    !end->recorded)
		return CUDA_ERROR_INVALID_HANDLE;
	*milliseconds = (float)((double)(end->when.tv_sec - start->when.tv_sec) * 1e3 +
				(double)(end->when.tv_nsec - start->when.tv_nsec) / 1e6);
	return CUDA_SUCCESS;
}
