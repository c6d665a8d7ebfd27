/* SPDX-License-Identifier: BSD-3-Clause */
/* check_sim.c -- properties of the simulated driver beyond the contract: a free returns the pages
 * to the kernel, and memory hooks see it before the address is reused */
#include <check.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory/cuda_abi.h"
#include "unit/suite.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* Interposes libc's function as a memory hook does; records the last released range. */
static uintptr_t advised_from, advised_to;

int madvise(void *address, size_t length, int advice)
{
	if (advice == MADV_REMOVE || advice == MADV_DONTNEED) {
		if ((uintptr_t)address < advised_from)
			advised_from = (uintptr_t)address;
		if ((uintptr_t)address + length > advised_to)
			advised_to = (uintptr_t)address + length;
	}
	return (int)syscall(SYS_madvise, address, length, advice);
}

/* Number of the calloc() call from now on that fails; 0: none. */
static unsigned int failing_calloc;

void *__libc_calloc(size_t count, size_t size);

void *calloc(size_t count, size_t size)
{
	return failing_calloc && !--failing_calloc ? NULL : __libc_calloc(count, size);
}

static void listen(void)
{
	advised_from = UINTPTR_MAX;
	advised_to = 0;
}

static bool was_advised(CUdeviceptr address, size_t size)
{
	return advised_from <= address && address + size <= advised_to;
}

/* Bytes that the kernel keeps for device memory. */
static size_t kept(void)
{
	char path[64], target[256];
	struct dirent *entry;
	size_t bytes = 0;
	struct stat file;
	ssize_t length;
	DIR *files = opendir("/proc/self/fd");

	ck_assert_ptr_nonnull(files);
	while ((entry = readdir(files))) {
		snprintf(path, sizeof(path), "/proc/self/fd/%.16s", entry->d_name);
		length = readlink(path, target, sizeof(target) - 1);
		if (length < 0)
			continue;
		target[length] = '\0';
		if (strstr(target, "peerpin-sim-gpu") && !stat(path, &file))
			bytes += (size_t)file.st_blocks * 512;
	}
	closedir(files);
	return bytes;
}

static CUdeviceptr allocate(size_t size)
{
	CUdeviceptr address;

	ck_assert_int_eq(cuMemAlloc_v2(&address, size), CUDA_SUCCESS);
	ck_assert_int_eq(cuMemsetD8_v2(address, 0x5a, size), CUDA_SUCCESS);
	return address;
}

static void set_up(void)
{
	CUcontext context;
	CUdevice device;

	ck_assert_int_eq(cuInit(0), CUDA_SUCCESS);
	ck_assert_int_eq(cuDeviceGet(&device, 0), CUDA_SUCCESS);
	ck_assert_int_eq(cuCtxCreate_v2(&context, 0, device), CUDA_SUCCESS);
}

CASE(pages, .set_up = set_up);

TEST(pages, pages_of_whole_blocks_go_back_to_the_kernel)
{
	CUdeviceptr address = allocate(8 * MIB);

	ck_assert_uint_ge(kept(), 8 * MIB);
	listen();
	ck_assert_int_eq(cuMemFree_v2(address), CUDA_SUCCESS);
	ck_assert_uint_eq(kept(), 0);
	ck_assert(was_advised(address, 8 * MIB));
}

TEST(pages, pages_of_a_freed_granule_in_a_live_block_go_back_too)
{
	CUdeviceptr first = allocate(1000), large = allocate(512 * KIB), last = allocate(1000);
	unsigned char byte;
	size_t before = kept();

	listen();
	ck_assert_int_eq(cuMemFree_v2(large), CUDA_SUCCESS);
	ck_assert(was_advised(large, 512 * KIB));
	/* Except the 2 granules that the neighbours use. */
	ck_assert_uint_ge(before - kept(), (512 - 128) * KIB);
	ck_assert_uint_gt(kept(), 0);
	ck_assert_int_eq(cuMemcpyDtoH_v2(&byte, first + 999, 1), CUDA_SUCCESS);
	ck_assert_uint_eq(byte, 0x5a);
	ck_assert_int_eq(cuMemcpyDtoH_v2(&byte, last, 1), CUDA_SUCCESS);
	ck_assert_uint_eq(byte, 0x5a);
}

