/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_abi.h -- declarations of the CUDA driver's interface, so that no toolkit is needed to build
 *
 * The rows stand in cuda_abi.def. What they mean is NVIDIA's documentation of the driver API; what the driver
 * really does is in the contract tests. cuda.h must not be included beside this header.
 */
#ifndef PEERPIN_MEMORY_CUDA_ABI_H
#define PEERPIN_MEMORY_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef uint64_t cuuint64_t;
typedef unsigned long long CUdeviceptr;
typedef unsigned int CUdeviceptr_v1; /* what addresses were before CUDA 3.2 */
typedef unsigned long long CUmemGenericAllocationHandle;
typedef int CUdevice;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgreenCtx_st *CUgreenCtx;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef struct CUexecAffinityParam_st CUexecAffinityParam; /* only ever passed on */
typedef struct CUctxCreateParams_st CUctxCreateParams;	   /* only ever passed on */

typedef struct CUuuid_st {
	char bytes[16];
} CUuuid;

typedef enum cudaError_enum {
#define RESULT(name, value, text) name = value,
#include "memory/cuda_abi.def"
#undef RESULT
} CUresult;

typedef enum CUpointer_attribute_enum {
#define POINTER_ATTRIBUTE(name, value) name = value,
#include "memory/cuda_abi.def"
#undef POINTER_ATTRIBUTE
} CUpointer_attribute;

typedef enum CUdevice_attribute_enum {
#define DEVICE_ATTRIBUTE(name, value) name = value,
#include "memory/cuda_abi.def"
#undef DEVICE_ATTRIBUTE
} CUdevice_attribute;

enum {
#define CONSTANT(name, value) name = value,
#include "memory/cuda_abi.def"
#undef CONSTANT
};

typedef enum CUdriverProcAddressQueryResult_enum {
	CU_GET_PROC_ADDRESS_SUCCESS = 0,
	CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND = 1,
	CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT = 2,
} CUdriverProcAddressQueryResult;

typedef enum CUstreamCaptureMode_enum {
	CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
	CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
	CU_STREAM_CAPTURE_MODE_RELAXED = 2,
} CUstreamCaptureMode;

#define FUNCTION(symbol, ...) CUresult symbol(__VA_ARGS__);
#include "memory/cuda_abi.def"
#undef FUNCTION

#endif
