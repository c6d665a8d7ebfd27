/* SPDX-License-Identifier: BSD-3-Clause */
/* module.c -- modules: each has a variable "gvar", whatever the image, and the functions of its
 * PTX, which cannot be launched */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define GLOBAL_SIZE 4096

struct CUfunc_st {
	CUmodule module;
};

struct CUmod_st {
	struct sim_object object;
	/* The variable's base and BUFFER_ID. The variable is freed with its module or its context,
	 * the earlier of both. */
	uint64_t base, id;
	char *text;		   /* the image, if it is PTX; else NULL */
	struct CUfunc_st function; /* handle of each function */
};

static struct sim_object *modules;

static struct sim_allocation *module_global(CUmodule module)
{
	struct sim_allocation *allocation = sim_find(module->base);

	return allocation && allocation->buffer_id == module->id ? allocation : NULL;
}

/* PTX begins with a directive or a comment. */
static bool module_is_text(const char *image)
{
	return *image == '.' || *image == '/' || *image == '\n';
}

static CUresult module_load(CUcontext context, CUmodule *module, const char *image)
{
	struct sim_allocation *allocation =
		sim_has_room(context->device)
			? sim_allocate(context->device, context, SIM_GLOBAL, GLOBAL_SIZE)
			: NULL;
	CUmodule made = allocation ? sim_make_object(&modules, sizeof(*made)) : NULL;

	if (!made) {
		if (allocation)
			sim_free(allocation);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	made->base = allocation->base;
	made->id = allocation->buffer_id;
	made->text = module_is_text(image) ? strdup(image) : NULL;
	made->function.module = made;
	*module = made;
	return CUDA_SUCCESS;
}

SIM_CONTEXT_CALL(cuModuleLoadData, (module, image), CUmodule *module, const void *image)
{
	return module && image ? module_load(context, module, image) : CUDA_ERROR_INVALID_VALUE;
}

/* Values of options may be input and output (cuda.h): a refused call has changed them. */
CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count,
			    CUjit_option *options, void **values)
{
	CUresult result = cuModuleLoadData(module, image);

	(void)options;
	for (unsigned int i = 0; result == CUDA_ERROR_OUT_OF_MEMORY && i < count; i++)
		values[i] = NULL;
	return result;
}

SIM_FREEING_CALL(cuModuleUnload, (module), CUmodule module)
{
	struct sim_allocation *allocation;

	if (!sim_is_live(modules, module))
		return CUDA_ERROR_INVALID_HANDLE;
	allocation = module_global(module);
	if (allocation)
		sim_free(allocation);
	module->object.live = false;
	return CUDA_SUCCESS;
}

SIM_ANY_CONTEXT_CALL(cuModuleGetGlobal_v2, (address, size, module, name), CUdeviceptr *address,
		     size_t *size, CUmodule module, const char *name)
{
	const struct sim_allocation *allocation;

	if ((!address && !size) || !name)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_is_live(modules, module))
		return CUDA_ERROR_INVALID_HANDLE;
	allocation = strcmp(name, "gvar") ? NULL : module_global(module);
	if (address)
		*address = allocation ? allocation->base : 0;
	if (size)
		*size = allocation ? allocation->size : 0;
	return allocation ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

static bool module_has_function(const struct CUmod_st *module, const char *name)
{
	static const char entry[] = ".entry";
	const char *at = module->text;
	size_t length = strlen(name);

	while (at && (at = strstr(at, entry))) {
		at += sizeof(entry) - 1;
		at += strspn(at, " \t\n");
		if (!strncmp(at, name, length) && strchr("( \t\n", at[length]))
			return true;
	}
	return false;
}

SIM_ANY_CONTEXT_CALL(cuModuleGetFunction, (function, module, name), CUfunction *function,
		     CUmodule module, const char *name)
{
	if (!function || !name)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_is_live(modules, module))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!module_has_function(module, name))
		return CUDA_ERROR_NOT_FOUND;
	*function = &module->function;
	return CUDA_SUCCESS;
}

