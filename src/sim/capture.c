/* SPDX-License-Identifier: BSD-3-Clause */
/* capture.c -- streams, and calls that stream captures forbid
 *
 * Measured: a capture in global mode fails uncapturable calls in every thread that has not
 * exchanged its mode; the capture is lost. A capture in thread-local mode fails these calls only in
 * the capturing thread. A lost capture forbids these calls until its end.
 */
#include <stdlib.h>

#include "sim.h"

#define LEGACY	   ((CUstream)1)
#define PER_THREAD ((CUstream)2)

struct CUstream_st {
	struct sim_object object;
	bool blocking;
	CUstreamCaptureStatus status;
	CUstreamCaptureMode mode;
	pthread_t thread; /* capturing thread */
	CUgraph graph;	  /* captured into; NULL: the capture's end creates one */
};

static struct sim_object *streams;
static __thread CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

CUstream sim_make_stream(bool blocking)
{
	struct CUstream_st *stream = sim_make_object(&streams, sizeof(*stream));

	if (stream)
		stream->blocking = blocking;
	return stream;
}

void sim_end_stream(CUstream stream)
{
	stream->object.live = false;
	stream->status = CU_STREAM_CAPTURE_STATUS_NONE;
}

static bool capture_is_default(CUstream stream)
{
	return (uintptr_t)stream <= (uintptr_t)PER_THREAD;
}

bool sim_stream_exists(CUstream stream)
{
	return capture_is_default(stream) || sim_is_live(streams, stream);
}

SIM_CALL(cuThreadExchangeStreamCaptureMode, (mode), CUstreamCaptureMode *mode)
{
	CUstreamCaptureMode before = thread_mode;

	if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	thread_mode = *mode;
	*mode = before;
	return CUDA_SUCCESS;
}

