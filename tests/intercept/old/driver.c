/* SPDX-License-Identifier: BSD-3-Clause */
/* driver.c -- a driver without cuGetProcAddress and many other rows of the table */
#include "memory/cuda_abi.h"

#define BASE ((CUdeviceptr)0x7f1200000000)

static int allocated;
static uint64_t buffer_id;

CUresult cuInit(unsigned int flags)
{
	return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t size)
{
	if (allocated || !size)
		return CUDA_ERROR_OUT_OF_MEMORY;
	allocated = 1;
	buffer_id++;
	*address = BASE;
	return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr address)
{
	if (!allocated || address != BASE)
		return CUDA_ERROR_INVALID_VALUE;
	allocated = 0;
	return CUDA_SUCCESS;
}

/* Without IS_GPU_DIRECT_RDMA_CAPABLE: a list query with it fails. */
CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **data,
				CUdeviceptr address)
{
	for (unsigned int i = 0; i < count; i++) {
		if (attributes[i] > CU_POINTER_ATTRIBUTE_MAPPED)
			return CUDA_ERROR_INVALID_VALUE;
		if (attributes[i] == CU_POINTER_ATTRIBUTE_BUFFER_ID)
			*(uint64_t *)data[i] = allocated && address == BASE ? buffer_id : 0;
	}
	return CUDA_SUCCESS;
}
