/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_repeated.c -- calls that need GPU memory and allocate none for the program
 *
 * The driver may refuse them because memory is kept, which to the program is free. The
 * launches of CUDA 3 and older (cuLaunchGrid) are forwarded: programs of today do not call them.
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
REPEATED(cuModuleLoadFatBinary, (module, image), CUmodule *module, const void *image)

/* Values of options of the compiler, of which the driver may change some: sizes of logs are input
 * and output (cuda.h, CUjit_option). A repeated call has those of the caller. */
#define OPTIONS_MAX 64 /* the interface has fewer */

struct options {
	void *values[OPTIONS_MAX];
};

static bool repeated_save(struct options *saved, void *const *values, unsigned int count)
{
	bool any = values && count && count <= OPTIONS_MAX && keep_is_on();

	for (unsigned int i = 0; any && i < count; i++)
		saved->values[i] = values[i];
	return any;
}

/* Store changed values alone: the caller's may be constants. */
static void repeated_restore(const struct options *saved, void **values, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		if (values[i] != saved->values[i])
			values[i] = saved->values[i];
	}
}

#define REPEATED_WITH_OPTIONS(symbol, arguments, ...)                                              \
	WRAP(symbol, arguments, __VA_ARGS__)                                                       \
	{                                                                                          \
		struct options saved;                                                              \
		unsigned int options_saved = repeated_save(&saved, values, count) ? count : 0;     \
                                                                                                   \
		if (count && !options_saved)                                                       \
			return forward arguments;                                                  \
		return WRAPPER_RETRY(                                                              \
			KEEP_CURRENT, 0,                                                           \
			(repeated_restore(&saved, values, options_saved), forward arguments));     \
	}

REPEATED_WITH_OPTIONS(cuModuleLoadDataEx, (module, image, count, options, values), CUmodule *module,
		      const void *image, unsigned int count, CUjit_option *options, void **values)
REPEATED_WITH_OPTIONS(cuLibraryLoadData,
		      (library, image, options, values, count, library_options, library_values,
		       library_count),
		      CUlibrary *library, const void *image, CUjit_option *options, void **values,
		      unsigned int count, CUlibraryOption *library_options, void **library_values,
		      unsigned int library_count)
REPEATED_WITH_OPTIONS(cuLibraryLoadFromFile,
		      (library, file, options, values, count, library_options, library_values,
		       library_count),
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