static bool capture_forbids(const struct CUstream_st *stream)
{
	bool own = pthread_equal(stream->thread, pthread_self());

	if (stream->status == CU_STREAM_CAPTURE_STATUS_NONE ||
	    stream->mode == CU_STREAM_CAPTURE_MODE_RELAXED ||
	    thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return false;
	if (stream->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
	    thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL)
		return true;
	return own;
}

CUresult sim_check_uncaptured(void)
{
	CUresult result = CUDA_SUCCESS;

	for (struct sim_object *object = streams; object; object = object->next) {
		struct CUstream_st *stream = (struct CUstream_st *)object;

		if (capture_forbids(stream)) {
			stream->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
			result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		}
	}
	return result;
}

CUresult sim_lose_captures(void)
{
	CUresult result = CUDA_SUCCESS;

	for (struct sim_object *object = streams; object; object = object->next) {
		struct CUstream_st *stream = (struct CUstream_st *)object;

		if (stream->status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
			continue;
		stream->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
		result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	return result;
}

CUresult sim_uncaptured(CUresult entered)
{
	CUresult result;

	if (entered != CUDA_SUCCESS)
		return entered;
	result = sim_check_uncaptured();
	return result != CUDA_SUCCESS ? sim_leave(result) : CUDA_SUCCESS;
}

/* True if `stream` is the legacy stream and a blocking stream is being captured: both would wait
 * for each other. `invalidate`: those captures are lost. */
static bool capture_conflicts(CUstream stream, bool invalidate)
{
	bool found = false;

	if (stream && stream != LEGACY)
		return false;
	for (struct sim_object *object = streams; object; object = object->next) {
		struct CUstream_st *other = (struct CUstream_st *)object;

		if (!other->blocking || other->status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
			continue;
		found = true;
		if (invalidate)
			other->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
	}
	return found;
}

/* A lost capture refuses calls on its stream until its end (cuda.h, 901). */
CUresult sim_check_stream(CUstream stream, bool *captured)
{
	bool default_stream = capture_is_default(stream);

	*captured = !default_stream && stream->status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
	if (!default_stream && stream->status == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	return capture_conflicts(stream, true) ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}

SIM_CALL(cuStreamIsCapturing, (stream, status), CUstream stream, CUstreamCaptureStatus *status)
{
	if (!status)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_stream_exists(stream))
		return CUDA_ERROR_INVALID_HANDLE;
	if (capture_conflicts(stream, false))
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	*status = capture_is_default(stream) ? CU_STREAM_CAPTURE_STATUS_NONE : stream->status;
	return CUDA_SUCCESS;
}

/* Refuse the per-thread default stream like the legacy one: no captured work is launched here. */
static CUresult capture_begin(CUstream stream, CUgraph graph, CUstreamCaptureMode mode)
{
	if (capture_is_default(stream))
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (!sim_stream_exists(stream))
		return CUDA_ERROR_INVALID_HANDLE;
	if (stream->status != CU_STREAM_CAPTURE_STATUS_NONE ||
	    mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	stream->status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
	stream->mode = mode;
	stream->thread = pthread_self();
	stream->graph = graph;
	return CUDA_SUCCESS;
}

SIM_CONTEXT_CALL(cuStreamBeginCapture_v2, (stream, mode), CUstream stream, CUstreamCaptureMode mode)
{
	return capture_begin(stream, NULL, mode);
}

/* Predates capture modes: global mode. */
SIM_FORWARD(cuStreamBeginCapture, cuStreamBeginCapture_v2, (stream, CU_STREAM_CAPTURE_MODE_GLOBAL),
	    CUstream stream);

/* Dependencies are ignored: captured operations are not recorded. */
SIM_CONTEXT_CALL(cuStreamBeginCaptureToGraph, (stream, graph, dependencies, edges, count, mode),
		 CUstream stream, CUgraph graph, const CUgraphNode *dependencies,
		 const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode)
{
	(void)edges;
	if (!sim_graph_exists(graph) || (count && !dependencies))
		return CUDA_ERROR_INVALID_VALUE;
	return capture_begin(stream, graph, mode);
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
	CUcontext context;
	CUresult result = sim_enter_context(&context);
	CUstreamCaptureStatus status;

	if (result != CUDA_SUCCESS)
		return result;
	if (capture_is_default(stream) || !sim_stream_exists(stream) || !graph)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	status = stream->status;
	stream->status = CU_STREAM_CAPTURE_STATUS_NONE;
	*graph = NULL;
	if (status == CU_STREAM_CAPTURE_STATUS_NONE)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	if (status == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
		return sim_leave(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	*graph = stream->graph;
	sim_leave(CUDA_SUCCESS);
	return *graph ? CUDA_SUCCESS : cuGraphCreate(graph, 0);
}

/* ---- per-thread forms: stream NULL is the thread's default stream ---- */

static CUstream capture_per_thread(CUstream stream)
{
	return stream ? stream : PER_THREAD;
}

SIM_FORWARD(cuStreamIsCapturing_ptsz, cuStreamIsCapturing, (capture_per_thread(stream), status),
	    CUstream stream, CUstreamCaptureStatus *status);
SIM_FORWARD(cuStreamBeginCapture_ptsz, cuStreamBeginCapture, (capture_per_thread(stream)),
	    CUstream stream);
SIM_FORWARD(cuStreamBeginCapture_v2_ptsz, cuStreamBeginCapture_v2,
	    (capture_per_thread(stream), mode), CUstream stream, CUstreamCaptureMode mode);
SIM_FORWARD(cuStreamBeginCaptureToGraph_ptsz, cuStreamBeginCaptureToGraph,
	    (capture_per_thread(stream), graph, dependencies, edges, count, mode), CUstream stream,
	    CUgraph graph, const CUgraphNode *dependencies, const CUgraphEdgeData *edges,
	    size_t count, CUstreamCaptureMode mode);
SIM_FORWARD(cuStreamEndCapture_ptsz, cuStreamEndCapture, (capture_per_thread(stream), graph),
	    CUstream stream, CUgraph *graph);
