/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi.c -- an MPI library that exports a cuMemFree of its own, as MPICH 3.4 to 4 do */
#include <dlfcn.h>

#include "memory/cuda_abi.h"

extern unsigned int mpi_calls, mpi_calls_with_null;
unsigned int mpi_calls, mpi_calls_with_null;
extern CUstream mpi_ends_capture;
CUstream mpi_ends_capture; /* stream to use before a free, as another thread may */

CUresult cuMemFree_v2(CUdeviceptr address)
{
	__typeof__(cuMemFree_v2) *next = (__typeof__(next))dlsym(RTLD_NEXT, "cuMemFree_v2");

	mpi_calls++;
	return next(address);
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
	__typeof__(cuMemFreeAsync) *next = (__typeof__(next))dlsym(RTLD_NEXT, "cuMemFreeAsync");
	CUgraph graph;

	mpi_calls_with_null += !address;
	if (mpi_ends_capture)
		cuStreamEndCapture(mpi_ends_capture, &graph);
	mpi_ends_capture = NULL;
	return next(address, stream);
}
