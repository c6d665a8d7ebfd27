/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_host.c -- host memory allocated by the driver or registered with it
 *
 * The records answer pointer queries. Host memory has no background registration, except on
 * integrated GPUs, where adapters use memory allocated here.
 */
#include "intercept/wrappers.h"

static CUresult cuda_host_registered(CUresult result, void *const *address, size_t size)
{
	CUdeviceptr wide = result == CUDA_SUCCESS && address ? (uintptr_t)*address : 0;

	return wrapper_allocated(result, ALLOCATION_HOST, &wide, size);
}

static CUresult cuda_host_allocated(CUresult result, void *const *address, size_t size)
{
	if (result == CUDA_SUCCESS && address && *address && !process_is_passive()) {
		memory_host_allocated((uintptr_t)*address, size);
		bypass_check();
	}
	return result;
}

static inline __attribute__((always_inline)) bool
cuda_host_reuse(const struct keep_request *request, void **address)
{
	CUdeviceptr kept;

	if (!address || !wrapper_reuse(request, &kept))
		return false;
	*address = (void *)(uintptr_t)kept;
	return true;
}

static CUresult cuda_host_keepable(CUresult result, const struct keep_request *request,
				   void *const *address)
{
	result = cuda_host_allocated(result, address, request->size);
	if (result == CUDA_SUCCESS && address && keep_is_on())
		keep_allocated_host(request, (uintptr_t)*address);
	return result;
}

WRAP(cuMemAllocHost_v2, (address, size), void **address, size_t size)
{
	const struct keep_request request = { .kind = ALLOCATION_HOST,
					      .flags = KEEP_ALLOC_HOST,
					      .size = size };

	if (cuda_host_reuse(&request, address))
		return CUDA_SUCCESS;
	return cuda_host_keepable(WRAPPER_RETRY(KEEP_HOST, size, forward(address, size)), &request,
				  address);
}

WRAP(cuMemAllocHost, (address, size), void **address, unsigned int size)
{
	return cuda_host_allocated(forward(address, size), address, size);
}

WRAP(cuMemHostAlloc, (address, size, flags), void **address, size_t size, unsigned int flags)
{
	const struct keep_request request = { .kind = ALLOCATION_HOST,
					      .flags = flags,
					      .size = size };

	if (cuda_host_reuse(&request, address))
		return CUDA_SUCCESS;
	return cuda_host_keepable(WRAPPER_RETRY(KEEP_HOST, size, forward(address, size, flags)),
				  &request, address);
}

WRAP(cuMemHostRegister_v2, (address, size, flags), void *address, size_t size, unsigned int flags)
{
	return cuda_host_registered(forward(address, size, flags), &address, size);
}

WRAP_LIKE(cuMemHostRegister, cuMemHostRegister_v2, (address, size, flags), void *address,
	  size_t size, unsigned int flags)

/* On an integrated GPU client MRs of the memory may exist. A capture refuses the probe call, with
 * address 1 and with null alike (measured). */
WRAP(cuMemFreeHost, (address), void *address)
{
	struct pending_free pending;
	CUresult probe;

	if (keep_is_on()) {
		if (keep_free(FREE_HOST, (uintptr_t)address))
			return CUDA_SUCCESS;
		address = keep_visible_pointer(address);
	}
	if (wrapper_needs_probe((uintptr_t)address)) {
		probe = forward((void *)1);
		if (wrapper_is_capture_refusal(probe))
			return probe;
	}
	wrapper_before_free_by(FREE_HOST, &pending, (uintptr_t)address);
	return wrapper_after_free(&pending, forward(address));
}

WRAP(cuMemHostUnregister, (address), void *address)
{
	struct pending_free pending;

	address = keep_visible_pointer(address);
	wrapper_before_free_by(FREE_HOST, &pending, (uintptr_t)address);
	return wrapper_after_free(&pending, forward(address));
}
