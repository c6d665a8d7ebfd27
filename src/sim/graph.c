/* SPDX-License-Identifier: BSD-3-Clause */
/* graph.c -- memory allocations of graphs
 *
 * A graph's allocation has its address from cuGraphAddMemAllocNode on, and memory from each launch
 * on, with a new BUFFER_ID each time (measured). Captured stream operations are not recorded.
 */
#include <stdlib.h>

#include "sim.h"

/* Nodes and addresses are never freed. */
struct CUgraphNode_st {
	struct CUgraphNode_st *next;
	uint64_t base, size;
	int device;
};

struct CUgraph_st {
	struct sim_object object;
	struct CUgraphNode_st *nodes;
};

struct CUgraphExec_st {
	struct sim_object object;
	CUgraph graph;
};

struct sim_captured {
	struct sim_captured *next;
	uint64_t base;
};

static struct sim_object *graphs, *execs;
static struct sim_captured *captures;

uint64_t sim_capture_allocation(uint64_t size)
{
	struct sim_captured *captured = calloc(1, sizeof(*captured));

	if (!captured)
		return 0;
	captured->base = sim_reserve_addresses(sim_round_up(size, SIM_BLOCK));
	captured->next = captures;
	captures = captured;
	return captured->base;
}

bool sim_is_captured_allocation(uint64_t address)
{
	const struct sim_captured *captured = captures;

	while (captured && captured->base != address)
		captured = captured->next;
	return captured != NULL;
}

bool sim_graph_exists(CUgraph graph)
{
	return sim_is_live(graphs, graph);
}

SIM_CALL(cuGraphCreate, (graph, flags), CUgraph *graph, unsigned int flags)
{
	if (!graph || flags)
		return CUDA_ERROR_INVALID_VALUE;
	*graph = sim_make_object(&graphs, sizeof(**graph));
	return *graph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_CALL(cuGraphDestroy, (graph), CUgraph graph)
{
	if (!sim_graph_exists(graph))
		return CUDA_ERROR_INVALID_VALUE;
	graph->object.live = false;
	return CUDA_SUCCESS;
}

SIM_CALL(cuGraphAddMemAllocNode, (node, graph, dependencies, count, parameters), CUgraphNode *node,
	 CUgraph graph, const CUgraphNode *dependencies, size_t count,
	 CUDA_MEM_ALLOC_NODE_PARAMS *parameters)
{
	(void)dependencies;
	(void)count;
	if (!node || !sim_graph_exists(graph) || !parameters || !parameters->bytesize ||
	    parameters->poolProps.location.id < 0 ||
	    parameters->poolProps.location.id >= sim_device_count)
		return CUDA_ERROR_INVALID_VALUE;
	*node = calloc(1, sizeof(**node));
	if (!*node)
		return CUDA_ERROR_OUT_OF_MEMORY;
	**node = (struct CUgraphNode_st){ .next = graph->nodes,
					  .base = sim_reserve_addresses(
						  sim_round_up(parameters->bytesize, SIM_BLOCK)),
					  .size = parameters->bytesize,
					  .device = parameters->poolProps.location.id };
	graph->nodes = *node;
	parameters->dptr = (*node)->base;
	return (*node)->base ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Support memory allocation nodes only. */
CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
			size_t count, CUgraphNodeParams *parameters)
{
	if (parameters && parameters->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		return CUDA_ERROR_NOT_SUPPORTED;
	return cuGraphAddMemAllocNode(node, graph, dependencies, count,
				      parameters ? &parameters->alloc : NULL);
}

SIM_FORWARD(cuGraphAddNode_v2, cuGraphAddNode, (node, graph, dependencies, count, parameters),
	    CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
	    const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *parameters);

SIM_CONTEXT_CALL(cuGraphInstantiateWithFlags, (exec, graph, flags), CUgraphExec *exec,
		 CUgraph graph, unsigned long long flags)
{
	(void)flags;
	if (!exec || !sim_graph_exists(graph))
		return CUDA_ERROR_INVALID_VALUE;
	*exec = sim_has_room(context->device) ? sim_make_object(&execs, sizeof(**exec)) : NULL;
	if (!*exec)
		return CUDA_ERROR_OUT_OF_MEMORY;
	(*exec)->graph = graph;
	return CUDA_SUCCESS;
}

SIM_FORWARD(cuGraphInstantiate, cuGraphInstantiateWithFlags, (exec, graph, 0), CUgraphExec *exec,
	    CUgraph graph, CUgraphNode *node, char *text, size_t size);
SIM_FORWARD(cuGraphInstantiate_v2, cuGraphInstantiateWithFlags, (exec, graph, 0), CUgraphExec *exec,
	    CUgraph graph, CUgraphNode *node, char *text, size_t size);
SIM_FORWARD(cuGraphInstantiateWithParams, cuGraphInstantiateWithFlags, (exec, graph, 0),
	    CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *parameters);
SIM_FORWARD(cuGraphInstantiateWithParams_ptsz, cuGraphInstantiateWithFlags, (exec, graph, 0),
	    CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *parameters);

SIM_CALL(cuGraphExecDestroy, (exec), CUgraphExec exec)
{
	if (!sim_is_live(execs, exec))
		return CUDA_ERROR_INVALID_VALUE;
	exec->object.live = false;
	return CUDA_SUCCESS;
}

/* Fail while an allocation of an earlier launch is live. */
SIM_CONTEXT_CALL(cuGraphLaunch, (exec, stream), CUgraphExec exec, CUstream stream)
{
	if (!sim_is_live(execs, exec) || !sim_stream_exists(stream))
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_has_room(context->device))
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (const struct CUgraphNode_st *node = exec->graph->nodes; node; node = node->next) {
		if (sim_find_attached(node->base))
			return CUDA_ERROR_INVALID_VALUE;
		if (!sim_attach(SIM_GRAPH, NULL, node->device, node->base, -1, 0, node->size))
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

SIM_FORWARD(cuGraphLaunch_ptsz, cuGraphLaunch, (exec, stream), CUgraphExec exec, CUstream stream);

/* The memory comes at the launch. */
SIM_CONTEXT_CALL(cuGraphUpload, (exec, stream), CUgraphExec exec, CUstream stream)
{
	if (!sim_is_live(execs, exec) || !sim_stream_exists(stream))
		return CUDA_ERROR_INVALID_VALUE;
	return sim_has_room(context->device) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_FORWARD(cuGraphUpload_ptsz, cuGraphUpload, (exec, stream), CUgraphExec exec, CUstream stream);

/* No freed memory is cached: nothing to trim. */
SIM_DEVICE_CALL(cuDeviceGraphMemTrim, (device), CUdevice device)
{
	(void)device;
	return CUDA_SUCCESS;
}
