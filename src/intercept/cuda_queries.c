/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_queries.c -- what is asked about pointers
 *
 * The one kind of call that may not reach the driver: where memory knows what it would say (memory/queries.h).
 */
#include "base/statistics.h"
#include "intercept/entry_points.h"
#include "memory/driver.h"
#include "memory/memory.h"
#include "memory/queries.h"

WRAP(cuPointerGetAttribute, (data, attribute, address), void *data, CUpointer_attribute attribute,
     CUdeviceptr address)
{
	if (!queries_are_on())
		return forward(data, attribute, address);
	return queries_get(forward, data, attribute, address);
}

WRAP(cuPointerGetAttributes, (count, attributes, data, address), unsigned int count,
     CUpointer_attribute *attributes, void **data, CUdeviceptr address)
{
	if (!queries_are_on())
		return forward(count, attributes, data, address);
	return queries_get_list(forward, count, attributes, data, address);
}

WRAP(cuMemGetAddressRange_v2, (base, size, address), CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
	if (!queries_are_on())
		return forward(base, size, address);
	return queries_get_range(forward, base, size, address);
}

WRAP(cuPointerSetAttribute, (value, attribute, address), const void *value, CUpointer_attribute attribute,
     CUdeviceptr address)
{
	if (!queries_are_on())
		return forward(value, attribute, address);
	return queries_set(forward, value, attribute, address);
}

/* A handle is physical memory that somebody has to release. */
WRAP(cuMemRetainAllocationHandle, (handle, address), CUmemGenericAllocationHandle *handle, void *address)
{
	CUresult result =
		queries_are_on() ? queries_get_handle(forward, handle, address) : forward(handle, address);

	if (result == CUDA_SUCCESS && !process_is_passive())
		statistics_count(handles_made);
	return result;
}

/* ---- captures ----
 *
 * A beginning counts always, and before the driver hears of it, an end only if it is certain: with one too many a call
 * enters the driver in vain, for the rest of the process where a stream is destroyed while it is captured. An end that
 * is refused because the capture was invalidated is one if it was asked for where the capture had begun, and not on a
 * stream that had joined it, which stays as it is.
 */

#define BEGUN(call)                                                                                          \
	({                                                                                                   \
		bool counted_ = !process_is_passive();                                                       \
		CUresult result_;                                                                            \
		if (counted_)                                                                                \
			queries_capture_begins();                                                            \
		result_ = (call);                                                                            \
		if (counted_)                                                                                \
			queries_capture_begun(result_ == CUDA_SUCCESS);                                      \
		result_;                                                                                     \
	})

static CUresult ended(CUresult result, __typeof__(cuStreamIsCapturing) *ask, CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;

	if (process_is_passive())
		return result;
	if (result == CUDA_SUCCESS ||
	    (result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED && ask && ask(stream, &status) == CUDA_SUCCESS &&
	     status == CU_STREAM_CAPTURE_STATUS_NONE))
		queries_capture_ended();
	return result;
}

WRAP(cuStreamBeginCapture, (stream), CUstream stream)
{
	return BEGUN(forward(stream));
}

WRAP(cuStreamBeginCapture_ptsz, (stream), CUstream stream)
{
	return BEGUN(forward(stream));
}

WRAP(cuStreamBeginCapture_v2, (stream, mode), CUstream stream, CUstreamCaptureMode mode)
{
	return BEGUN(forward(stream, mode));
}

WRAP(cuStreamBeginCapture_v2_ptsz, (stream, mode), CUstream stream, CUstreamCaptureMode mode)
{
	return BEGUN(forward(stream, mode));
}

WRAP(cuStreamBeginCaptureToGraph, (stream, graph, dependencies, edges, count, mode), CUstream stream,
     CUgraph graph, const CUgraphNode *dependencies, const CUgraphEdgeData *edges, size_t count,
     CUstreamCaptureMode mode)
{
	return BEGUN(forward(stream, graph, dependencies, edges, count, mode));
}

WRAP(cuStreamBeginCaptureToGraph_ptsz, (stream, graph, dependencies, edges, count, mode), CUstream stream,
     CUgraph graph, const CUgraphNode *dependencies, const CUgraphEdgeData *edges, size_t count,
     CUstreamCaptureMode mode)
{
	return BEGUN(forward(stream, graph, dependencies, edges, count, mode));
}

WRAP(cuStreamEndCapture, (stream, graph), CUstream stream, CUgraph *graph)
{
	return ended(forward(stream, graph), driver_calls()->cuStreamIsCapturing, stream);
}

WRAP(cuStreamEndCapture_ptsz, (stream, graph), CUstream stream, CUgraph *graph)
{
	return ended(forward(stream, graph), driver_calls()->cuStreamIsCapturing_ptsz, stream);
}
