/* SPDX-License-Identifier: BSD-3-Clause */
/* stream.c -- streams and events of a device that runs all work at once */
#include <stdlib.h>
#include <time.h>

#include "sim.h"

/* Never freed: a stale handle is recognised. */
struct CUevent_st {
	struct CUevent_st *next;
	struct timespec when;
	bool alive, recorded;
};

static struct CUevent_st *events;

static bool stream_is_event(CUevent event)
{
	const struct CUevent_st *entry = events;

	while (entry && entry != event)
		entry = entry->next;
	return entry && entry->alive;
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
	CUcontext context;
	CUresult result = sim_enter_context(&context);

	(void)priority;
	if (result != CUDA_SUCCESS)
		return result;
	if (!stream || flags > 1)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	*stream = sim_make_stream(!flags);
	return sim_leave(*stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
	return cuStreamCreateWithPriority(stream, flags, 0);
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
	CUresult result = sim_enter();

	if (result != CUDA_SUCCESS)
		return result;
	if ((uintptr_t)stream <= 2 || !sim_stream_exists(stream))
		return sim_leave(CUDA_ERROR_INVALID_HANDLE);
	sim_end_stream(stream);
	return sim_leave(CUDA_SUCCESS);
}

CUresult cuStreamDestroy(CUstream stream)
{
	return cuStreamDestroy_v2(stream);
}

static CUresult stream_check(CUstream stream)
{
	CUcontext context;
	CUresult result = sim_enter_context(&context);

	if (result != CUDA_SUCCESS)
		return result;
	return sim_leave(sim_stream_exists(stream) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

CUresult cuStreamSynchronize(CUstream stream)
{
	return stream_check(stream);
}

CUresult cuStreamQuery(CUstream stream)
{
	return stream_check(stream);
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
	CUcontext context;
	CUresult result = sim_enter_context(&context);

	(void)flags;
	if (result != CUDA_SUCCESS)
		return result;
	return sim_leave(sim_stream_exists(stream) && stream_is_event(event)
				 ? CUDA_SUCCESS
				 : CUDA_ERROR_INVALID_HANDLE);
}

CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
	CUcontext context;
	CUresult result = sim_enter_context(&context);

	(void)flags;
	if (result != CUDA_SUCCESS)
		return result;
	if (!event)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	*event = calloc(1, sizeof(**event));
	if (!*event)
		return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
	**event = (struct CUevent_st){ .next = events, .alive = true };
	events = *event;
	return sim_leave(CUDA_SUCCESS);
}

CUresult cuEventDestroy_v2(CUevent event)
{
	CUresult result = sim_enter();

	if (result != CUDA_SUCCESS)
		return result;
	if (!stream_is_event(event))
		return sim_leave(CUDA_ERROR_INVALID_HANDLE);
	event->alive = false;
	return sim_leave(CUDA_SUCCESS);
}

CUresult cuEventDestroy(CUevent event)
{
	return cuEventDestroy_v2(event);
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
	CUcontext context;
	CUresult result = sim_enter_context(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!stream_is_event(event) || !sim_stream_exists(stream))
		return sim_leave(CUDA_ERROR_INVALID_HANDLE);
	clock_gettime(CLOCK_MONOTONIC, &event->when);
	event->recorded = true;
	return sim_leave(CUDA_SUCCESS);
}

static CUresult stream_check_event(CUevent event)
{
	CUresult result = sim_enter();

	if (result != CUDA_SUCCESS)
		return result;
	return sim_leave(stream_is_event(event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

CUresult cuEventQuery(CUevent event)
{
	return stream_check_event(event);
}

CUresult cuEventSynchronize(CUevent event)
{
	return stream_check_event(event);
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
	CUresult result = sim_enter();

	if (result != CUDA_SUCCESS)
		return result;
	if (!milliseconds)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	if (!stream_is_event(start) || !stream_is_event(end) || !start->recorded || !end->recorded)
		return sim_leave(CUDA_ERROR_INVALID_HANDLE);
	*milliseconds = (float)((double)(end->when.tv_sec - start->when.tv_sec) * 1e3 +
				(double)(end->when.tv_nsec - start->when.tv_nsec) / 1e6);
	return sim_leave(CUDA_SUCCESS);
}
