/* SPDX-License-Identifier: BSD-3-Clause */
/* graphics.c -- buffers of a graphics interface, which are memory while they are mapped
 *
 * A program gets hold of one by cuGraphicsGLRegisterBuffer, as of cudaGL.h. Here every number is a buffer of OpenGL's;
 * a real driver knows none where no context of OpenGL's is current. None of it has been
 * measured: the GPU machines at hand have no such context.
 */
#include <stdlib.h>

#include "sim.h"

#define BUFFER_SIZE 65536

/* Never given back, so that a stale handle is recognised. */
struct CUgraphicsResource_st {
	struct CUgraphicsResource_st *next;
	uint64_t base;
	uint64_t id; /* 0: not mapped. In a context of the old interface it is no more than an address. */
	bool alive;
};

static struct CUgraphicsResource_st *resources;

static bool is_resource(CUgraphicsResource resource)
{
	const struct CUgraphicsResource_st *known = resources;

	while (known && known != resource)
		known = known->next;
	return known && known->alive;
}

/* Its prototype needs OpenGL's header. */
extern CUresult cuGraphicsGLRegisterBuffer(CUgraphicsResource *resource, unsigned int buffer,
					   unsigned int flags);
CUresult cuGraphicsGLRegisterBuffer(CUgraphicsResource *resource, unsigned int buffer, unsigned int flags)
{
	CUcontext context;
	CUresult result = sim_enter_context(&context);

	(void)buffer;
	if (result != CUDA_SUCCESS)
		return result;
	if (!resource || flags > 2)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	*resource = calloc(1, sizeof(**resource));
	if (!*resource)
		return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
	(*resource)->next = resources;
	(*resource)->alive = true;
	resources = *resource;
	return sim_leave(CUDA_SUCCESS);
}

static void unmap(CUgraphicsResource resource)
{
	struct sim_allocation *allocation = sim_find(resource->base);

	if (allocation && allocation->buffer_id == resource->id)
		sim_free(allocation);
	resource->base = 0;
}

/* Whether all of them are there, and mapped or not as they have to be. */
static CUresult check(unsigned int count, CUgraphicsResource *wanted, bool mapped)
{
	if (!count || !wanted)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < count; i++) {
		if (!is_resource(wanted[i]))
			return CUDA_ERROR_INVALID_HANDLE;
		if (!!wanted[i]->base != mapped)
			return mapped ? CUDA_ERROR_NOT_MAPPED : CUDA_ERROR_ALREADY_MAPPED;
	}
	return CUDA_SUCCESS;
}

CUresult cuGraphicsMapResources(unsigned int count, CUgraphicsResource *mapped, CUstream stream)
{
	const struct sim_allocation *allocation;
	CUcontext context;
	CUresult result = sim_enter_context(&context);

	(void)stream;
	if (result != CUDA_SUCCESS)
		return result;
	result = check(count, mapped, false);
	for (unsigned int i = 0; i < count && result == CUDA_SUCCESS; i++) {
		allocation =
			context->old ? NULL : sim_allocate(context->device, context, SIM_GLOBAL, BUFFER_SIZE);
		if (!allocation && !context->old)
			return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
		mapped[i]->base = allocation ? allocation->base : sim_old_addresses(BUFFER_SIZE);
		mapped[i]->id = allocation ? allocation->buffer_id : 0;
	}
	return sim_leave(result);
}

CUresult cuGraphicsMapResources_ptsz(unsigned int count, CUgraphicsResource *mapped, CUstream stream)
{
	return cuGraphicsMapResources(count, mapped, stream);
}

CUresult cuGraphicsUnmapResources(unsigned int count, CUgraphicsResource *mapped, CUstream stream)
{
	CUcontext context;
	CUresult result = sim_enter_context(&context);

	(void)stream;
	if (result != CUDA_SUCCESS)
		return result;
	result = check(count, mapped, true);
	for (unsigned int i = 0; i < count && result == CUDA_SUCCESS; i++)
		unmap(mapped[i]);
	return sim_leave(result);
}

CUresult cuGraphicsUnregisterResource(CUgraphicsResource resource)
{
	CUcontext context;
	CUresult result = sim_enter_context(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!is_resource(resource))
		return sim_leave(CUDA_ERROR_INVALID_HANDLE);
	unmap(resource);
	resource->alive = false;
	return sim_leave(CUDA_SUCCESS);
}

CUresult cuGraphicsResourceGetMappedPointer_v2(CUdeviceptr *address, size_t *size,
					       CUgraphicsResource resource)
{
	CUcontext context;
	CUresult result = sim_enter_context(&context);

	if (result != CUDA_SUCCESS)
		return result;
	result = check(1, &resource, true);
	if (result != CUDA_SUCCESS)
		return sim_leave(result);
	if (address)
		*address = resource->base;
	if (size)
		*size = BUFFER_SIZE;
	return sim_leave(CUDA_SUCCESS);
}

/* Of the old interface, in whose contexts alone addresses fit. */
CUresult cuGraphicsResourceGetMappedPointer(CUdeviceptr_v1 *address, unsigned int *size,
					    CUgraphicsResource resource)
{
	CUdeviceptr wide;
	size_t bytes;
	CUcontext context;
	CUresult result = sim_enter_context(&context);

	if (result != CUDA_SUCCESS)
		return result;
	sim_leave(CUDA_SUCCESS);
	if (!context->old)
		return CUDA_ERROR_INVALID_CONTEXT;
	result = cuGraphicsResourceGetMappedPointer_v2(&wide, &bytes, resource);
	if (result == CUDA_SUCCESS && address)
		*address = (CUdeviceptr_v1)wide;
	if (result == CUDA_SUCCESS && size)
		*size = (unsigned int)bytes;
	return result;
}
