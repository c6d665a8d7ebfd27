/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_abi.h -- declarations of the CUDA driver's interface, for builds without a toolkit
 *
 * The rows are in cuda_abi.def. NVIDIA documents their meaning (driver API); the contract tests
 * show the real behaviour. Never include cuda.h beside this header.
 */
#ifndef PEERPIN_MEMORY_CUDA_ABI_H
#define PEERPIN_MEMORY_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

enum cudaError_enum {
#define RESULT(name, value, text) name = value,
#include "memory/cuda_abi.def"
#undef RESULT
};

enum CUpointer_attribute_enum {
#define POINTER_ATTRIBUTE(name, value, ...) name = value,
#include "memory/cuda_abi.def"
#undef POINTER_ATTRIBUTE
};

enum CUdevice_attribute_enum {
#define DEVICE_ATTRIBUTE(name, value) name = value,
#include "memory/cuda_abi.def"
#undef DEVICE_ATTRIBUTE
};

enum CUdriverProcAddressQueryResult_enum {
#define PROC_ADDRESS_RESULT(name, value) name = value,
#include "memory/cuda_abi.def"
#undef PROC_ADDRESS_RESULT
};

enum CUstreamCaptureMode_enum {
#define CAPTURE_MODE(name, value) name = value,
#include "memory/cuda_abi.def"
#undef CAPTURE_MODE
};

enum CUstreamCaptureStatus_enum {
#define CAPTURE_STATUS(name, value) name = value,
#include "memory/cuda_abi.def"
#undef CAPTURE_STATUS
};

enum CUmemLocationType_enum {
#define LOCATION_TYPE(name, value) name = value,
#include "memory/cuda_abi.def"
#undef LOCATION_TYPE
};

enum CUmemAllocationType_enum {
#define ALLOCATION_TYPE(name, value) name = value,
#include "memory/cuda_abi.def"
#undef ALLOCATION_TYPE
};

enum CUmemAllocationHandleType_enum {
#define HANDLE_TYPE(name, value) name = value,
#include "memory/cuda_abi.def"
#undef HANDLE_TYPE
};

enum CUmemAllocationGranularity_flags_enum {
#define GRANULARITY(name, value) name = value,
#include "memory/cuda_abi.def"
#undef GRANULARITY
};

enum CUmemAccess_flags_enum {
#define ACCESS_FLAGS(name, value) name = value,
#include "memory/cuda_abi.def"
#undef ACCESS_FLAGS
};

enum CUmemRangeHandleType_enum {
#define RANGE_HANDLE_TYPE(name, value) name = value,
#include "memory/cuda_abi.def"
#undef RANGE_HANDLE_TYPE
};

enum CUexternalMemoryHandleType_enum {
#define EXTERNAL_HANDLE_TYPE(name, value) name = value,
#include "memory/cuda_abi.def"
#undef EXTERNAL_HANDLE_TYPE
};

enum CUmem_range_attribute_enum {
#define RANGE_ATTRIBUTE(name, value) name = value,
#include "memory/cuda_abi.def"
#undef RANGE_ATTRIBUTE
};

enum CUmemPool_attribute_enum {
#define POOL_ATTRIBUTE(name, value) name = value,
#include "memory/cuda_abi.def"
#undef POOL_ATTRIBUTE
};

enum CUlimit_enum {
#define LIMIT(name, value) name = value,
#include "memory/cuda_abi.def"
#undef LIMIT
};

enum CUjit_option_enum {
#define JIT_OPTION(name, value) name = value,
#include "memory/cuda_abi.def"
#undef JIT_OPTION
};

enum CUlibraryOption_enum {
#define LIBRARY_OPTION(name, value) name = value,
#include "memory/cuda_abi.def"
#undef LIBRARY_OPTION
};

enum {
#define CONSTANT(name, value) name = value,
#include "memory/cuda_abi.def"
#undef CONSTANT
};

