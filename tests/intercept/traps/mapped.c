/* SPDX-License-Identifier: BSD-3-Clause */
/* mapped.c -- between the preload and a driver that has no flags for dma-bufs: as if it had */
#include <dlfcn.h>
#include <stddef.h>

#include "memory/cuda_abi.h"

CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr address, size_t size,
				       CUmemRangeHandleType type, unsigned long long flags)
{
	__typeof__(cuMemGetHandleForAddressRange) *next =
		(__typeof__(next))dlsym(RTLD_NEXT, "cuMemGetHandleForAddressRange");

	(void)flags;
	return next(handle, address, size, type, 0);
}
