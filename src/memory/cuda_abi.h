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

enum cudaError_enum {
#define RESULT(name, value, text) name = value,
#include "memory/cuda_abi.def"
#undef RESULT
};

enum CUpointer_attribute_enum {
#define POINTER_ATTRIBUTE(name, value) name = value,
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

enum {
#define CONSTANT(name, value) name = value,
#include "memory/cuda_abi.def"
#undef CONSTANT
};

struct CUuuid_st {
	char bytes[16];
};

#define TYPE(name, ...) typedef __VA_ARGS__ name;
#include "memory/cuda_abi.def"
#undef TYPE

#define FUNCTION(symbol, ...) CUresult symbol(__VA_ARGS__);
#include "memory/cuda_abi.def"
#undef FUNCTION

#endif
