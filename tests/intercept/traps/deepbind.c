/* SPDX-License-Identifier: BSD-3-Clause */
/* deepbind.c -- a plug-in linked to the driver; opened with RTLD_DEEPBIND its calls bypass the
 * library. */
#include "memory/cuda_abi.h"

CUresult deepbind_free(CUdeviceptr address);
CUresult deepbind_free(CUdeviceptr address)
{
	return cuMemFree_v2(address);
}
