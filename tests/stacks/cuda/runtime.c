/* SPDX-License-Identifier: BSD-3-Clause */
/* runtime.c -- a libcudart for a UCX and a libfabric with CUDA, over the simulated driver
 *
 * NVIDIA's runtime requires private tables of the driver, which the simulated one lacks. These are
 * the functions that UCX 1.13 and its tests call, and those that libfabric 2 requires. Errors are
 * the driver's numbers.
 */
#include <string.h>

#include <cuda.h>
#include <cuda_runtime_api.h>

static __thread int current_device;

/* The runtime makes a device's primary context current in a thread without a context. */
static CUresult runtime_enter(void)
{
	CUcontext context = NULL;
	CUresult result = cuInit(0);

	if (result == CUDA_SUCCESS)
		result = cuCtxGetCurrent(&context);
	if (result != CUDA_SUCCESS || context)
		return result;
	result = cuDevicePrimaryCtxRetain(&context, current_device);
	return result == CUDA_SUCCESS ? cuCtxSetCurrent(context) : result;
}

#define AFTER_ENTER(call)                                                                          \
	do {                                                                                       \
		CUresult entered = runtime_enter();                                                \
		return (cudaError_t)(entered == CUDA_SUCCESS ? (call) : entered);                  \
	} while (0)

cudaError_t cudaGetDeviceCount(int *count)
{
	CUresult result = cuInit(0);

	return (cudaError_t)(result == CUDA_SUCCESS ? cuDeviceGetCount(count) : result);
}

cudaError_t cudaSetDevice(int device)
{
	CUcontext context;
	CUresult result = cuInit(0);

	current_device = device;
	if (result == CUDA_SUCCESS)
		result = cuDevicePrimaryCtxRetain(&context, device);
	return (cudaError_t)(result == CUDA_SUCCESS ? cuCtxSetCurrent(context) : result);
}

cudaError_t cudaGetDevice(int *device)
{
	*device = current_device;
	return cudaSuccess;
}

const char *cudaGetErrorName(cudaError_t error)
{
	const char *name = "unknown";

	cuGetErrorName((CUresult)error, &name);
	return name;
}

const char *cudaGetErrorString(cudaError_t error)
{
	const char *text = "unknown error";

	cuGetErrorString((CUresult)error, &text);
	return text;
}

cudaError_t cudaDeviceSynchronize(void)
{
	AFTER_ENTER(cuCtxSynchronize());
}

cudaError_t cudaMalloc(void **address, size_t size)
{
	AFTER_ENTER(cuMemAlloc((CUdeviceptr *)address, size));
}

cudaError_t cudaMallocPitch(void **address, size_t *pitch, size_t width, size_t height)
{
	AFTER_ENTER(cuMemAllocPitch((CUdeviceptr *)address, pitch, width, height, 4));
}

cudaError_t cudaMallocManaged(void **address, size_t size, unsigned int flags)
{
	AFTER_ENTER(cuMemAllocManaged((CUdeviceptr *)address, size, flags));
}

cudaError_t cudaFree(void *address)
{
	AFTER_ENTER(cuMemFree((CUdeviceptr)address));
}

cudaError_t cudaMemset(void *to, int value, size_t size)
{
	AFTER_ENTER(cuMemsetD8((CUdeviceptr)to, (unsigned char)value, size));
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind)
{
	(void)kind;
	AFTER_ENTER(cuMemcpy((CUdeviceptr)to, (CUdeviceptr)from, size));
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, enum cudaMemcpyKind kind,
			    cudaStream_t stream)
{
	(void)kind;
	AFTER_ENTER(cuMemcpyAsync((CUdeviceptr)to, (CUdeviceptr)from, size, stream));
}

cudaError_t cudaHostRegister(void *address, size_t size, unsigned int flags)
{
	AFTER_ENTER(cuMemHostRegister(address, size, flags));
}

cudaError_t cudaHostUnregister(void *address)
{
	AFTER_ENTER(cuMemHostUnregister(address));
}

cudaError_t cudaHostAlloc(void **address, size_t size, unsigned int flags)
{
	AFTER_ENTER(cuMemHostAlloc(address, size, flags));
}

cudaError_t cudaFreeHost(void *address)
{
	AFTER_ENTER(cuMemFreeHost(address));
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *address)
{
	AFTER_ENTER(cuIpcGetMemHandle((CUipcMemHandle *)handle, (CUdeviceptr)address));
}

static CUresult runtime_open(void **address, const cudaIpcMemHandle_t *handle, unsigned int flags)
{
	CUipcMemHandle copy;

	memcpy(&copy, handle, sizeof(copy));
	return cuIpcOpenMemHandle((CUdeviceptr *)address, copy, flags);
}

cudaError_t cudaIpcOpenMemHandle(void **address, cudaIpcMemHandle_t handle, unsigned int flags)
{
	AFTER_ENTER(runtime_open(address, &handle, flags));
}

cudaError_t cudaIpcCloseMemHandle(void *address)
{
	AFTER_ENTER(cuIpcCloseMemHandle((CUdeviceptr)address));
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags)
{
	AFTER_ENTER(cuStreamCreate(stream, flags));
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	AFTER_ENTER(cuStreamDestroy(stream));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	AFTER_ENTER(cuStreamSynchronize(stream));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
	AFTER_ENTER(cuEventCreate(event, flags));
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	AFTER_ENTER(cuEventDestroy(event));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	AFTER_ENTER(cuEventRecord(event, stream));
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
	AFTER_ENTER(cuEventQuery(event));
}
