/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_repeated.c -- calls that need GPU memory and allocate none for the program
 *
 * The driver may refuse them because memory is kept, which to the program is free. Calls of CUDA 2
 * and 3 that launch (cuLaunchGrid) are forwarded: nobody calls them with kept memory.
 */
#include "intercept/wrappers.h"

/* How much a call needs, the driver alone knows. `on`: the ordinal of its device, or
 * KEEP_CURRENT. */
#define REPEATED_ON(on, symbol, arguments, ...)                                                    \
	WRAP(symbol, arguments, __VA_ARGS__)                                                       \
	{                                                                                          \
		return WRAPPER_RETRY(on, 0, forward arguments);                                    \
	}

#define REPEATED(...) REPEATED_ON(KEEP_CURRENT, __VA_ARGS__)

REPEATED(cuArrayCreate_v2, (array, description), CUarray *array,
	 const CUDA_ARRAY_DESCRIPTOR *description)
REPEATED(cuArray3DCreate_v2, (array, description), CUarray *array,
	 const CUDA_ARRAY3D_DESCRIPTOR *description)
REPEATED(cuMipmappedArrayCreate, (array, description, levels), CUmipmappedArray *array,
	 const CUDA_ARRAY3D_DESCRIPTOR *description, unsigned int levels)

REPEATED(cuModuleLoad, (module, file), CUmodule *module, const char *file)
REPEATED(cuModuleLoadData, (module, segment), CUmodule *module, const void *segment)
REPEATED(cuModuleLoadDataEx, (module, image, count, options, values), CUmodule *module,
	 const void *image, unsigned int count, CUjit_option *options, void **values)
REPEATED(cuModuleLoadFatBinary, (module, image), CUmodule *module, const void *image)
REPEATED(cuLibraryLoadData,
	 (library, image, options, values, count, library_options, library_values, library_count),
	 CUlibrary *library, const void *image, CUjit_option *options, void **values,
	 unsigned int count, CUlibraryOption *library_options, void **library_values,
	 unsigned int library_count)
REPEATED(cuLibraryLoadFromFile,
	 (library, file, options, values, count, library_options, library_values, library_count),
	 CUlibrary *library, const char *file, CUjit_option *options, void **values,
	 unsigned int count, CUlibraryOption *library_options, void **library_values,
	 unsigned int library_count)

REPEATED(cuLibraryGetModule, (module, library), CUmodule *module, CUlibrary library)
REPEATED(cuLibraryGetGlobal, (address, size, library, name), CUdeviceptr *address, size_t *size,
	 CUlibrary library, const char *name)
REPEATED(cuKernelGetFunction, (function, kernel), CUfunction *function, CUkernel kernel)

REPEATED_ON(device, cuCtxCreate_v2, (context, flags, device), CUcontext *context,
	    unsigned int flags, CUdevice device)
REPEATED_ON(device, cuCtxCreate_v3, (context, affinity, count, flags, device), CUcontext *context,
	    CUexecAffinityParam *affinity, int count, unsigned int flags, CUdevice device)
REPEATED_ON(device, cuCtxCreate_v4, (context, parameters, flags, device), CUcontext *context,
	    CUctxCreateParams *parameters, unsigned int flags, CUdevice device)
REPEATED_ON(device, cuGreenCtxCreate, (context, resources, device, flags), CUgreenCtx *context,
	    CUdevResourceDesc resources, CUdevice device, unsigned int flags)

REPEATED(cuCtxSetLimit, (limit, value), CUlimit limit, size_t value)

REPEATED(cuStreamCreate, (stream, flags), CUstream *stream, unsigned int flags)
REPEATED(cuStreamCreateWithPriority, (stream, flags, priority), CUstream *stream,
	 unsigned int flags, int priority)

REPEATED(cuLaunchKernel,
	 (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,
	  parameters, extra),
	 CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
	 unsigned int block_x, unsigned int block_y, unsigned int block_z,
	 unsigned int shared_bytes, CUstream stream, void **parameters, void **extra)
REPEATED(cuLaunchKernel_ptsz,
	 (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,
	  parameters, extra),
	 CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
	 unsigned int block_x, unsigned int block_y, unsigned int block_z,
	 unsigned int shared_bytes, CUstream stream, void **parameters, void **extra)
REPEATED(cuLaunchKernelEx, (launch, function, parameters, extra), const CUlaunchConfig *launch,
	 CUfunction function, void **parameters, void **extra)
REPEATED(cuLaunchKernelEx_ptsz, (launch, function, parameters, extra), const CUlaunchConfig *launch,
	 CUfunction function, void **parameters, void **extra)
REPEATED(cuLaunchCooperativeKernel,
	 (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,
	  parameters),
	 CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
	 unsigned int block_x, unsigned int block_y, unsigned int block_z,
	 unsigned int shared_bytes, CUstream stream, void **parameters)
REPEATED(cuLaunchCooperativeKernel_ptsz,
	 (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,
	  parameters),
	 CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
	 unsigned int block_x, unsigned int block_y, unsigned int block_z,
	 unsigned int shared_bytes, CUstream stream, void **parameters)

REPEATED(cuGraphInstantiate, (exec, graph, node, text, size), CUgraphExec *exec, CUgraph graph,
	 CUgraphNode *node, char *text, size_t size)
REPEATED(cuGraphInstantiate_v2, (exec, graph, node, text, size), CUgraphExec *exec, CUgraph graph,
	 CUgraphNode *node, char *text, size_t size)
REPEATED(cuGraphInstantiateWithFlags, (exec, graph, flags), CUgraphExec *exec, CUgraph graph,
	 unsigned long long flags)
REPEATED(cuGraphInstantiateWithParams, (exec, graph, parameters), CUgraphExec *exec, CUgraph graph,
	 CUDA_GRAPH_INSTANTIATE_PARAMS *parameters)
REPEATED(cuGraphInstantiateWithParams_ptsz, (exec, graph, parameters), CUgraphExec *exec,
	 CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *parameters)

REPEATED(cuGraphUpload, (exec, stream), CUgraphExec exec, CUstream stream)
REPEATED(cuGraphUpload_ptsz, (exec, stream), CUgraphExec exec, CUstream stream)
REPEATED(cuGraphLaunch, (exec, stream), CUgraphExec exec, CUstream stream)
REPEATED(cuGraphLaunch_ptsz, (exec, stream), CUgraphExec exec, CUstream stream)
