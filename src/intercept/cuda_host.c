/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_host.c -- memory of the host that CUDA knows, and what else may come to be where the host's memory was
 *
 * It is recorded, or at least heard of, for the sake of what is asked about pointers: so that the answer is known, and
 * so that a page of which CUDA knew nothing is not taken for one any longer. Nothing of it is registered ahead, but
 * where the GPU is part of the processor: there adapters get what was allocated here.
 */
#include "intercept/wrappers.h"

static CUresult after_host_allocation(CUresult result, void *const *address, size_t size)
{
	CUdeviceptr wide = result == CUDA_SUCCESS && address ? (uintptr_t)*address : 0;

	after_allocation(result, ALLOCATION_HOST, &wide, size);
	return result;
}

static CUresult host_allocated(CUresult result, void *const *address, size_t size)
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
	return host_allocated(forward(address, size), address, size);
}

WRAP(cuMemAllocHost, (address, size), void **address, unsigned int size)
{
	return host_allocated(forward(address, size), address, size);
}

WRAP(cuMemHostAlloc, (address, size, flags), void **address, size_t size, unsigned int flags)
{
	return host_allocated(forward(address, size, flags), address, size);
}

WRAP(cuMemHostRegister_v2, (address, size, flags), void *address, size_t size, unsigned int flags)
{
	return after_host_allocation(forward(address, size, flags), &address, size);
}

WRAP(cuMemHostRegister, (address, size, flags), void *address, size_t size, unsigned int flags)
{
	return after_host_allocation(forward(address, size, flags), &address, size);
}

/* On a GPU that is part of the processor clients may hold registrations of it. Of 1 it is measured that a capture refuses it,
 * of null not. */
WRAP(cuMemFreeHost, (address), void *address)
{
	struct pending_free pending;
	CUresult refused = REFUSAL_BY_CAPTURE((uintptr_t)address, forward((void *)1));

	if (refused != CUDA_SUCCESS)
		return refused;
	before_free_by(FREE_HOST, &pending, (uintptr_t)address);
	return after_free(&pending, forward(address));
}

WRAP(cuMemHostUnregister, (address), void *address)
{
	struct pending_free pending;

	before_free_by(FREE_HOST, &pending, (uintptr_t)address);
	return after_free(&pending, forward(address));
}

/* ---- memory that is never recorded ---- */

static CUresult appeared(CUresult result)
{
	if (result == CUDA_SUCCESS && !process_is_passive())
		memory_unrecorded_anywhere();
	return result;
}

/* Out-parameters may be null: where the caller is not told the address, nobody else can be. */
#define APPEARED(call, address, size)                                                                        \
	({                                                                                                   \
		CUresult result_ = (call);                                                                   \
		if (result_ == CUDA_SUCCESS && (address) && !process_is_passive())                           \
			memory_unrecorded(*(address), (size) ? *(size) : 0);                                 \
		result_;                                                                                     \
	})

WRAP(cuModuleLoad, (module, file), CUmodule *module, const char *file)
{
	return appeared(forward(module, file));
}

WRAP(cuModuleLoadData, (module, segment), CUmodule *module, const void *segment)
{
	return appeared(forward(module, segment));
}

WRAP(cuModuleLoadDataEx, (module, segment, count, options, values), CUmodule *module, const void *segment,
     unsigned int count, CUjit_option *options, void **values)
{
	return appeared(forward(module, segment, count, options, values));
}

WRAP(cuModuleLoadFatBinary, (module, segment), CUmodule *module, const void *segment)
{
	return appeared(forward(module, segment));
}

WRAP(cuLibraryLoadData,
     (library, code, options, values, count, library_options, library_values, library_count),
     CUlibrary *library, const void *code, CUjit_option *options, void **values, unsigned int count,
     CUlibraryOption *library_options, void **library_values, unsigned int library_count)
{
	return appeared(forward(library, code, options, values, count, library_options, library_values,
				library_count));
}

WRAP(cuLibraryLoadFromFile,
     (library, file, options, values, count, library_options, library_values, library_count),
     CUlibrary *library, const char *file, CUjit_option *options, void **values, unsigned int count,
     CUlibraryOption *library_options, void **library_values, unsigned int library_count)
{
	return appeared(forward(library, file, options, values, count, library_options, library_values,
				library_count));
}

WRAP(cuModuleGetGlobal_v2, (address, size, module, name), CUdeviceptr *address, size_t *size, CUmodule module,
     const char *name)
{
	return APPEARED(forward(address, size, module, name), address, size);
}

WRAP(cuModuleGetGlobal, (address, size, module, name), CUdeviceptr_v1 *address, unsigned int *size,
     CUmodule module, const char *name)
{
	return APPEARED(forward(address, size, module, name), address, size);
}

WRAP(cuLibraryGetGlobal, (address, size, library, name), CUdeviceptr *address, size_t *size,
     CUlibrary library, const char *name)
{
	return APPEARED(forward(address, size, library, name), address, size);
}

WRAP(cuLibraryGetManaged, (address, size, library, name), CUdeviceptr *address, size_t *size,
     CUlibrary library, const char *name)
{
	return APPEARED(forward(address, size, library, name), address, size);
}

WRAP(cuGraphicsMapResources, (count, resources, stream), unsigned int count, CUgraphicsResource *resources,
     CUstream stream)
{
	return appeared(forward(count, resources, stream));
}

WRAP(cuGraphicsMapResources_ptsz, (count, resources, stream), unsigned int count,
     CUgraphicsResource *resources, CUstream stream)
{
	return appeared(forward(count, resources, stream));
}

WRAP(cuGraphicsResourceGetMappedPointer_v2, (address, size, resource), CUdeviceptr *address, size_t *size,
     CUgraphicsResource resource)
{
	return APPEARED(forward(address, size, resource), address, size);
}

WRAP(cuGraphicsResourceGetMappedPointer, (address, size, resource), CUdeviceptr_v1 *address,
     unsigned int *size, CUgraphicsResource resource)
{
	return APPEARED(forward(address, size, resource), address, size);
}

/* In a context of before CUDA 3.2 a list of questions about memory that it does not know is refused (measured). */
WRAP(cuCtxCreate, (context, flags, device), CUcontext *context, unsigned int flags, CUdevice device)
{
	CUresult result = forward(context, flags, device);

	if (result == CUDA_SUCCESS && !process_is_passive())
		queries_end();
	return appeared(result);
}
