/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_calls.h -- the CUDA driver's functions, loaded in a child; each call is announced
 * (child.h)
 */
#ifndef PEERPIN_TOOLS_DOCTOR_CUDA_CALLS_H
#define PEERPIN_TOOLS_DOCTOR_CUDA_CALLS_H

#include <stdbool.h>

#include "memory/cuda_abi.h"
#include "tools/doctor/child.h"
#include "tools/doctor/host.h"

#define CUDA_CALLS(CALL)                                                                           \
	CALL(cuInit)                                                                               \
	CALL(cuDriverGetVersion)                                                                   \
	CALL(cuGetErrorName)                                                                       \
	CALL(cuDeviceGetCount)                                                                     \
	CALL(cuDeviceGetName)                                                                      \
	CALL(cuDeviceGetAttribute)                                                                 \
	CALL(cuDeviceTotalMem_v2)                                                                  \
	CALL(cuDeviceGetDefaultMemPool)                                                            \
	CALL(cuDevicePrimaryCtxRetain)                                                             \
	CALL(cuDevicePrimaryCtxRelease_v2)                                                         \
	CALL(cuCtxSetCurrent)                                                                      \
	CALL(cuMemGetInfo_v2)                                                                      \
	CALL(cuMemAlloc_v2)                                                                        \
	CALL(cuMemFree_v2)                                                                         \
	CALL(cuMemHostAlloc)                                                                       \
	CALL(cuMemFreeHost)                                                                        \
	CALL(cuMemAllocFromPoolAsync)                                                              \
	CALL(cuMemFreeAsync)                                                                       \
	CALL(cuMemPoolTrimTo)                                                                      \
	CALL(cuStreamSynchronize)                                                                  \
	CALL(cuMemGetAllocationGranularity)                                                        \
	CALL(cuMemAddressReserve)                                                                  \
	CALL(cuMemAddressFree)                                                                     \
	CALL(cuMemCreate)                                                                          \
	CALL(cuMemRelease)                                                                         \
	CALL(cuMemMap)                                                                             \
	CALL(cuMemUnmap)                                                                           \
	CALL(cuMemSetAccess)                                                                       \
	CALL(cuMemGetHandleForAddressRange)                                                        \
	CALL(cuMemcpyHtoD_v2)                                                                      \
	CALL(cuMemcpyDtoH_v2)                                                                      \
	CALL(cuMemcpyDtoD_v2)                                                                      \
	CALL(cuMemsetD8_v2)                                                                        \
	CALL(cuCtxSynchronize)                                                                     \
	CALL(cuPointerGetAttribute)                                                                \
	CALL(cuPointerSetAttribute)

/* NULL: the loaded driver lacks the function. */
struct cuda_calls {
#define CALL(name) __typeof__(&name) name;
	CUDA_CALLS(CALL)
#undef CALL
};

extern struct cuda_calls cuda;

/* Result of a call to a function that the driver lacks. */
#define CUDA_NO_SUCH_CALL ((CUresult)-1)

/* CUDA(cuInit, 0): announces the call and makes it. */
#define CUDA(call, ...)                                                                            \
	(child_does("%s", cuda_name(#call)), cuda.call ? cuda.call(__VA_ARGS__) : CUDA_NO_SUCH_CALL)

/* True after success. Else *failure is "CALL RESULT". */
bool cuda_made(const char *call, CUresult result, const char **failure);

/* Loads libcuda.so.1. Returns NULL, or the error text. */
const char *cuda_load(void);

/* Path of the loaded libcuda.so.1. */
const char *cuda_file(void);

/* Name without version suffix: "cuMemAlloc" for cuMemAlloc_v2. Not thread-safe; valid until the
 * next call. */
const char *cuda_name(const char *symbol);

/* Name of a result: "CUDA_ERROR_NO_DEVICE". Not thread-safe; valid until the next call. */
const char *cuda_result(CUresult result);

#endif