TEST(pages, a_neighbour_s_bytes_survive_a_free_on_its_page)
{
	CUdeviceptr one = allocate(1000), other = allocate(1000);
	unsigned char bytes[1000];

	listen();
	ck_assert_int_eq(cuMemFree_v2(one), CUDA_SUCCESS);
	ck_assert(was_advised(one, 1000));
	ck_assert_int_eq(cuMemcpyDtoH_v2(bytes, other, sizeof(bytes)), CUDA_SUCCESS);
	for (size_t i = 0; i < sizeof(bytes); i++)
		ck_assert_uint_eq(bytes[i], 0x5a);
}

CASE(settings);

LOOP_TEST(settings, a_bad_setting_is_named_and_the_default_holds, 0, 8)
{
	static const char *const bad[] = { "",	 "x",	"-1",	"0",
					   "1K", "64X", "64MM", "99999999999999999999" };
	size_t total = 0;
	CUdevice device;

	setenv("PEERPIN_SIM_MEMORY", bad[_i], 1);
	ck_assert_int_eq(cuInit(0), CUDA_SUCCESS);
	ck_assert_int_eq(cuDeviceGet(&device, 0), CUDA_SUCCESS);
	ck_assert_int_eq(cuDeviceTotalMem_v2(&total, device), CUDA_SUCCESS);
	ck_assert_uint_eq(total, (size_t)8 << 30);
}

TEST(settings, its_memory_can_be_set)
{
	size_t total = 0;
	CUdevice device;
	int count = 0;

	setenv("PEERPIN_SIM_MEMORY", "128M", 1);
	setenv("PEERPIN_SIM_DEVICES", "2", 1);
	ck_assert_int_eq(cuInit(0), CUDA_SUCCESS);
	ck_assert_int_eq(cuDeviceGetCount(&count), CUDA_SUCCESS);
	ck_assert_int_eq(count, 2);
	ck_assert_int_eq(cuDeviceGet(&device, 1), CUDA_SUCCESS);
	ck_assert_int_eq(cuDeviceTotalMem_v2(&total, device), CUDA_SUCCESS);
	ck_assert_uint_eq(total, 128 * MIB);
}

LOOP_TEST(settings, access_to_pageable_memory_can_be_set, 0, 2)
{
	int value = -1;

	if (_i)
		setenv("PEERPIN_SIM_PAGEABLE", "1", 1);
	ck_assert_int_eq(cuInit(0), CUDA_SUCCESS);
	ck_assert_int_eq(
		cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 0),
		CUDA_SUCCESS);
	ck_assert_int_eq(value, _i);
}

static void check_resident(CUdeviceptr address, int wanted)
{
	unsigned char resident[16]; /* of a granule */

	ck_assert_int_eq(mincore((void *)(uintptr_t)address, 16 * 4096, resident), 0);
	for (int i = 0; i < 16; i++)
		ck_assert_int_eq(resident[i] & 1, wanted);
}

/* A registration covers whole granules. */
LOOP_TEST(settings, memory_can_have_its_pages_before_the_first_access, 0, 2)
{
	CUmemAllocationProp properties = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
					   .location.type = CU_MEM_LOCATION_TYPE_DEVICE };
	CUmemGenericAllocationHandle physical;
	CUdeviceptr address, mapped;
	CUcontext context;

	if (_i)
		setenv("PEERPIN_SIM_POPULATE", "1", 1);
	ck_assert_int_eq(cuInit(0), CUDA_SUCCESS);
	ck_assert_int_eq(cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
	ck_assert_int_eq(cuMemAlloc_v2(&address, 4096), CUDA_SUCCESS);
	check_resident(address, _i);
	ck_assert_int_eq(cuMemCreate(&physical, 2 * MIB, &properties, 0), CUDA_SUCCESS);
	ck_assert_int_eq(cuMemAddressReserve(&mapped, 2 * MIB, 0, 0, 0), CUDA_SUCCESS);
	ck_assert_int_eq(cuMemMap(mapped, 2 * MIB, 0, physical, 0), CUDA_SUCCESS);
	check_resident(mapped, _i);
	check_resident(mapped + 2 * MIB - 16 * 4096, _i);
}

