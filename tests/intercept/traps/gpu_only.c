/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_only.c -- a GPU program without MPI and without verbs; "load" only loads the driver */
#include <string.h>

#include "memory/cuda_abi.h"

int main(int count, char **arguments)
{
	CUdeviceptr address;
	CUcontext context;
	CUdevice device;

	if (count > 1 && !strcmp(arguments[1], "load"))
		return 0;
	return cuInit(0) || cuDeviceGet(&device, 0) || cuCtxCreate_v2(&context, 0, device) ||
	       cuMemAlloc_v2(&address, 1 << 20) || cuMemFree_v2(address) ||
	       cuCtxDestroy_v2(context);
}
