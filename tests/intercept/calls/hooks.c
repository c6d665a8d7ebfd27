/* SPDX-License-Identifier: BSD-3-Clause */
/* hooks.c -- a preload behind peerpin that runs statements inside calls of the driver: the hook's
 * argument is the occasion (calls.h) */
#include <dlfcn.h>
#include <stdlib.h>

#include "calls.h"
#include "memory/cuda_abi.h"

extern void (*driver_hook)(enum occasion);
void (*driver_hook)(enum occasion);

static void run(enum occasion occasion)
{
	if (driver_hook)
		driver_hook(occasion);
}

#define NEXT(symbol) ((__typeof__(symbol) *)dlsym(RTLD_NEXT, #symbol))

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t size)
{
	run(AT_DRIVER_ALLOCATES);
	return NEXT(cuMemAlloc_v2)(address, size);
}

CUresult cuMemFree_v2(CUdeviceptr address)
{
	run(AT_DRIVER_FREES);
	return NEXT(cuMemFree_v2)(address);
}

/* peerpin's call with the null address is the driver's alone. */
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
	if (!address)
		abort();
	run(AT_DRIVER_FREES);
	return NEXT(cuMemFreeAsync)(address, stream);
}

CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr address, size_t size,
				       CUmemRangeHandleType type, unsigned long long flags)
{
	CUresult result = NEXT(cuMemGetHandleForAddressRange)(handle, address, size, type, flags);

	run(AT_EXPORTED);
	return result;
}
