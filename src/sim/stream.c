/* SPDX-License-Identifier: BSD-3-Clause */
/* stream.c -- streams and events of a device that runs all work but host functions at once
 *
 * An event and a stream are complete when the host functions that were enqueued before are.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sim.h"

struct CUevent_st {
	struct sim_object object;
	struct timespec when;
	CUcontext context;  /* of its creation */
	CUcontext awaited;  /* whose work it stands for; NULL: that of a stream */
	uint64_t callbacks; /* enqueued before the record */
	uint64_t id;
	unsigned int flags;
	bool recorded;
};

static struct sim_object *events;

SIM_CONTEXT_CALL(cuStreamCreateWithPriority, (stream, flags, priority), CUstream *stream,
		 unsigned int flags, int priority)
{
	(void)priority;
	if (!stream || flags > 1)
		return CUDA_ERROR_INVALID_VALUE;
	*stream = sim_has_room(context->device) ? sim_make_stream(!flags) : NULL;
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

/* On the legacy stream the call and a capture of a blocking stream would wait for each other: the
 * capture is lost (measured, also for cuEventRecord). */
SIM_CONTEXT_CALL(cuStreamSynchronize, (stream), CUstream stream)
{
	bool captured;
	CUresult result;

	if (!sim_stream_exists(stream))
		return CUDA_ERROR_INVALID_HANDLE;
	result = sim_check_stream(stream, &captured);
	if (result != CUDA_SUCCESS)
		return result;
	sim_await_callbacks(sim_enqueued_callbacks());
	return CUDA_SUCCESS;
}

SIM_CONTEXT_CALL(cuStreamQuery, (stream), CUstream stream)
{
	if (!sim_stream_exists(stream))
		return CUDA_ERROR_INVALID_HANDLE;
	return sim_callbacks_are_done(sim_enqueued_callbacks()) ? CUDA_SUCCESS
								: CUDA_ERROR_NOT_READY;
}

SIM_CONTEXT_CALL(cuStreamWaitEvent, (stream, event, flags), CUstream stream, CUevent event,
		 unsigned int flags)
{
	(void)flags;
	return sim_stream_exists(stream) && sim_is_live(events, event) ? CUDA_SUCCESS
								       : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult stream_make_event(CUcontext context, CUevent *event, unsigned int flags)
{
	static uint64_t last_id;

	*event = sim_make_object(&events, sizeof(**event));
	if (!*event)
		return CUDA_ERROR_OUT_OF_MEMORY;
	(*event)->context = context;
	(*event)->flags = flags;
	(*event)->id = ++last_id;
	return CUDA_SUCCESS;
}

/* An event between processes has no times (cuda.h of 13.0, cuEventCreate). */
SIM_CONTEXT_CALL(cuEventCreate, (event, flags), CUevent *event, unsigned int flags)
{
	if (!event || flags > 7 ||
	    ((flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING)))
		return CUDA_ERROR_INVALID_VALUE;
	return stream_make_event(context, event, flags);
}

SIM_CALL(cuEventDestroy_v2, (event), CUevent event)
{
	if (!sim_is_live(events, event))
		return CUDA_ERROR_INVALID_HANDLE;
	event->object.live = false;
	return CUDA_SUCCESS;
}

SIM_FORWARD(cuEventDestroy, cuEventDestroy_v2, (event), CUevent event);

static void stream_record(CUevent event, CUcontext awaited)
{
	clock_gettime(CLOCK_MONOTONIC, &event->when);
	event->callbacks = sim_enqueued_callbacks();
	event->awaited = awaited;
	event->recorded = true;
}

/* A captured record becomes a graph node. */
SIM_CONTEXT_CALL(cuEventRecord, (event, stream), CUevent event, CUstream stream)
{
	bool captured;
	CUresult result;

	if (!sim_is_live(events, event) || !sim_stream_exists(stream))
		return CUDA_ERROR_INVALID_HANDLE;
	result = sim_check_stream(stream, &captured);
	if (result == CUDA_SUCCESS && !captured)
		stream_record(event, NULL);
	return result;
}

/* Any capture fails the call, and is lost (cuda.h of 13.0). */
SIM_CALL(cuCtxRecordEvent, (context, event), CUcontext context, CUevent event)
{
	CUresult result;

	if (!sim_context_exists(context))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!sim_is_live(events, event) || event->context != context)
		return CUDA_ERROR_INVALID_HANDLE;
	result = sim_lose_captures();
	if (result == CUDA_SUCCESS)
		stream_record(event, context);
	return result;
}

SIM_CALL(cuEventQuery, (event), CUevent event)
{
	if (!sim_is_live(events, event))
		return CUDA_ERROR_INVALID_HANDLE;
	return sim_callbacks_are_done(event->callbacks) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

SIM_CALL(cuEventSynchronize, (event), CUevent event)
{
	if (!sim_is_live(events, event))
		return CUDA_ERROR_INVALID_HANDLE;
	sim_await_callbacks(event->callbacks);
	return sim_await_work(event->awaited);
}

SIM_CALL(cuEventElapsedTime, (milliseconds, start, end), float *milliseconds, CUevent start,
	 CUevent end)
{
	if (!milliseconds)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_is_live(events, start) || !sim_is_live(events, end) || !start->recorded ||
	    !end->recorded || ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!sim_callbacks_are_done(end->callbacks))
		return CUDA_ERROR_NOT_READY;
	*milliseconds = (float)((double)(end->when.tv_sec - start->when.tv_sec) * 1e3 +
				(double)(end->when.tv_nsec - start->when.tv_nsec) / 1e6);
	return CUDA_SUCCESS;
}

/* ---- between processes ---- */

struct stream_event_handle {
	uint64_t magic, event;
	uint64_t process;
};
_Static_assert(sizeof(struct stream_event_handle) <= sizeof(CUipcEventHandle),
	       "a handle has room for ours");
#define STREAM_EVENT_MAGIC 0x746e657665706970

SIM_CALL(cuIpcGetEventHandle, (handle, event), CUipcEventHandle *handle, CUevent event)
{
	struct stream_event_handle content = { .magic = STREAM_EVENT_MAGIC,
					       .process = (uint64_t)getpid() };

	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_is_live(events, event) || !(event->flags & CU_EVENT_INTERPROCESS))
		return CUDA_ERROR_INVALID_HANDLE;
	content.event = event->id;
	memset(handle, 0, sizeof(*handle));
	memcpy(handle, &content, sizeof(content));
	return CUDA_SUCCESS;
}

/* An opened event is complete from the beginning: host functions of its process do not delay it. */
SIM_CONTEXT_CALL(cuIpcOpenEventHandle, (event, handle), CUevent *event, CUipcEventHandle handle)
{
	struct stream_event_handle content;

	memcpy(&content, &handle, sizeof(content));
	if (!event || content.magic != STREAM_EVENT_MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	if (content.process == (uint64_t)getpid())
		return CUDA_ERROR_INVALID_CONTEXT;
	return stream_make_event(context, event, CU_EVENT_DISABLE_TIMING);
}