static bool module_is_function(CUfunction function)
{
	const struct sim_object *object = modules;

	while (object && &((CUmodule)object)->function != function)
		object = object->next;
	return object && object->live;
}

SIM_CONTEXT_CALL(cuLaunchKernel,
		 (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,
		  parameters, extra),
		 CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
		 unsigned int block_x, unsigned int block_y, unsigned int block_z,
		 unsigned int shared_bytes, CUstream stream, void **parameters, void **extra)
{
	(void)shared_bytes;
	(void)parameters;
	(void)extra;
	if (!module_is_function(function) || !sim_stream_exists(stream))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!grid_x || !grid_y || !grid_z || !block_x || !block_y || !block_z)
		return CUDA_ERROR_INVALID_VALUE;
	return sim_has_room(context->device) ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_OUT_OF_MEMORY;
}

#define LAUNCH_ARGUMENTS                                                                           \
	(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,        \
	 parameters, NULL)

SIM_FORWARD(cuLaunchKernel_ptsz, cuLaunchKernel, LAUNCH_ARGUMENTS, CUfunction function,
	    unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x,
	    unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, CUstream stream,
	    void **parameters, void **extra);
SIM_FORWARD(cuLaunchCooperativeKernel, cuLaunchKernel, LAUNCH_ARGUMENTS, CUfunction function,
	    unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x,
	    unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, CUstream stream,
	    void **parameters);
SIM_FORWARD(cuLaunchCooperativeKernel_ptsz, cuLaunchKernel, LAUNCH_ARGUMENTS, CUfunction function,
	    unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x,
	    unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, CUstream stream,
	    void **parameters);

#define LAUNCH_EX_ARGUMENTS                                                                        \
	(function, launch->gridDimX, launch->gridDimY, launch->gridDimZ, launch->blockDimX,        \
	 launch->blockDimY, launch->blockDimZ, launch->sharedMemBytes, launch->hStream,            \
	 parameters, extra)

SIM_FORWARD(cuLaunchKernelEx, cuLaunchKernel, LAUNCH_EX_ARGUMENTS, const CUlaunchConfig *launch,
	    CUfunction function, void **parameters, void **extra);
SIM_FORWARD(cuLaunchKernelEx_ptsz, cuLaunchKernel, LAUNCH_EX_ARGUMENTS,
	    const CUlaunchConfig *launch, CUfunction function, void **parameters, void **extra);

/* ---- arrays and libraries, which the simulated driver does not have ---- */

/* Without a free block the calls are refused for want of memory, as by the real driver. */
static CUresult module_refuse(void)
{
	CUcontext context;
	CUresult result = sim_enter_context(&context);

	if (result != CUDA_SUCCESS)
		return result;
	return sim_leave(sim_has_room(context->device) ? CUDA_ERROR_NOT_SUPPORTED
						       : CUDA_ERROR_OUT_OF_MEMORY);
}

/* None reads its arguments: the definitions have none. */
#define REFUSED(symbol)                                                                            \
	CUresult refused_##symbol(void) __asm__(SIM_SYMBOL(symbol));                               \
	CUresult refused_##symbol(void)                                                            \
	{                                                                                          \
		return module_refuse();                                                            \
	}

/* clang-format off */
REFUSED(cuArrayCreate_v2) REFUSED(cuArray3DCreate_v2) REFUSED(cuMipmappedArrayCreate)
REFUSED(cuModuleLoad) REFUSED(cuModuleLoadFatBinary) REFUSED(cuLibraryLoadData)
REFUSED(cuLibraryLoadFromFile) REFUSED(cuLibraryGetModule) REFUSED(cuLibraryGetKernel)
REFUSED(cuLibraryGetGlobal) REFUSED(cuLibraryUnload) REFUSED(cuKernelGetFunction)
	/* clang-format on */
