/* SPDX-License-Identifier: BSD-3-Clause */
/* mapped.c -- between the preload and a driver that has no flags for dma-bufs: as if it had; and
 * what a thread may do when the driver has made one, and the preload does not know it yet */
#include <dlfcn.h>
#include <stddef.h>

#include "memory/cuda_abi.h"

extern void (*mapped_exported)(void);
void (*mapped_exported)(void);

CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr address, size_t size,
				       CUmemRangeHandleType type, unsigned long long flags)
{
	__typeof__(cuMemGetHandleForAddressRange) *next =
		(__typeof__(next))dlsym(RTLD_NEXT, "cuMemGetHandleForAddressRange");
	CUresult result = next(handle, address, size, type, 0);

	(void)flags;
	if (mapped_exported)
		mapped_exported();
	return result;
}
