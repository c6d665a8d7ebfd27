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

WRAP_LIKE(cuMemHostRegister, cuMemHostRegister_v2, (address, size, flags), void *address,
	  size_t size, unsigned int flags)

/* On an integrated GPU client MRs of the memory may exist. A capture refuses the probe call, with
 * address 1 and with null alike (measured). */
WRAP(cuMemFreeHost, (address), void *address)
{
	struct pending_free pending;
	CUresult probe;

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

	wrapper_before_free_by(FREE_HOST, &pending, (uintptr_t)address);
	return wrapper_after_free(&pending, forward(address));
}
