/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda.h -- the few driver declarations that exchange.c and cache.c use, where no CUDA toolkit is installed
 *
 * Names, values and the renaming to _v2 are the real header's. A toolkit's own
 * cuda.h, where there is one, is used in its stead.
 */
#ifndef CUDA_VERSION
#define CUDA_VERSION 12000

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef unsigned long long CUdeviceptr;
typedef int CUdevice;
typedef struct CUctx_st *CUcontext;
typedef enum { CUDA_SUCCESS = 0 } CUresult;
typedef enum { CU_POINTER_ATTRIBUTE_BUFFER_ID = 7 } CUpointer_attribute;

#define cuDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease_v2
#define cuMemAlloc		  cuMemAlloc_v2
#define cuMemFree		  cuMemFree_v2
#define cuMemcpyDtoH		  cuMemcpyDtoH_v2
#define cuMemcpyHtoD		  cuMemcpyHtoD_v2
#define cuMemsetD8		  cuMemsetD8_v2

CUresult cuCtxSetCurrent(CUcontext ctx);
CUresult cuDeviceGet(CUdevice *device, int ordinal);
CUresult cuDeviceGetCount(int *count);
CUresult cuDevicePrimaryCtxRelease(CUdevice dev);
CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice dev);
CUresult cuGetErrorName(CUresult error, const char **name);
CUresult cuInit(unsigned int flags);
CUresult cuMemAlloc(CUdeviceptr *ptr, size_t size);
CUresult cuMemFree(CUdeviceptr ptr);
CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t size);
CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t size);
CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t count);

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr);

#ifdef __cplusplus
}
#endif

#endif
