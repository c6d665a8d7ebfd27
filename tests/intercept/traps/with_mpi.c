/* SPDX-License-Identifier: BSD-3-Clause */
/* with_mpi.c -- a program linked to that MPI library, and then to the driver */
#include "memory/cuda_abi.h"
#include "traps.h"

extern unsigned int mpi_calls, mpi_calls_with_null;
extern CUstream mpi_ends_capture;

/* The legacy stream is unusable while a blocking one is captured. */
static bool ends_with_the_capture_over(CUdeviceptr address)
{
	uint64_t frees = statistic("frees");
	CUstream blocking;

	return PART(cuStreamCreate(&blocking, 0) == CUDA_SUCCESS) &&
	       PART(cuStreamBeginCapture_v2(blocking, CU_STREAM_CAPTURE_MODE_RELAXED) ==
		    CUDA_SUCCESS) &&
	       PART(cuMemFreeAsync(address, blocking) == CUDA_ERROR_INVALID_VALUE) &&
	       PART(statistic("frees") == frees) && (mpi_ends_capture = blocking, true) &&
	       PART(cuMemFreeAsync(address, NULL) == CUDA_SUCCESS) &&
	       PART(statistic("frees") == frees + 1) && PART(mpi_calls_with_null == 0);
}

int main(void)
{
	CUdeviceptr address;
	CUcontext context;
	CUdevice device;
	uint64_t frees;

	if (cuInit(0) || cuDeviceGet(&device, 0) || cuCtxCreate_v2(&context, 0, device))
		return 99;
	cuMemAlloc_v2(&address, 4096);
	frees = statistic("frees");
	trap("T18", "a linked call goes on to the next definition, whoever's it is",
	     PART(cuMemFree_v2(address) == CUDA_SUCCESS) && PART(mpi_calls == 1) &&
		     PART(statistic("frees") == frees + 1) &&
		     PART(cuMemFree_v2(address) == CUDA_ERROR_INVALID_VALUE));
	cuMemAllocAsync(&address, 4096, NULL);
	trap("T29b", "the record is gone, too, if the capture ends because of which it was kept",
	     ends_with_the_capture_over(address));
	return 0;
}
