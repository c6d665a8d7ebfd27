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

#define ck_cuda(call) ck_assert_int_eq((call), CUDA_SUCCESS)

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

	ck_cuda(cuMemAlloc_v2(&address, size));
	ck_cuda(cuMemsetD8_v2(address, 0x5a, size));
	return address;
}

static void set_up(void)
{
	CUcontext context;
	CUdevice device;

	ck_cuda(cuInit(0));
	ck_cuda(cuDeviceGet(&device, 0));
	ck_cuda(cuCtxCreate_v2(&context, 0, device));
}

CASE(pages, .set_up = set_up);

TEST(pages, pages_of_whole_blocks_go_back_to_the_kernel)
{
	CUdeviceptr address = allocate(8 * MIB);

	ck_assert_uint_ge(kept(), 8 * MIB);
	listen();
	ck_cuda(cuMemFree_v2(address));
	ck_assert_uint_eq(kept(), 0);
	ck_assert(was_advised(address, 8 * MIB));
}

TEST(pages, pages_of_a_freed_granule_in_a_live_block_go_back_too)
{
	CUdeviceptr first = allocate(1000), large = allocate(512 * KIB), last = allocate(1000);
	unsigned char byte;
	size_t before = kept();

	listen();
	ck_cuda(cuMemFree_v2(large));
	ck_assert(was_advised(large, 512 * KIB));
	/* Except the 2 granules that the neighbours use. */
	ck_assert_uint_ge(before - kept(), (512 - 128) * KIB);
	ck_assert_uint_gt(kept(), 0);
	ck_cuda(cuMemcpyDtoH_v2(&byte, first + 999, 1));
	ck_assert_uint_eq(byte, 0x5a);
	ck_cuda(cuMemcpyDtoH_v2(&byte, last, 1));
	ck_assert_uint_eq(byte, 0x5a);
}

TEST(pages, a_neighbour_s_bytes_survive_a_free_on_its_page)
{
	CUdeviceptr one = allocate(1000), other = allocate(1000);
	unsigned char bytes[1000];

	listen();
	ck_cuda(cuMemFree_v2(one));
	ck_assert(was_advised(one, 1000));
	ck_cuda(cuMemcpyDtoH_v2(bytes, other, sizeof(bytes)));
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
	ck_cuda(cuInit(0));
	ck_cuda(cuDeviceGet(&device, 0));
	ck_cuda(cuDeviceTotalMem_v2(&total, device));
	ck_assert_uint_eq(total, (size_t)8 << 30);
}

TEST(settings, its_memory_can_be_set)
{
	size_t total = 0;
	CUdevice device;
	int count = 0;

	setenv("PEERPIN_SIM_MEMORY", "128M", 1);
	setenv("PEERPIN_SIM_DEVICES", "2", 1);
	ck_cuda(cuInit(0));
	ck_cuda(cuDeviceGetCount(&count));
	ck_assert_int_eq(count, 2);
	ck_cuda(cuDeviceGet(&device, 1));
	ck_cuda(cuDeviceTotalMem_v2(&total, device));
	ck_assert_uint_eq(total, 128 * MIB);
}

/* Each without its setting, and with it. */
static const struct {
	const char *setting, *value;
	CUdevice_attribute attribute;
} attributes[] = {
	{ "PEERPIN_SIM_PAGEABLE", "1", CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS },
	{ "PEERPIN_SIM_INTEGRATED", "1", CU_DEVICE_ATTRIBUTE_INTEGRATED },
	{ "PEERPIN_SIM_DMABUF", "0", CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED },
};

LOOP_TEST(settings, attributes_of_the_device_can_be_set, 0, 6)
{
	bool on = *attributes[_i / 2].value == '1';
	int value = -1;

	if (_i % 2)
		setenv(attributes[_i / 2].setting, attributes[_i / 2].value, 1);
	ck_cuda(cuInit(0));
	ck_cuda(cuDeviceGetAttribute(&value, attributes[_i / 2].attribute, 0));
	ck_assert_int_eq(value, (_i % 2) == on);
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
	ck_cuda(cuInit(0));
	ck_cuda(cuCtxCreate_v2(&context, 0, 0));
	ck_cuda(cuMemAlloc_v2(&address, 4096));
	check_resident(address, _i);
	ck_cuda(cuMemCreate(&physical, 2 * MIB, &properties, 0));
	ck_cuda(cuMemAddressReserve(&mapped, 2 * MIB, 0, 0, 0));
	ck_cuda(cuMemMap(mapped, 2 * MIB, 0, physical, 0));
	check_resident(mapped, _i);
	check_resident(mapped + 2 * MIB - 16 * 4096, _i);
}

static CUresult export(unsigned long long flags, int *file)
{
	CUdeviceptr address;

	set_up();
	ck_cuda(cuMemAlloc_v2(&address, MIB));
	return cuMemGetHandleForAddressRange(file, address, MIB,
					     CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, flags);
}

/* With flags 0, 1 (over PCIe), and 2 (none): by default, without dma-bufs, and with NVLink-C2C. */
LOOP_TEST(settings, dma_bufs_can_be_taken_away_or_mapped_over_pcie, 0, 9)
{
	static const char *const settings[] = { "NOTHING=0", "PEERPIN_SIM_DMABUF=0",
						"PEERPIN_SIM_C2C=1" };
	bool works = _i == 0 || _i == 6 || _i == 7;
	int file = -1;

	putenv((char *)settings[_i / 3]);
	ck_assert_int_eq(export((unsigned int)_i % 3, &file),
			 works ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED);
	ck_assert_int_eq(file >= 0, works);
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

	ck_cuda(cuInit(0));
	ck_cuda(cuDeviceGetDevResource(0, (CUdevResource *)resource, CU_DEV_RESOURCE_TYPE_SM));
	ck_cuda(cuDevResourceGenerateDesc(&description, (CUdevResource *)resource, 1));
	while (result != CUDA_SUCCESS) {
		failing_calloc = failures + 1;
		result = cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM);
		if (failing_calloc)
			break;
		ck_assert_int_eq(result, CUDA_ERROR_OUT_OF_MEMORY);
		failures++;
		ck_cuda(cuDevicePrimaryCtxGetState(0, &flags, &active));
		ck_assert_int_eq(active, 0);
	}
	failing_calloc = 0;
	ck_cuda(result);
	ck_assert_uint_gt(failures, 0);
	ck_cuda(cuCtxFromGreenCtx(&context, green));
	ck_assert_ptr_nonnull(context);
	ck_cuda(cuGreenCtxDestroy(green));
}

SUITE("simulated driver")
