/* SPDX-License-Identifier: BSD-3-Clause */
/* graphics.c -- buffers of a graphics interface: device memory while mapped
 *
 * Programs register a buffer with cuGraphicsGLRegisterBuffer (cudaGL.h). Here every number is an
 * OpenGL buffer; a real driver accepts none without a current OpenGL context. Nothing here has been
 * measured: the available GPU machines have no OpenGL context.
 */
#include <stdlib.h>

#include "sim.h"

#define BUFFER_SIZE 65536

/* Never freed: a stale handle is recognised. */
struct CUgraphicsResource_st {
	struct CUgraphicsResource_st *next;
	uint64_t base;
	uint64_t id; /* BUFFER_ID of the mapping; 0: an address without memory (old interface) */
	bool alive;
};

static struct CUgraphicsResource_st *resources;

static bool graphics_is_resource(CUgraphicsResource resource)
{
	const struct CUgraphicsResource_st *entry = resources;

	while (entry && entry != resource)
		entry = entry->next;
	return entry && entry->alive;
}

/* Its prototype in cudaGL.h needs OpenGL's header. */
extern CUresult cuGraphicsGLRegisterBuffer(CUgraphicsResource *resource, unsigned int buffer,
					   unsigned int flags);
CUresult cuGraphicsGLRegisterBuffer(CUgraphicsResource *resource, unsigned int buffer,
				    unsigned int flags)
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

static void graphics_unmap(CUgraphicsResource resource)
{
	struct sim_allocation *allocation = sim_find(resource->base);

	if (allocation && allocation->buffer_id == resource->id)
		sim_free(allocation);
	resource->base = 0;
}

/* Require that all resources exist, and that all are mapped or all unmapped. */
static CUresult graphics_check(unsigned int count, CUgraphicsResource *wanted, bool mapped)
{
	if (!count || !wanted)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < count; i++) {
		if (!graphics_is_resource(wanted[i]))
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
	result = graphics_check(count, mapped, false);
	for (unsigned int i = 0; i < count && result == CUDA_SUCCESS; i++) {
		allocation = context->old ? NULL
					  : sim_allocate(context->device, context, SIM_GLOBAL,
							 BUFFER_SIZE);
		if (!allocation && !context->old)
			return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
		mapped[i]->base = allocation ? allocation->base : sim_old_addresses(BUFFER_SIZE);
		mapped[i]->id = allocation ? allocation->buffer_id : 0;
	}
	return sim_leave(result);
}

CUresult cuGraphicsMapResources_ptsz(unsigned int count, CUgraphicsResource *mapped,
				     CUstream stream)
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
	result = graphics_check(count, mapped, true);
	for (unsigned int i = 0; i < count && result == CUDA_SUCCESS; i++)
		graphics_unmap(mapped[i]);
	return sim_leave(result);
}

CUresult cuGraphicsUnregisterResource(CUgraphicsResource resource)
{
	CUcontext context;
	CUresult result = sim_enter_context(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!graphics_is_resource(resource))
		return sim_leave(CUDA_ERROR_INVALID_HANDLE);
	graphics_unmap(resource);
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
	result = graphics_check(1, &resource, true);
	if (result != CUDA_SUCCESS)
		return sim_leave(result);
	if (address)
		*address = resource->base;
	if (size)
		*size = BUFFER_SIZE;
	return sim_leave(CUDA_SUCCESS);
}

/* Work in contexts of the old interface only: other addresses exceed 32 bits. */
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
