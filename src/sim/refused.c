/* SPDX-License-Identifier: BSD-3-Clause */
/* refused.c -- arrays and libraries, which the simulated driver does not have: without a free block
 * their calls are refused for want of memory, as by the real driver, else as not supported */
#include "sim.h"

static CUresult refused_call(void)
{
	CUcontext context;
	CUresult result = sim_enter_context(&context);

	if (result != CUDA_SUCCESS)
		return result;
	return sim_leave(sim_has_room(context->device) ? CUDA_ERROR_NOT_SUPPORTED
						       : CUDA_ERROR_OUT_OF_MEMORY);
}

#define REFUSED(symbol, ...) SIM_FORWARD(symbol, refused_call, (), __VA_ARGS__)

REFUSED(cuArrayCreate_v2, CUarray *array, const CUDA_ARRAY_DESCRIPTOR *description);
REFUSED(cuArray3DCreate_v2, CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *description);
REFUSED(cuMipmappedArrayCreate, CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *description,
	unsigned int levels);

REFUSED(cuModuleLoad, CUmodule *module, const char *file);
REFUSED(cuModuleLoadFatBinary, CUmodule *module, const void *image);
REFUSED(cuLibraryLoadData, CUlibrary *library, const void *image, CUjit_option *options,
	void **values, unsigned int count, CUlibraryOption *library_options, void **library_values,
	unsigned int library_count);
REFUSED(cuLibraryLoadFromFile, CUlibrary *library, const char *file, CUjit_option *options,
	void **values, unsigned int count, CUlibraryOption *library_options, void **library_values,
	unsigned int library_count);
REFUSED(cuLibraryGetModule, CUmodule *module, CUlibrary library);
REFUSED(cuLibraryGetKernel, CUkernel *kernel, CUlibrary library, const char *name);
REFUSED(cuLibraryGetGlobal, CUdeviceptr *address, size_t *size, CUlibrary library,
	const char *name);
REFUSED(cuLibraryUnload, CUlibrary library);
REFUSED(cuKernelGetFunction, CUfunction *function, CUkernel kernel);
