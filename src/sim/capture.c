/* SPDX-License-Identifier: BSD-3-Clause */
/* capture.c -- streams, and what a captured one forbids to everybody
 *
 * As measured: while a stream is captured in global mode, a call that cannot be captured fails in every thread that
 * has not exchanged its mode, and the capture is lost; in thread-local mode only in the capturing thread. A lost capture
 * forbids the same until it is ended.
 */
#include <stdlib.h>

#include "sim.h"

#define LEGACY	   ((CUstream)1)
#define PER_THREAD ((CUstream)2)

/* Never given back, so that a stale handle is recognised. */
struct CUstream_st {
	struct CUstream_st *next;
	bool alive, blocking;
	CUstreamCaptureStatus status;
	CUstreamCaptureMode mode;
	pthread_t thread; /* that began the capture */
	CUgraph graph;	  /* that was there before; NULL: its end makes one */
};

static struct CUstream_st *streams;
static __thread CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

CUstream sim_make_stream(bool blocking)
{
	struct CUstream_st *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return NULL;
	stream->next = streams;
	stream->alive = true;
	stream->blocking = blocking;
	streams = stream;
	return stream;
}

void sim_end_stream(CUstream stream)
{
	stream->alive = false;
	stream->status = CU_STREAM_CAPTURE_STATUS_NONE;
}

static bool is_default(CUstream stream)
{
	return (uintptr_t)stream <= (uintptr_t)PER_THREAD;
}

bool sim_stream_exists(CUstream stream)
{
	const struct CUstream_st *known = streams;

	if (is_default(stream))
		return true;
	while (known && known != stream)
		known = known->next;
	return known && known->alive;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	CUstreamCaptureMode before = thread_mode;
	CUresult result = sim_enter();

	if (result != CUDA_SUCCESS)
		return result;
	if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	thread_mode = *mode;
	*mode = before;
	return sim_leave(CUDA_SUCCESS);
}

static bool forbids(const struct CUstream_st *stream)
{
	bool own = pthread_equal(stream->thread, pthread_self());

	if (stream->status == CU_STREAM_CAPTURE_STATUS_NONE ||
	    stream->mode == CU_STREAM_CAPTURE_MODE_RELAXED || thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return false;
	if (stream->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL)
		return true;
	return own;
}

CUresult sim_check_uncaptured(void)
{
	CUresult result = CUDA_SUCCESS;

	for (struct CUstream_st *stream = streams; stream; stream = stream->next) {
		if (forbids(stream)) {
			stream->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
			result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		}
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

/* Whether a captured stream and the legacy one would have to wait for each other. */
static bool is_entangled(CUstream stream, bool invalidate)
{
	bool found = false;

	if (stream && stream != LEGACY)
		return false;
	for (struct CUstream_st *other = streams; other; other = other->next) {
		if (!other->blocking || other->status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
			continue;
		found = true;
		if (invalidate)
			other->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
	}
	return found;
}

CUresult sim_check_stream(CUstream stream, bool *captured)
{
	*captured = !is_default(stream) && stream->status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
	return is_entangled(stream, true) ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
	CUresult result = sim_enter();

	if (result != CUDA_SUCCESS)
		return result;
	if (!status)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	if (!sim_stream_exists(stream))
		return sim_leave(CUDA_ERROR_INVALID_HANDLE);
	if (is_entangled(stream, false))
		return sim_leave(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	*status = is_default(stream) ? CU_STREAM_CAPTURE_STATUS_NONE : stream->status;
	return sim_leave(CUDA_SUCCESS);
}

/* What the thread's default stream would record nobody here launches: it is refused like the legacy one. */
static CUresult begin(CUstream stream, CUgraph graph, CUstreamCaptureMode mode)
{
	if (is_default(stream))
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (!sim_stream_exists(stream))
		return CUDA_ERROR_INVALID_HANDLE;
	if (stream->status != CU_STREAM_CAPTURE_STATUS_NONE || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	stream->status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
	stream->mode = mode;
	stream->thread = pthread_self();
	stream->graph = graph;
	return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
	CUcontext context;
	CUresult result = sim_enter_context(&context);

	return result != CUDA_SUCCESS ? result : sim_leave(begin(stream, NULL, mode));
}

/* Of before there were modes: it forbids to everybody. */
CUresult cuStreamBeginCapture(CUstream stream)
{
	return cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

/* Nothing of what the stream did is kept, so what it would depend on is of no account. */
CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *dependencies,
				     const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode)
{
	CUcontext context;
	CUresult result = sim_enter_context(&context);

	(void)edges;
	if (result != CUDA_SUCCESS)
		return result;
	if (!sim_graph_exists(graph) || (count && !dependencies))
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	return sim_leave(begin(stream, graph, mode));
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
	CUcontext context;
	CUresult result = sim_enter_context(&context);
	CUstreamCaptureStatus status;

	if (result != CUDA_SUCCESS)
		return result;
	if (is_default(stream) || !sim_stream_exists(stream) || !graph)
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

/* ---- the forms in which no stream means the thread's own ---- */

static CUstream own(CUstream stream)
{
	return stream ? stream : PER_THREAD;
}

CUresult cuStreamIsCapturing_ptsz(CUstream stream, CUstreamCaptureStatus *status)
{
	return cuStreamIsCapturing(own(stream), status);
}

CUresult cuStreamBeginCapture_ptsz(CUstream stream)
{
	return cuStreamBeginCapture(own(stream));
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode)
{
	return cuStreamBeginCapture_v2(own(stream), mode);
}

CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph, const CUgraphNode *dependencies,
					  const CUgraphEdgeData *edges, size_t count,
					  CUstreamCaptureMode mode)
{
	return cuStreamBeginCaptureToGraph(own(stream), graph, dependencies, edges, count, mode);
}

CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph)
{
	return cuStreamEndCapture(own(stream), graph);
}
