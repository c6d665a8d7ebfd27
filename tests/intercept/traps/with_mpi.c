/* SPDX-License-Identifier: BSD-3-Clause */
/* with_mpi.c -- a program linked to that MPI library, and then to the driver */
#include "memory/cuda_abi.h"
#include "traps.h"

extern unsigned int mpi_heard;

int main(void)
{
	CUdeviceptr address;
	CUcontext context;
	CUdevice device;
	uint64_t deaths;

	if (cuInit(0) || cuDeviceGet(&device, 0) || cuCtxCreate_v2(&context, 0, device))
		return 99;
	cuMemAlloc_v2(&address, 4096);
	deaths = statistic("deaths");
	trap("T18", "a linked call goes on to the next definition, whoever's it is",
	     PART(cuMemFree_v2(address) == CUDA_SUCCESS) && PART(mpi_heard == 1) &&
		     PART(statistic("deaths") == deaths + 1) &&
		     PART(cuMemFree_v2(address) == CUDA_ERROR_INVALID_VALUE));
	return 0;
}