LOOP_TEST(settings, dma_bufs_can_be_taken_away, 0, 2)
{
	CUdeviceptr address;
	CUcontext context;
	int value = -1, file = -1;
	CUresult result;

	if (!_i)
		setenv("PEERPIN_SIM_DMABUF", "0", 1);
	ck_assert_int_eq(cuInit(0), CUDA_SUCCESS);
	ck_assert_int_eq(cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
	ck_assert_int_eq(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 0),
			 CUDA_SUCCESS);
	ck_assert_int_eq(value, _i);
	ck_assert_int_eq(cuMemAlloc_v2(&address, MIB), CUDA_SUCCESS);
	result = cuMemGetHandleForAddressRange(&file, address, MIB,
					       CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
	ck_assert_int_eq(result, _i ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED);
	ck_assert_int_eq(file >= 0, _i);
}

LOOP_TEST(settings, dma_bufs_can_be_mapped_over_pcie, 0, 2)
{
	CUdeviceptr address;
	CUcontext context;
	int file = -1;

	if (_i)
		setenv("PEERPIN_SIM_C2C", "1", 1);
	ck_assert_int_eq(cuInit(0), CUDA_SUCCESS);
	ck_assert_int_eq(cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
	ck_assert_int_eq(cuMemAlloc_v2(&address, MIB), CUDA_SUCCESS);
	ck_assert_int_eq(cuMemGetHandleForAddressRange(&file, address, MIB,
						       CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 2),
			 CUDA_ERROR_NOT_SUPPORTED);
	ck_assert_int_eq(cuMemGetHandleForAddressRange(&file, address, MIB,
						       CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
						       CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE),
			 _i ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED);
	ck_assert_int_eq(file >= 0, _i);
}

LOOP_TEST(settings, devices_can_be_part_of_the_processor, 0, 2)
{
	int value = -1;

	if (_i)
		setenv("PEERPIN_SIM_INTEGRATED", "1", 1);
	ck_assert_int_eq(cuInit(0), CUDA_SUCCESS);
	ck_assert_int_eq(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_INTEGRATED, 0),
			 CUDA_SUCCESS);
	ck_assert_int_eq(value, _i);
}

TEST(settings, a_green_context_exists_completely_or_not_at_all)
{
	uint64_t resource[32];
	CUdevResourceDesc description;
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	unsigned int flags, failures = 0;
	CUgreenCtx green;
	CUcontext context;
	int active;

	ck_assert_int_eq(cuInit(0), CUDA_SUCCESS);
	ck_assert_int_eq(
		cuDeviceGetDevResource(0, (CUdevResource *)resource, CU_DEV_RESOURCE_TYPE_SM),
		CUDA_SUCCESS);
	ck_assert_int_eq(cuDevResourceGenerateDesc(&description, (CUdevResource *)resource, 1),
			 CUDA_SUCCESS);
	while (result != CUDA_SUCCESS) {
		failing_calloc = failures + 1;
		result = cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM);
		if (failing_calloc)
			break;
		ck_assert_int_eq(result, CUDA_ERROR_OUT_OF_MEMORY);
		failures++;
		ck_assert_int_eq(cuDevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
		ck_assert_int_eq(active, 0);
	}
	failing_calloc = 0;
	ck_assert_int_eq(result, CUDA_SUCCESS);
	ck_assert_uint_gt(failures, 0);
	ck_assert_int_eq(cuCtxFromGreenCtx(&context, green), CUDA_SUCCESS);
	ck_assert_ptr_nonnull(context);
	ck_assert_int_eq(cuGreenCtxDestroy(green), CUDA_SUCCESS);
}

SUITE("simulated driver")
