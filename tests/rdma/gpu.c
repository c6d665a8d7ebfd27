/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu.c -- GPU memory by the driver API, linked like any program's */
#include "gpu.h"

#include <stdio.h>
#include <stdlib.h>

#include "memory/cuda_abi.h"
#include "../vmm.h"

#define must(call)                                                                                 \
	do {                                                                                       \
		CUresult must_result = (call);                                                     \
		if (must_result != CUDA_SUCCESS) {                                                 \
			fprintf(stderr, "gpu: %s: error %d\n", #call, (int)must_result);           \
			exit(99);                                                                  \
		}                                                                                  \
	} while (0)

static CUcontext context;

void gpu_open(void)
{
	CUdevice device;

	must(cuInit(0));
	must(cuDeviceGet(&device, 0));
	must(cuCtxCreate_v2(&context, 0, device));
}

void gpu_join(void)
{
	must(cuCtxSetCurrent(context));
}

void gpu_close(void)
{
	must(cuCtxDestroy_v2(context));
}

uint64_t gpu_allocate(size_t size)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, size));
	return address;
}

void gpu_free(uint64_t address)
{
	must(cuMemFree_v2(address));
}

static CUdeviceptr reserved;
static size_t reserved_size;

uint64_t gpu_map(size_t size)
{
	CUmemGenericAllocationHandle handle;

	if (!reserved) {
		must(cuMemAddressReserve(&reserved, size, 0, 0, 0));
		reserved_size = size;
	}
	must(cuMemCreate(&handle, reserved_size, &vmm_rdma, 0));
	must(cuMemMap(reserved, reserved_size, 0, handle, 0));
	must(cuMemRelease(handle));
	must(cuMemSetAccess(reserved, reserved_size, &vmm_access, 1));
	return reserved;
}

void gpu_unmap(uint64_t address)
{
	must(cuMemUnmap(address, reserved_size));
}

/* The driver returns before the GPU has filled it, and an adapter does not wait for the GPU. */
void gpu_fill(uint64_t address, unsigned char byte, size_t size)
{
	must(cuMemsetD8_v2(address, byte, size));
	must(cuCtxSynchronize());
}

void gpu_read(void *to, uint64_t from, size_t size)
{
	must(cuMemcpyDtoH_v2(to, from, size));
}

size_t gpu_free_memory(void)
{
	size_t available, total;

	must(cuCtxSynchronize());
	must(cuMemGetInfo_v2(&available, &total));
	return available;
}

int gpu_export(uint64_t address, size_t size, int *fd)
{
	return (int)cuMemGetHandleForAddressRange(fd, address, size,
						  CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
}

void gpu_name(char *to, size_t size)
{
	must(cuDeviceGetName(to, (int)size, 0));
}
