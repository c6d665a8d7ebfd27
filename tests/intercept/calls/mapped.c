/* SPDX-License-Identifier: BSD-3-Clause */
/* mapped.c -- behind peerpin: a hook between the driver's export and the library's record of it */
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
	CUresult result = next(handle, address, size, type, flags);

	if (mapped_exported)
		mapped_exported();
	return result;
}
