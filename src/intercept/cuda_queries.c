/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_queries.c -- pointer queries, and captures of streams
 *
 * The memory layer answers the queries of each message (memory/queries.h).
 */
#include <string.h>

#include "intercept/entry_points.h"
#include "memory/memory.h"
#include "memory/driver.h"
#include "memory/keep.h"
#include "memory/queries.h"
#include "report/statistics.h"

WRAP(cuPointerGetAttribute, (data, attribute, address), void *data, CUpointer_attribute attribute,
     CUdeviceptr address)
{
	return queries_get(forward, data, attribute, address);
}

WRAP(cuPointerGetAttributes, (count, attributes, data, address), unsigned int count,
     CUpointer_attribute *attributes, void **data, CUdeviceptr address)
{
	return queries_get_list(forward, count, attributes, data, address);
}

/* Open MPI asks for the handle of each message's GPU memory. */
WRAP(cuMemRetainAllocationHandle, (handle, address), CUmemGenericAllocationHandle *handle,
     void *address)
{
	return queries_get_handle(forward, handle, address);
}

/* Kept memory has no range, no handle, and no attribute to set: to the program it is freed. */
WRAP(cuMemGetAddressRange_v2, (base, size, address), CUdeviceptr *base, size_t *size,
     CUdeviceptr address)
{
	if (queries_are_on())
		statistics_tally(TALLY_queries_forwarded);
	return forward(base, size, keep_visible(address));
}

WRAP(cuPointerSetAttribute, (value, attribute, address), const void *value,
     CUpointer_attribute attribute, CUdeviceptr address)
{
	CUresult result = forward(value, attribute, keep_visible(address));
	unsigned int on;

	if (result == CUDA_SUCCESS && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS &&
	    !process_is_passive()) {
		memcpy(&on, value, sizeof(on));
		if (!on)
			statistics_count(sync_off);
	}
	return result;
}

/* In a context of the interface before CUDA 3.2 the driver's answers differ (measured). */
WRAP(cuCtxCreate, (context, flags, device), CUcontext *context, unsigned int flags, CUdevice device)
{
	CUresult result = forward(context, flags, device);

	if (result == CUDA_SUCCESS && !process_is_passive())
		queries_end();
	return result;
}

/* ---- captures ----
 *
 * A begin is counted before the driver handles it; an end only if certain. One count too many costs
 * needless driver calls, for the rest of the process if a stream is destroyed during its capture.
 * An end that the driver refuses because the capture was invalidated still counts on the stream
 * where the capture began. It does not count on a stream that joined the capture: that stream keeps
 * its status.
 */

static CUresult cuda_queries_capture_ended(CUresult result, __typeof__(cuStreamIsCapturing) *query,
					   CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;

	if (process_is_passive() && !process_observes())
		return result;
	if (result == CUDA_SUCCESS ||
	    (result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED && query &&
	     query(stream, &status) == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_NONE))
		captures_ended();
	return result;
}

WRAP(cuStreamBeginCapture, (stream), CUstream stream)
{
	bool counted = captures_begin();

	return captures_begun(counted, forward(stream));
}

WRAP_LIKE(cuStreamBeginCapture_ptsz, cuStreamBeginCapture, (stream), CUstream stream)

WRAP(cuStreamBeginCapture_v2, (stream, mode), CUstream stream, CUstreamCaptureMode mode)
{
	bool counted = captures_begin();

	return captures_begun(counted, forward(stream, mode));
}

WRAP_LIKE(cuStreamBeginCapture_v2_ptsz, cuStreamBeginCapture_v2, (stream, mode), CUstream stream,
	  CUstreamCaptureMode mode)

WRAP(cuStreamBeginCaptureToGraph, (stream, graph, dependencies, edges, count, mode),
     CUstream stream, CUgraph graph, const CUgraphNode *dependencies, const CUgraphEdgeData *edges,
     size_t count, CUstreamCaptureMode mode)
{
	bool counted = captures_begin();

	return captures_begun(counted, forward(stream, graph, dependencies, edges, count, mode));
}

WRAP_LIKE(cuStreamBeginCaptureToGraph_ptsz, cuStreamBeginCaptureToGraph,
	  (stream, graph, dependencies, edges, count, mode), CUstream stream, CUgraph graph,
	  const CUgraphNode *dependencies, const CUgraphEdgeData *edges, size_t count,
	  CUstreamCaptureMode mode)

WRAP(cuStreamEndCapture, (stream, graph), CUstream stream, CUgraph *graph)
{
	return cuda_queries_capture_ended(forward(stream, graph),
					  driver_calls()->cuStreamIsCapturing, stream);
}

WRAP(cuStreamEndCapture_ptsz, (stream, graph), CUstream stream, CUgraph *graph)
{
	return cuda_queries_capture_ended(forward(stream, graph),
					  driver_calls()->cuStreamIsCapturing_ptsz, stream);
}
