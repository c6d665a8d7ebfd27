/* SPDX-License-Identifier: BSD-3-Clause */
/* abi_cuda.c -- every row of cuda_abi.def against a real cuda.h: a wrong one does not compile
 *
 * The rows use the real header's types instead of ours. The types have rows too, so equal text
 * means equal interface. Structures are compared by their size and the offsets of used fields;
 * cuda_abi.h checks its own definitions with the same rows.
 */
#define __CUDA_API_VERSION_INTERNAL /* declares old versions too */
#include <cuda.h>

#include <stddef.h>
#include <stdio.h>

#define SAME_VALUE(name, value) _Static_assert((name) == (value), #name);

#define TYPE(name, ...)			    _Static_assert(__builtin_types_compatible_p(name, __VA_ARGS__), #name);
#define RESULT(name, value, text)	    SAME_VALUE(name, value)
#define POINTER_ATTRIBUTE(name, value, ...) SAME_VALUE(name, value)
#define DEVICE_ATTRIBUTE(name, value)	    SAME_VALUE(name, value)
#define PROC_ADDRESS_RESULT(name, value)    SAME_VALUE(name, value)
#define CAPTURE_MODE(name, value)	    SAME_VALUE(name, value)
#define CAPTURE_STATUS(name, value)	    SAME_VALUE(name, value)
#define RESOURCE_TYPE(name, value)	    SAME_VALUE(name, value)
#define LOCATION_TYPE(name, value)	    SAME_VALUE(name, value)
#define ALLOCATION_TYPE(name, value)	    SAME_VALUE(name, value)
#define HANDLE_TYPE(name, value)	    SAME_VALUE(name, value)
#define GRANULARITY(name, value)	    SAME_VALUE(name, value)
#define ACCESS_FLAGS(name, value)	    SAME_VALUE(name, value)
#define RANGE_HANDLE_TYPE(name, value)	    SAME_VALUE(name, value)
#define EXTERNAL_HANDLE_TYPE(name, value)   SAME_VALUE(name, value)
#define RANGE_ATTRIBUTE(name, value)	    SAME_VALUE(name, value)
#define POOL_ATTRIBUTE(name, value)	    SAME_VALUE(name, value)
#define LIMIT(name, value)		    SAME_VALUE(name, value)
#define JIT_OPTION(name, value)		    SAME_VALUE(name, value)
#define LIBRARY_OPTION(name, value)	    SAME_VALUE(name, value)
#define CONSTANT(name, value)		    SAME_VALUE(name, value)
#define FUNCTION(symbol, ...)                                                                      \
	_Static_assert(__builtin_types_compatible_p(__typeof__(symbol), CUresult(__VA_ARGS__)),    \
		       #symbol);
#define FIELD(tag, field, offset, size)                                                            \
	_Static_assert(offsetof(struct tag, field) == (offset) && sizeof(struct tag) == (size),    \
		       #tag);
#include "memory/cuda_abi.def"
#undef FIELD
#undef TYPE
#undef RESULT
#undef POINTER_ATTRIBUTE
#undef DEVICE_ATTRIBUTE
#undef PROC_ADDRESS_RESULT
#undef CAPTURE_MODE
#undef CAPTURE_STATUS
#undef RESOURCE_TYPE
#undef LOCATION_TYPE
#undef ALLOCATION_TYPE
#undef HANDLE_TYPE
#undef GRANULARITY
#undef ACCESS_FLAGS
#undef RANGE_HANDLE_TYPE
#undef EXTERNAL_HANDLE_TYPE
#undef RANGE_ATTRIBUTE
#undef POOL_ATTRIBUTE
#undef LIMIT
#undef JIT_OPTION
#undef LIBRARY_OPTION
#undef CONSTANT
#undef FUNCTION

_Static_assert(sizeof(struct CUuuid_st) == 16 && offsetof(struct CUuuid_st, bytes) == 0 &&
		       sizeof(((struct CUuuid_st *)NULL)->bytes) == 16,
	       "CUuuid");
/* cuda_abi.h declares some enumerators only: its enums may be smaller. */
#define SAME_SIZE(tag) _Static_assert(sizeof(enum tag) == sizeof(int), #tag)
SAME_SIZE(cudaError_enum);
SAME_SIZE(CUpointer_attribute_enum);
SAME_SIZE(CUdevice_attribute_enum);
SAME_SIZE(CUdriverProcAddressQueryResult_enum);
SAME_SIZE(CUstreamCaptureMode_enum);
SAME_SIZE(CUstreamCaptureStatus_enum);
_Static_assert(sizeof(CUdevResourceType) == sizeof(int), "CUdevResourceType");
SAME_SIZE(CUmemLocationType_enum);
SAME_SIZE(CUmemAllocationType_enum);
SAME_SIZE(CUmemAllocationHandleType_enum);
SAME_SIZE(CUmemAllocationGranularity_flags_enum);
SAME_SIZE(CUmemAccess_flags_enum);
SAME_SIZE(CUmemRangeHandleType_enum);
SAME_SIZE(CUexternalMemoryHandleType_enum);
SAME_SIZE(CUmem_range_attribute_enum);
SAME_SIZE(CUmemPool_attribute_enum);

int main(void)
{
	int rows = 0;

#define TYPE(name, ...)			    rows++;
#define RESULT(name, value, text)	    rows++;
#define POINTER_ATTRIBUTE(name, value, ...) rows++;
#define DEVICE_ATTRIBUTE(name, value)	    rows++;
#define PROC_ADDRESS_RESULT(name, value)    rows++;
#define CAPTURE_MODE(name, value)	    rows++;
#define CAPTURE_STATUS(name, value)	    rows++;
#define RESOURCE_TYPE(name, value)	    rows++;
#define LOCATION_TYPE(name, value)	    rows++;
#define ALLOCATION_TYPE(name, value)	    rows++;
#define HANDLE_TYPE(name, value)	    rows++;
#define GRANULARITY(name, value)	    rows++;
#define ACCESS_FLAGS(name, value)	    rows++;
#define RANGE_HANDLE_TYPE(name, value)	    rows++;
#define EXTERNAL_HANDLE_TYPE(name, value)   rows++;
#define RANGE_ATTRIBUTE(name, value)	    rows++;
#define POOL_ATTRIBUTE(name, value)	    rows++;
#define CONSTANT(name, value)		    rows++;
#define FUNCTION(symbol, ...)		    rows++;
#define FIELD(tag, field, offset, size)	    rows++;
#include "memory/cuda_abi.def"
	printf("cuda.h %d.%d agrees with %d declarations\n1 passed, 0 failed, 0 skipped\n",
	       CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10, rows);
	return 0;
}
