/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_host.c -- host memory known to CUDA, and other memory that may appear at host addresses
 *
 * For pointer queries, each allocation is recorded or at least reported to the memory layer.
 * Otherwise a page recorded as unknown to CUDA would keep that status. Host memory has no
 * background registration, except on integrated GPUs, where adapters use memory allocated here.
 */
#include "intercept/wrappers.h"

static CUresult cuda_host_registered(CUresult result, void *const *address, size_t size)
{
	CUdeviceptr wide = result == CUDA_SUCCESS && address ? (uintptr_t)*address : 0;

	wrapper_after_allocation(result, ALLOCATION_HOST, &wide, size);
	return result;
}

static CUresult cuda_host_allocated(CUresult result, void *const *address, size_t size)
{
	if (result == CUDA_SUCCESS && address && *address && !process_is_passive()) {
		memory_host_allocated((uintptr_t)*address, size);
		if (queries_are_on())
			bypass_scan();
	}
	return result;
}

WRAP(cuMemAllocHost_v2, (address, size), void **address, size_t size)
{
	return cuda_host_allocated(forward(address, size), address, size);
}

WRAP(cuMemAllocHost, (address, size), void **address, unsigned int size)
{
	return cuda_host_allocated(forward(address, size), address, size);
}

WRAP(cuMemHostAlloc, (address, size, flags), void **address, size_t size, unsigned int flags)
{
	return cuda_host_allocated(forward(address, size, flags), address, size);
}

WRAP(cuMemHostRegister_v2, (address, size, flags), void *address, size_t size, unsigned int flags)
{
	return cuda_host_registered(forward(address, size, flags), &address, size);
}

WRAP(cuMemHostRegister, (address, size, flags), void *address, size_t size, unsigned int flags)
{
	return cuda_host_registered(forward(address, size, flags), &address, size);
}

/* On an integrated GPU client MRs of the memory may exist. A capture refuses the probe call, with
 * address 1 and with null alike (measured). */
WRAP(cuMemFreeHost, (address), void *address)
{
	struct pending_free pending;
	CUresult refused = REFUSAL_BY_CAPTURE((uintptr_t)address, forward((void *)1));

	if (refused != CUDA_SUCCESS)
		return refused;
	wrapper_before_free_by(FREE_HOST, &pending, (uintptr_t)address);
	return wrapper_after_free(&pending, forward(address));
}

WRAP(cuMemHostUnregister, (address), void *address)
{
	struct pending_free pending;

	wrapper_before_free_by(FREE_HOST, &pending, (uintptr_t)address);
	return wrapper_after_free(&pending, forward(address));
}

/* ---- memory that is never recorded ---- */

static CUresult cuda_host_unrecorded(CUresult result)
{
	if (result == CUDA_SUCCESS && !process_is_passive())
		memory_unrecorded_anywhere();
	return result;
}

/* Out-parameters may be null: the caller then gets no address to query. */
#define UNRECORDED_AT(call, address, size)                                                         \
	({                                                                                         \
		CUresult result_ = (call);                                                         \
		if (result_ == CUDA_SUCCESS && (address) && !process_is_passive())                 \
			memory_unrecorded(*(address), (size) ? *(size) : 0);                       \
		result_;                                                                           \
	})

WRAP(cuModuleLoad, (module, file), CUmodule *module, const char *file)
{
	return cuda_host_unrecorded(forward(module, file));
}

WRAP(cuModuleLoadData, (module, segment), CUmodule *module, const void *segment)
{
	return cuda_host_unrecorded(forward(module, segment));
}

WRAP(cuModuleLoadDataEx, (module, segment, count, options, values), CUmodule *module,
     const void *segment, unsigned int count, CUjit_option *options, void **values)
{
	return cuda_host_unrecorded(forward(module, segment, count, options, values));
}

WRAP(cuModuleLoadFatBinary, (module, segment), CUmodule *module, const void *segment)
{
	return cuda_host_unrecorded(forward(module, segment));
}

WRAP(cuLibraryLoadData,
     (library, code, options, values, count, library_options, library_values, library_count),
     CUlibrary *library, const void *code, CUjit_option *options, void **values, unsigned int count,
     CUlibraryOption *library_options, void **library_values, unsigned int library_count)
{
	return cuda_host_unrecorded(forward(library, code, options, values, count, library_options,
					    library_values, library_count));
}

WRAP(cuLibraryLoadFromFile,
     (library, file, options, values, count, library_options, library_values, library_count),
     CUlibrary *library, const char *file, CUjit_option *options, void **values, unsigned int count,
     CUlibraryOption *library_options, void **library_values, unsigned int library_count)
{
	return cuda_host_unrecorded(forward(library, file, options, values, count, library_options,
					    library_values, library_count));
}

WRAP(cuModuleGetGlobal_v2, (address, size, module, name), CUdeviceptr *address, size_t *size,
     CUmodule module, const char *name)
{
	return UNRECORDED_AT(forward(address, size, module, name), address, size);
}

WRAP(cuModuleGetGlobal, (address, size, module, name), CUdeviceptr_v1 *address, unsigned int *size,
     CUmodule module, const char *name)
{
	return UNRECORDED_AT(forward(address, size, module, name), address, size);
}

WRAP(cuLibraryGetGlobal, (address, size, library, name), CUdeviceptr *address, size_t *size,
     CUlibrary library, const char *name)
{
	return UNRECORDED_AT(forward(address, size, library, name), address, size);
}

WRAP(cuLibraryGetManaged, (address, size, library, name), CUdeviceptr *address, size_t *size,
     CUlibrary library, const char *name)
{
	return UNRECORDED_AT(forward(address, size, library, name), address, size);
}

WRAP(cuGraphicsMapResources, (count, resources, stream), unsigned int count,
     CUgraphicsResource *resources, CUstream stream)
{
	return cuda_host_unrecorded(forward(count, resources, stream));
}

WRAP(cuGraphicsMapResources_ptsz, (count, resources, stream), unsigned int count,
     CUgraphicsResource *resources, CUstream stream)
{
	return cuda_host_unrecorded(forward(count, resources, stream));
}

WRAP(cuGraphicsResourceGetMappedPointer_v2, (address, size, resource), CUdeviceptr *address,
     size_t *size, CUgraphicsResource resource)
{
	return UNRECORDED_AT(forward(address, size, resource), address, size);
}

WRAP(cuGraphicsResourceGetMappedPointer, (address, size, resource), CUdeviceptr_v1 *address,
     unsigned int *size, CUgraphicsResource resource)
{
	return UNRECORDED_AT(forward(address, size, resource), address, size);
}

/* In a context of the interface before CUDA 3.2 the driver refuses a list query about memory
 * unknown to it (measured). */
WRAP(cuCtxCreate, (context, flags, device), CUcontext *context, unsigned int flags, CUdevice device)
{
	CUresult result = forward(context, flags, device);

	if (result == CUDA_SUCCESS && !process_is_passive())
		queries_end();
	return cuda_host_unrecorded(result);
}
