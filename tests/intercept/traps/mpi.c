/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi.c -- an MPI library that exports a free of its own, as MPICH 3.4 to 4 do */
#include <dlfcn.h>

#include "memory/cuda_abi.h"

extern unsigned int mpi_heard;
unsigned int mpi_heard;

CUresult cuMemFree_v2(CUdeviceptr address)
{
	__typeof__(cuMemFree_v2) *next = (__typeof__(next))dlsym(RTLD_NEXT, "cuMemFree_v2");

	mpi_heard++;
	return next(address);
}
