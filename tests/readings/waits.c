/* SPDX-License-Identifier: BSD-3-Clause */
/* waits.c -- a program with one allocation, and one freed allocation, that never ends */
#include <unistd.h>

#include "memory/cuda_abi.h"

int main(void)
{
	CUdeviceptr first, second;
	CUcontext context;

	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
	    cuMemAlloc_v2(&first, 1 << 20) || cuMemAlloc_v2(&second, 1 << 20) ||
	    cuMemFree_v2(first))
		return 1;
	for (;;)
		pause();
}
