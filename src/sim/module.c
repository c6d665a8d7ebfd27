/* SPDX-License-Identifier: BSD-3-Clause */
/* module.c -- modules: each has a variable "gvar", whatever the image */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define GLOBAL_SIZE 4096

/* Never freed: a stale handle is recognised. */
struct CUmod_st {
	struct CUmod_st *next;
	/* The variable's base and BUFFER_ID. The variable is freed with its module or its context,
	 * the earlier of both. */
	uint64_t base, id;
	bool alive;
};

static struct CUmod_st *modules;

static bool module_is_live(CUmodule module)
{
	const struct CUmod_st *entry = modules;

	while (entry && entry != module)
		entry = entry->next;
	return entry && entry->alive;
}

static struct sim_allocation *module_global(CUmodule module)
{
	struct sim_allocation *allocation = sim_find(module->base);

	return allocation && allocation->buffer_id == module->id ? allocation : NULL;
}

static CUresult module_load(CUcontext context, CUmodule *module)
{
	struct sim_allocation *allocation =
		sim_allocate(context->device, context, SIM_GLOBAL, GLOBAL_SIZE);
	CUmodule made = allocation ? calloc(1, sizeof(*made)) : NULL;

	if (!made) {
		if (allocation)
			sim_free(allocation);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*made = (struct CUmod_st){ .next = modules,
				   .base = allocation->base,
				   .id = allocation->buffer_id,
				   .alive = true };
	modules = made;
	*module = made;
	return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	CUcontext context;
	CUresult result = sim_enter_context(&context);

	if (result != CUDA_SUCCESS)
		return result;
	return sim_leave(module && image ? module_load(context, module) : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuModuleUnload(CUmodule module)
{
	struct sim_allocation *allocation;
	CUcontext context;
	CUresult result = sim_uncaptured(sim_enter_any_context(&context));

	if (result != CUDA_SUCCESS)
		return result;
	if (!module_is_live(module))
		return sim_leave(CUDA_ERROR_INVALID_HANDLE);
	allocation = module_global(module);
	if (allocation)
		sim_free(allocation);
	module->alive = false;
	return sim_leave(CUDA_SUCCESS);
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *size, CUmodule module, const char *name)
{
	const struct sim_allocation *allocation;
	CUcontext context;
	CUresult result = sim_enter_any_context(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if ((!address && !size) || !name)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	if (!module_is_live(module))
		return sim_leave(CUDA_ERROR_INVALID_HANDLE);
	allocation = strcmp(name, "gvar") ? NULL : module_global(module);
	if (address)
		*address = allocation ? allocation->base : 0;
	if (size)
		*size = allocation ? allocation->size : 0;
	return sim_leave(allocation ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND);
}
