/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_pool.c -- memory in the order of a stream, and of graphs
 *
 * While a stream is captured these calls allocate and free nothing: they become nodes of a graph. What a captured
 * allocation returns is no memory before the graph runs, and a captured free refuses ordinary memory (measured),
 * so neither touches a record.
 */
#include "base/statistics.h"
#include "intercept/wrappers.h"
#include "memory/driver.h"

WRAP(cuMemAllocAsync, (address, size, stream), CUdeviceptr *address, size_t size, CUstream stream)
{
	CUresult result = forward(address, size, stream);

	after_allocation(result, ALLOCATION_POOL, address, size);
	return result;
}

WRAP(cuMemAllocAsync_ptsz, (address, size, stream), CUdeviceptr *address, size_t size, CUstream stream)
{
	CUresult result = forward(address, size, stream);

	after_allocation(result, ALLOCATION_POOL, address, size);
	return result;
}

WRAP(cuMemAllocFromPoolAsync, (address, size, pool, stream), CUdeviceptr *address, size_t size,
     CUmemoryPool pool, CUstream stream)
{
	CUresult result = forward(address, size, pool, stream);

	after_allocation(result, ALLOCATION_POOL, address, size);
	return result;
}

WRAP(cuMemAllocFromPoolAsync_ptsz, (address, size, pool, stream), CUdeviceptr *address, size_t size,
     CUmemoryPool pool, CUstream stream)
{
	CUresult result = forward(address, size, pool, stream);

	after_allocation(result, ALLOCATION_POOL, address, size);
	return result;
}

/* Whether the stream is captured, or, as the legacy stream beside a captured one, useless for now. The question
 * itself disturbs no capture (measured). */
static bool is_captured(__typeof__(cuStreamIsCapturing) *ask, CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUresult result = ask ? ask(stream, &status) : CUDA_SUCCESS;

	return result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ||
	       (result == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE);
}

/* The memory may be in use until the stream gets there, but from the call on it is no longer the caller's to
 * send (cuda.h: even pointer queries are undefined afterwards). So it ends before the call, unless the driver is
 * going to refuse: a registration that clients hold must not be lost by that. */
static CUresult free_in_order(__typeof__(cuMemFreeAsync) *forward, __typeof__(cuStreamIsCapturing) *ask,
			      CUdeviceptr address, CUstream stream)
{
	struct allocation kept;
	struct pending_free pending;
	CUresult result;

	/* A captured stream refuses this memory. Of null nobody knows what it makes: it is not asked with that. */
	if (!process_is_passive() && memory_find(address, &kept) && is_captured(ask, stream)) {
		result = forward(address, stream);
		/* Another thread may have ended the capture before the driver was asked. */
		if (result == CUDA_SUCCESS)
			memory_freed(&kept);
		return result;
	}
	result = REFUSAL_BY_CAPTURE(address, forward(0, stream));
	if (result != CUDA_SUCCESS)
		return result;
	before_free(&pending, address);
	return after_free(&pending, forward(address, stream));
}

WRAP(cuMemFreeAsync, (address, stream), CUdeviceptr address, CUstream stream)
{
	return free_in_order(forward, driver_calls()->cuStreamIsCapturing, address, stream);
}

WRAP(cuMemFreeAsync_ptsz, (address, stream), CUdeviceptr address, CUstream stream)
{
	return free_in_order(forward, driver_calls()->cuStreamIsCapturing_ptsz, address, stream);
}

/* A pool keeps what is in use, and so do these calls. But the driver has just gone through all of it, so it is a
 * good time to ask whether what is recorded is still in use: a free that nobody saw is found here. */
static CUresult after_cleaning(CUresult result)
{
	if (result == CUDA_SUCCESS && !process_is_passive())
		memory_check_pools();
	return result;
}

WRAP(cuMemPoolTrimTo, (pool, bytes), CUmemoryPool pool, size_t bytes)
{
	return after_cleaning(forward(pool, bytes));
}

WRAP(cuMemPoolDestroy, (pool), CUmemoryPool pool)
{
	return after_cleaning(forward(pool));
}

WRAP(cuDeviceGraphMemTrim, (device), CUdevice device)
{
	return after_cleaning(forward(device));
}

/* The address stands from now on; the memory behind it is another one at each launch. */
static CUresult added(CUresult result, const CUDA_MEM_ALLOC_NODE_PARAMS *allocates)
{
	if (result == CUDA_SUCCESS && allocates && !process_is_passive()) {
		statistics_count(graph_allocations);
		memory_graph_taken(allocates->dptr, allocates->bytesize);
	}
	return result;
}

/* NULL: a node of another kind. */
static const CUDA_MEM_ALLOC_NODE_PARAMS *allocating(const CUgraphNodeParams *parameters)
{
	return parameters && parameters->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ? &parameters->alloc : NULL;
}

WRAP(cuGraphAddMemAllocNode, (node, graph, dependencies, count, parameters), CUgraphNode *node, CUgraph graph,
     const CUgraphNode *dependencies, size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *parameters)
{
	return added(forward(node, graph, dependencies, count, parameters), parameters);
}

WRAP(cuGraphAddNode, (node, graph, dependencies, count, parameters), CUgraphNode *node, CUgraph graph,
     const CUgraphNode *dependencies, size_t count, CUgraphNodeParams *parameters)
{
	return added(forward(node, graph, dependencies, count, parameters), allocating(parameters));
}

WRAP(cuGraphAddNode_v2, (node, graph, dependencies, edges, count, parameters), CUgraphNode *node,
     CUgraph graph, const CUgraphNode *dependencies, const CUgraphEdgeData *edges, size_t count,
     CUgraphNodeParams *parameters)
{
	return added(forward(node, graph, dependencies, edges, count, parameters), allocating(parameters));
}
