/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu.c -- GPU memory by the driver API, linked like any program's */
#include "gpu.h"

#include <stdio.h>
#include <stdlib.h>

#include "memory/cuda_abi.h"

#define must(call)                                                                                           \
	do {                                                                                                 \
		CUresult must_result = (call);                                                               \
		if (must_result != CUDA_SUCCESS) {                                                           \
			fprintf(stderr, "gpu: %s: error %d\n", #call, (int)must_result);                     \
			exit(99);                                                                            \
		}                                                                                            \
	} while (0)

static CUcontext context;

void gpu_open(void)
{
	CUdevice device;

	must(cuInit(0));
	must(cuDeviceGet(&device, 0));
	must(cuCtxCreate_v2(&context, 0, device));
}

void gpu_close(void)
{
	must(cuCtxDestroy_v2(context));
}

uint64_t gpu_allocate(size_t size)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, size));
	return address;
}

void gpu_free(uint64_t address)
{
	must(cuMemFree_v2(address));
}

void gpu_fill(uint64_t address, unsigned char byte, size_t size)
{
	must(cuMemsetD8_v2(address, byte, size));
}

void gpu_read(void *to, uint64_t from, size_t size)
{
	must(cuMemcpyDtoH_v2(to, from, size));
}
