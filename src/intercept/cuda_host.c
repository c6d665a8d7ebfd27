/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_host.c -- host memory allocated by the driver
 *
 * It is recorded for PEERPIN_KEEP_HOST, and for integrated GPUs, where adapters use it like GPU
 * memory. Host memory that is registered with the driver is neither kept nor used like that.
 */
#include "intercept/wrappers.h"

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
	CUdeviceptr wide = result == CUDA_SUCCESS && address ? (uintptr_t)*address : 0;

	result = wrapper_allocated(result, ALLOCATION_HOST, &wide, request->size);
	if (wide && keep_is_on())
		keep_allocated_host(request, wide);
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

/* On an integrated GPU client MRs of the memory may exist. A capture refuses the probe call, with
 * address 1 and with null alike (measured). */
WRAP(cuMemFreeHost, (address), void *address)
{
	if (keep_is_on()) {
		if (keep_free(FREE_HOST, (uintptr_t)address))
			return CUDA_SUCCESS;
		address = keep_visible_pointer(address);
	}
	return WRAPPER_FREE(FREE_HOST, (uintptr_t)address, forward((void *)1), forward(address));
}
