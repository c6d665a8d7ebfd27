/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_pool.c -- stream-ordered memory, and memory of graphs
 *
 * While a stream is captured these calls add graph nodes and neither allocate nor free. A captured
 * allocation returns an address without memory until the graph runs, and a captured free refuses
 * ordinary memory (measured). Neither changes a record.
 */
#include "intercept/wrappers.h"
#include "memory/driver.h"
#include "report/statistics.h"

WRAP(cuMemAllocAsync, (address, size, stream), CUdeviceptr *address, size_t size, CUstream stream)
{
	return wrapper_allocated(WRAPPER_RETRY(KEEP_POOL, size, forward(address, size, stream)),
				 ALLOCATION_POOL, address, size);
}

WRAP_LIKE(cuMemAllocAsync_ptsz, cuMemAllocAsync, (address, size, stream), CUdeviceptr *address,
	  size_t size, CUstream stream)

WRAP(cuMemAllocFromPoolAsync, (address, size, pool, stream), CUdeviceptr *address, size_t size,
     CUmemoryPool pool, CUstream stream)
{
	return wrapper_allocated(
		WRAPPER_RETRY(KEEP_POOL, size, forward(address, size, pool, stream)),
		ALLOCATION_POOL, address, size);
}

WRAP_LIKE(cuMemAllocFromPoolAsync_ptsz, cuMemAllocFromPoolAsync, (address, size, pool, stream),
	  CUdeviceptr *address, size_t size, CUmemoryPool pool, CUstream stream)

/* State of the stream's capture. ACTIVE also for the legacy stream while a capture blocks it.
 * cuStreamIsCapturing disturbs no capture (measured). */
static CUstreamCaptureStatus cuda_pool_capture(__typeof__(cuStreamIsCapturing) *query,
					       CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUresult result = query ? query(stream, &status) : CUDA_SUCCESS;

	if (result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
		return CU_STREAM_CAPTURE_STATUS_ACTIVE;
	return result == CUDA_SUCCESS ? status : CU_STREAM_CAPTURE_STATUS_NONE;
}

/* Work on the stream may still use the memory, but from now on the caller must not send it (cuda.h:
 * even pointer queries are undefined). So the freeing event precedes the call, unless the driver is
 * going to refuse: a refusal must not cost client MRs. */
static CUresult cuda_pool_free_async(__typeof__(cuMemFreeAsync) *forward,
				     __typeof__(cuStreamIsCapturing) *query, CUdeviceptr address,
				     CUstream stream)
{
	CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
	struct allocation live;
	CUresult result;

	address = keep_visible(address);
	if (!process_is_passive() && memory_find(address, &live))
		capture = cuda_pool_capture(query, stream);
	/* A captured stream refuses this memory, and that of a lost capture all memory. The effect
	 * of a null address on a captured stream is unknown, so no probe call is made. */
	if (capture != CU_STREAM_CAPTURE_STATUS_NONE) {
		result = forward(address, stream);
		/* Another thread may have ended the capture before the driver handled the call. */
		if (result == CUDA_SUCCESS)
			memory_freed(&live);
		return result;
	}
	return WRAPPER_FREE(FREE_DEVICE, address, forward(0, stream), forward(address, stream));
}

WRAP(cuMemFreeAsync, (address, stream), CUdeviceptr address, CUstream stream)
{
	return cuda_pool_free_async(forward, driver_calls()->cuStreamIsCapturing, address, stream);
}

WRAP(cuMemFreeAsync_ptsz, (address, stream), CUdeviceptr address, CUstream stream)
{
	return cuda_pool_free_async(forward, driver_calls()->cuStreamIsCapturing_ptsz, address,
				    stream);
}

/* These calls keep memory that is in use. The driver has just scanned the pool, so this is a cheap
 * moment to detect missed frees among the records. */
static CUresult cuda_pool_after_trim(CUresult result)
{
	if (result == CUDA_SUCCESS && !process_is_passive())
		memory_check_pools();
	return result;
}

WRAP(cuMemPoolTrimTo, (pool, bytes), CUmemoryPool pool, size_t bytes)
{
	return cuda_pool_after_trim(forward(pool, bytes));
}

WRAP(cuMemPoolDestroy, (pool), CUmemoryPool pool)
{
	return cuda_pool_after_trim(forward(pool));
}

WRAP(cuMemPoolGetAttribute, (pool, attribute, value), CUmemoryPool pool,
     CUmemPool_attribute attribute, void *value)
{
	CUresult result = forward(pool, attribute, value);

	if (result == CUDA_SUCCESS && keep_is_on())
		keep_pool_read(pool, attribute, value);
	return result;
}

WRAP(cuDeviceGraphMemTrim, (device), CUdevice device)
{
	return cuda_pool_after_trim(forward(device));
}

/* The address is valid from now on; the memory behind it changes with each launch. */
static CUresult cuda_pool_add_node(CUresult result, const CUDA_MEM_ALLOC_NODE_PARAMS *allocates)
{
	if (result == CUDA_SUCCESS && allocates && !process_is_passive()) {
		statistics_count(graph_allocations);
		memory_reserved(allocates->dptr, allocates->bytesize);
	}
	return result;
}

/* NULL if the node is of another type. */
static const CUDA_MEM_ALLOC_NODE_PARAMS *
cuda_pool_allocation_of(const CUgraphNodeParams *parameters)
{
	return parameters && parameters->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ? &parameters->alloc
									      : NULL;
}

WRAP(cuGraphAddMemAllocNode, (node, graph, dependencies, count, parameters), CUgraphNode *node,
     CUgraph graph, const CUgraphNode *dependencies, size_t count,
     CUDA_MEM_ALLOC_NODE_PARAMS *parameters)
{
	return cuda_pool_add_node(forward(node, graph, dependencies, count, parameters),
				  parameters);
}

WRAP(cuGraphAddNode, (node, graph, dependencies, count, parameters), CUgraphNode *node,
     CUgraph graph, const CUgraphNode *dependencies, size_t count, CUgraphNodeParams *parameters)
{
	return cuda_pool_add_node(forward(node, graph, dependencies, count, parameters),
				  cuda_pool_allocation_of(parameters));
}

WRAP(cuGraphAddNode_v2, (node, graph, dependencies, edges, count, parameters), CUgraphNode *node,
     CUgraph graph, const CUgraphNode *dependencies, const CUgraphEdgeData *edges, size_t count,
     CUgraphNodeParams *parameters)
{
	return cuda_pool_add_node(forward(node, graph, dependencies, edges, count, parameters),
				  cuda_pool_allocation_of(parameters));
}
