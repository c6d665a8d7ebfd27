/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin.c -- a plug-in that is linked to the driver */
#include "memory/cuda_abi.h"

CUresult plugin_allocate(CUdeviceptr *address, size_t size);
CUresult plugin_free(CUdeviceptr address);
CUresult plugin_free_async(CUdeviceptr address, CUstream stream);

CUresult plugin_allocate(CUdeviceptr *address, size_t size)
{
	return cuMemAlloc_v2(address, size);
}

CUresult plugin_free(CUdeviceptr address)
{
	return cuMemFree_v2(address);
}

CUresult plugin_free_async(CUdeviceptr address, CUstream stream)
{
	return cuMemFreeAsync(address, stream);
}