/* Forwarded only; as wide as an int. */

struct CUuuid_st {
	char bytes[16];
};

typedef enum {
#define RESOURCE_TYPE(name, value) name = value,
#include "memory/cuda_abi.def"
#undef RESOURCE_TYPE
} CUdevResourceType;

#define TYPE(name, ...) typedef __VA_ARGS__ name;
#include "memory/cuda_abi.def"
#undef TYPE

/* H:4278, H:4305, H:4377, H:4496 */
struct CUmemLocation_st {
	CUmemLocationType type;
	int id; /* device ordinal */
};

struct CUmemAccessDesc_st {
	CUmemLocation location;
	CUmemAccess_flags flags;
};

struct CUmemAllocationProp_st {
	CUmemAllocationType type;
	CUmemAllocationHandleType requestedHandleTypes;
	CUmemLocation location;
	void *win32HandleMetaData;
	struct {
		unsigned char compressionType;
		unsigned char gpuDirectRDMACapable;
		unsigned short usage;
		unsigned char reserved[4];
	} allocFlags;
};

struct CUmemPoolProps_st {
	CUmemAllocationType allocType;
	CUmemAllocationHandleType handleTypes;
	CUmemLocation location;
	void *win32SecurityAttributes;
	size_t maxSize;
	unsigned short usage;
	unsigned char reserved[54];
};

/* H:341, H:349, H:3737, H:3853, H:4516, H:4650 */
struct CUipcMemHandle_st {
	char reserved[64];
};

struct CUipcEventHandle_st {
	char reserved[64];
};

struct CUmemPoolPtrExportData_st {
	unsigned char reserved[64];
};

struct CUDA_EXTERNAL_MEMORY_HANDLE_DESC_st {
	CUexternalMemoryHandleType type;
	union {
		int fd;
		void *padding[2];
	} handle;
	unsigned long long size;
	unsigned int flags;
	unsigned int reserved[16];
};

struct CUDA_EXTERNAL_MEMORY_BUFFER_DESC_st {
	unsigned long long offset;
	unsigned long long size;
	unsigned int flags;
	unsigned int reserved[16];
};

struct CUDA_MEM_ALLOC_NODE_PARAMS_v1_st {
	CUmemPoolProps poolProps;
	const CUmemAccessDesc *accessDescs;
	size_t accessDescCount;
	size_t bytesize;
	CUdeviceptr dptr;
};

/* H:3408, H:3421, H:2345, H:2011 */
struct CUDA_ARRAY_DESCRIPTOR_st {
	size_t Width, Height;
	int Format;
	unsigned int NumChannels;
};

struct CUDA_ARRAY3D_DESCRIPTOR_st {
	size_t Width, Height, Depth;
	int Format;
	unsigned int NumChannels, Flags;
};

struct CUlaunchConfig_st {
	unsigned int gridDimX, gridDimY, gridDimZ;
	unsigned int blockDimX, blockDimY, blockDimZ;
	unsigned int sharedMemBytes;
	CUstream hStream;
	void *attrs;
	unsigned int numAttrs;
};

struct CUDA_GRAPH_INSTANTIATE_PARAMS_st {
	cuuint64_t flags;
	CUstream hUploadStream;
	CUgraphNode hErrNode_out;
	int result_out;
};

struct CUgraphNodeParams_st {
	int type;
	int reserved0[3];
	union {
		long long reserved1[29];
		CUDA_MEM_ALLOC_NODE_PARAMS alloc;
	};
	long long reserved2;
};

#define FIELD(tag, field, offset, size)                                                            \
	_Static_assert(offsetof(struct tag, field) == (offset) && sizeof(struct tag) == (size),    \
		       #tag);
#include "memory/cuda_abi.def"
#undef FIELD

#define FUNCTION(symbol, ...) CUresult symbol(__VA_ARGS__);
#include "memory/cuda_abi.def"
#undef FUNCTION

#endif
