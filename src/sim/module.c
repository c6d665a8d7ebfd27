/* SPDX-License-Identifier: BSD-3-Clause */
/* module.c -- modules: each has a variable "gvar", whatever the image */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim.h"

#define GLOBAL_SIZE 4096

/* Never freed: a stale handle is recognised. In a context of the old interface the variable is an
 * address without memory. */
struct CUmod_st {
	struct CUmod_st *next;
	/* The variable's base and BUFFER_ID. The variable is freed with its module or its context,
	 * the earlier of both. */
	uint64_t base, id;
	CUcontext old;
	bool alive;
};

static struct CUmod_st *modules;

bool sim_file_is_there(const char *file)
{
	return !access(file, R_OK);
}

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
	struct sim_allocation *allocation = NULL;
	CUmodule made = calloc(1, sizeof(*made));

	if (made && !context->old)
		allocation = sim_allocate(context->device, context, SIM_GLOBAL, GLOBAL_SIZE);
	if (!made || (!context->old && !allocation)) {
		free(made);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*made = (struct CUmod_st){ .next = modules,
				   .base = allocation ? allocation->base
						      : sim_old_addresses(GLOBAL_SIZE),
				   .id = allocation ? allocation->buffer_id : 0,
				   .old = allocation ? NULL : context,
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

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count,
			    CUjit_option *options, void **values)
{
	(void)count;
	(void)options;
	(void)values;
	return cuModuleLoadData(module, image);
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
	return cuModuleLoadData(module, image);
}

CUresult cuModuleLoad(CUmodule *module, const char *file)
{
	CUcontext context;
	CUresult result = sim_enter_context(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!module || !file)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	return sim_leave(sim_file_is_there(file) ? module_load(context, module)
						 : CUDA_ERROR_FILE_NOT_FOUND);
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

CUresult cuModuleGetGlobal(CUdeviceptr_v1 *address, unsigned int *size, CUmodule module,
			   const char *name)
{
	CUcontext context;
	bool found;
	CUresult result = sim_enter_context(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!context->old)
		return sim_leave(CUDA_ERROR_INVALID_CONTEXT);
	if ((!address && !size) || !name)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	if (!module_is_live(module))
		return sim_leave(CUDA_ERROR_INVALID_HANDLE);
	found = module->old && module->old->object.live && !strcmp(name, "gvar");
	if (address)
		*address = found ? (CUdeviceptr_v1)module->base : 0;
	if (size)
		*size = found ? GLOBAL_SIZE : 0;
	return sim_leave(found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND);
}
