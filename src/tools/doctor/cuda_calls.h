/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_calls.h -- the CUDA driver as doctor calls it: loaded by name, in a child (child.h), each call announced */
#ifndef PEERPIN_TOOLS_DOCTOR_CUDA_CALLS_H
#define PEERPIN_TOOLS_DOCTOR_CUDA_CALLS_H

#include <stdbool.h>

#include "memory/cuda_abi.h"
#include "tools/doctor/child.h"

#define CUDA_CALLS(CALL)                                                                                     \
	CALL(cuInit)                                                                                         \
	CALL(cuDriverGetVersion)                                                                             \
	CALL(cuGetErrorName)                                                                                 \
	CALL(cuDeviceGet)                                                                                    \
	CALL(cuDeviceGetCount)                                                                               \
	CALL(cuDeviceGetName)                                                                                \
	CALL(cuDeviceGetUuid)                                                                                \
	CALL(cuDeviceGetAttribute)                                                                           \
	CALL(cuDeviceTotalMem_v2)                                                                            \
	CALL(cuDeviceGetDefaultMemPool)                                                                      \
	CALL(cuDevicePrimaryCtxRetain)                                                                       \
	CALL(cuDevicePrimaryCtxRelease_v2)                                                                   \
	CALL(cuCtxSetCurrent)                                                                                \
	CALL(cuMemGetInfo_v2)                                                                                \
	CALL(cuMemAlloc_v2)                                                                                  \
	CALL(cuMemFree_v2)                                                                                   \
	CALL(cuMemAllocManaged)                                                                              \
	CALL(cuMemAllocFromPoolAsync)                                                                        \
	CALL(cuMemFreeAsync)                                                                                 \
	CALL(cuMemPoolTrimTo)                                                                                \
	CALL(cuStreamSynchronize)                                                                            \
	CALL(cuMemGetAllocationGranularity)                                                                  \
	CALL(cuMemAddressReserve)                                                                            \
	CALL(cuMemAddressFree)                                                                               \
	CALL(cuMemCreate)                                                                                    \
	CALL(cuMemRelease)                                                                                   \
	CALL(cuMemMap)                                                                                       \
	CALL(cuMemUnmap)                                                                                     \
	CALL(cuMemSetAccess)                                                                                 \
	CALL(cuMemGetHandleForAddressRange)                                                                  \
	CALL(cuMemcpyHtoD_v2)                                                                                \
	CALL(cuMemcpyDtoH_v2)                                                                                \
	CALL(cuPointerGetAttribute)

/* NULL: this driver does not have it. */
struct cuda_calls {
#define CALL(name) __typeof__(&name) name;
	CUDA_CALLS(CALL)
#undef CALL
};

extern struct cuda_calls cuda;

/* What a call that the driver does not have gives. */
#define CUDA_NO_SUCH_CALL ((CUresult)-1)

/* CUDA(cuInit, 0): announces the call and makes it. */
#define CUDA(call, ...)                                                                                      \
	(child_does("%s", cuda_name(#call)), cuda.call ? cuda.call(__VA_ARGS__) : CUDA_NO_SUCH_CALL)

/* Loads libcuda.so.1. NULL, or the loader's words. */
const char *cuda_load(void);

/* The file that it is. */
const char *cuda_file(void);

/* "cuMemAlloc" for cuMemAlloc_v2: as programs know it. One thread; until the next call. */
const char *cuda_name(const char *symbol);

/* "CUDA_ERROR_NO_DEVICE". One thread; until the next call. */
const char *cuda_result(CUresult result);

#endif
