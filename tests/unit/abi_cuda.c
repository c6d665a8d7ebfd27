/* SPDX-License-Identifier: BSD-3-Clause */
/* abi_cuda.c -- every row of cuda_abi.def against a real cuda.h: a wrong one does not compile
 *
 * The rows are read with the real header's types in place of ours, so that equal text means equal interface.
 */
#define __CUDA_API_VERSION_INTERNAL /* declares the functions of old versions too */
#include <cuda.h>

#include <stdio.h>

#define RESULT(name, value, text)      _Static_assert(name == value, #name);
#define POINTER_ATTRIBUTE(name, value) _Static_assert(name == value, #name);
#define DEVICE_ATTRIBUTE(name, value)  _Static_assert(name == value, #name);
#define CONSTANT(name, value)	       _Static_assert(name == value, #name);
#define FUNCTION(symbol, ...)                                                                                \
	_Static_assert(__builtin_types_compatible_p(__typeof__(symbol), CUresult(__VA_ARGS__)), #symbol);
#include "memory/cuda_abi.def"
#undef RESULT
#undef POINTER_ATTRIBUTE
#undef DEVICE_ATTRIBUTE
#undef CONSTANT
#undef FUNCTION

/* What cuda_abi.h declares by hand. */
_Static_assert(sizeof(CUdeviceptr) == 8 && (CUdeviceptr)-1 > 0, "CUdeviceptr");
_Static_assert(sizeof(CUdeviceptr_v1) == 4 && (CUdeviceptr_v1)-1 > 0, "CUdeviceptr_v1");
_Static_assert(sizeof(CUmemGenericAllocationHandle) == 8, "CUmemGenericAllocationHandle");
_Static_assert(sizeof(cuuint64_t) == 8 && (cuuint64_t)-1 > 0, "cuuint64_t");
_Static_assert(__builtin_types_compatible_p(CUdevice, int), "CUdevice");
_Static_assert(__builtin_types_compatible_p(CUcontext, struct CUctx_st *), "CUcontext");
_Static_assert(__builtin_types_compatible_p(CUstream, struct CUstream_st *), "CUstream");
_Static_assert(__builtin_types_compatible_p(CUevent, struct CUevent_st *), "CUevent");
_Static_assert(__builtin_types_compatible_p(CUgreenCtx, struct CUgreenCtx_st *), "CUgreenCtx");
_Static_assert(sizeof(CUuuid) == 16, "CUuuid");
_Static_assert(sizeof(CUresult) == 4 && sizeof(CUpointer_attribute) == 4 && sizeof(CUdevice_attribute) == 4 &&
		       sizeof(CUstreamCaptureMode) == 4 && sizeof(CUdriverProcAddressQueryResult) == 4,
	       "enumerations");
_Static_assert(CU_GET_PROC_ADDRESS_SUCCESS == 0 && CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND == 1 &&
		       CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT == 2,
	       "CUdriverProcAddressQueryResult");
_Static_assert(CU_STREAM_CAPTURE_MODE_GLOBAL == 0 && CU_STREAM_CAPTURE_MODE_THREAD_LOCAL == 1 &&
		       CU_STREAM_CAPTURE_MODE_RELAXED == 2,
	       "CUstreamCaptureMode");

int main(void)
{
	int rows = 0;

#define RESULT(name, value, text)      rows++;
#define POINTER_ATTRIBUTE(name, value) rows++;
#define DEVICE_ATTRIBUTE(name, value)  rows++;
#define CONSTANT(name, value)	       rows++;
#define FUNCTION(symbol, ...)	       rows++;
#include "memory/cuda_abi.def"
	printf("cuda.h %d.%d agrees with %d declarations\n1 passed, 0 failed, 0 skipped\n",
	       CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10, rows);
	return 0;
}
