/* SPDX-License-Identifier: BSD-3-Clause */
/* deepbind.c -- a plug-in linked to the driver; opened with RTLD_DEEPBIND its calls bypass the
 * library. With LAUNCHES it calls what has no effect on memory alone. */
#include "memory/cuda_abi.h"

#ifdef LAUNCHES
CUresult deepbind_launch(CUfunction function);
CUresult deepbind_launch(CUfunction function)
{
	return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}
#else
CUresult deepbind_free(CUdeviceptr address);
CUresult deepbind_free(CUdeviceptr address)
{
	return cuMemFree_v2(address);
}
#endif
