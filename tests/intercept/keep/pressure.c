/* SPDX-License-Identifier: BSD-3-Clause */
/* pressure.c -- kept memory is free memory: an allocation that needs it gets it
 *
 * The GPU has 64 MiB: SMALL and LARGE are kept, and WANTED fits after the release of LARGE alone.
 */
#include "keep.h"

#include <dlfcn.h>

#define TIGHT  "PEERPIN_KEEP=inf PEERPIN_KEEP_HOST=inf PEERPIN_SIM_MEMORY=64M"
#define SMALL  (20 * MIB)
#define LARGE  (40 * MIB)
#define WANTED (30 * MIB)

static const CUmemAllocationProp properties = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
						.location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };

static CUmemoryPool default_pool(void)
{
	CUmemoryPool pool;

	require_cuda(cuDeviceGetDefaultMemPool(&pool, 0));
	return pool;
}

enum call { ALLOC, PITCH, MANAGED, CREATE, ASYNC, ASYNC_PTSZ, FROM_POOL, FROM_POOL_PTSZ, CALLS };

static CUresult call_for(enum call call, size_t size, CUdeviceptr *address)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	__typeof__(cuMemAllocAsync) *async =
		(__typeof__(async))dlsym(driver, "cuMemAllocAsync_ptsz");
	__typeof__(cuMemAllocFromPoolAsync) *from_pool =
		(__typeof__(from_pool))dlsym(driver, "cuMemAllocFromPoolAsync_ptsz");
	CUmemGenericAllocationHandle handle = 0;
	CUresult result;
	size_t pitch;

	switch (call) {
	case ALLOC:
		return cuMemAlloc_v2(address, size);
	case PITCH:
		return cuMemAllocPitch_v2(address, &pitch, size / 16, 16, 4);
	case MANAGED:
		return cuMemAllocManaged(address, size, CU_MEM_ATTACH_GLOBAL);
	case CREATE:
		result = cuMemCreate(&handle, size, &properties, 0);
		*address = (CUdeviceptr)handle;
		return result;
	case ASYNC:
		return cuMemAllocAsync(address, size, NULL);
	case ASYNC_PTSZ:
		return async(address, size, NULL);
	case FROM_POOL:
		return cuMemAllocFromPoolAsync(address, size, default_pool(), NULL);
	case FROM_POOL_PTSZ:
		return from_pool(address, size, default_pool(), NULL);
	case CALLS:
		break;
	}
	return CUDA_ERROR_NOT_READY;
}

static void expect_free(size_t bytes)
{
	size_t seen, total;

	require_cuda(cuMemGetInfo_v2(&seen, &total));
	require(total == 64 * MIB && seen == bytes);
}

static void an_allocation_gets_the_largest_kept_memory_that_it_needs(unsigned int call)
{
	CUdeviceptr small, large, got = 0;

	begin();
	small = allocate(SMALL);
	large = allocate(LARGE);
	expect_free(4 * MIB);
	require_cuda(cuMemFree_v2(small));
	require_cuda(cuMemFree_v2(large));
	require(tag(small) && tag(large) && free_bytes() == 4 * MIB);
	expect_free(64 * MIB);
	require_cuda(call_for(call, WANTED, &got));
	require(got && own("kept_released") == 1 && tag(small) && !query_tag(small));
	expect_free(34 * MIB);
	require(free_bytes() == 14 * MIB);
	if (call == CREATE)
		require_cuda(cuMemRelease(got));
	else if (call == ASYNC || call == FROM_POOL)
		require_cuda(cuMemFreeAsync(got, NULL));
	else
		require_cuda(cuMemFree_v2(got));
	require(allocate(SMALL) == small);
	require_cuda(cuMemFree_v2(small));
	expect_free(64 * MIB);
	release_all();
	require(free_bytes() == 64 * MIB);
	expect_no_kept();
}

/* Both are released, one after the other. */
static void an_allocation_gets_all_if_it_needs_all(unsigned int call)
{
	CUdeviceptr small = 0, large = 0, got;

	begin();
	require_cuda(cuMemAlloc_v2(&small, SMALL));
	require_cuda(cuMemAlloc_v2(&large, LARGE));
	require_cuda(cuMemFree_v2(small));
	require_cuda(cuMemFree_v2(large));
	require_cuda(call_for(call, 62 * MIB, &got));
	require(own("kept_released") == 2 && free_bytes() == 2 * MIB);
	expect_free(2 * MIB);
	expect_no_kept();
}

/* What does not fit into an empty GPU: all is released, and the result is the driver's. */
static void a_hopeless_allocation_releases_all_and_fails(unsigned int call)
{
	CUdeviceptr small, host, got = 7;

	begin();
	small = keep(SMALL);
	host = keep_host(UNIT);
	require(call_for(call, 128 * MIB, &got) == CUDA_ERROR_OUT_OF_MEMORY);
	require((call == CREATE || !got) && own("kept_released") == 1 && !tag(small) && tag(host));
	require(free_bytes() == 64 * MIB);
	expect_free(64 * MIB);
	require(allocate_host(UNIT) == host);
	expect_no_kept();
}

static void other_errors_release_nothing(unsigned int unused)
{
	CUdeviceptr address;
	size_t pitch;

	(void)unused;
	begin();
	keep(SMALL);
	require(cuMemAlloc_v2(&address, 0) == CUDA_ERROR_INVALID_VALUE);
	require(cuMemAllocPitch_v2(&address, &pitch, SIZE_MAX, 2, 4) == CUDA_ERROR_INVALID_VALUE);
	require(cuMemAllocManaged(&address, 0, CU_MEM_ATTACH_GLOBAL) == CUDA_ERROR_INVALID_VALUE);
	require(cuMemCreate(NULL, UNIT, &properties, 0) == CUDA_ERROR_INVALID_VALUE);
	require(own("kept_released") == 0);
}

/* The driver refuses more host memory than there are addresses. */
static void host_memory_is_released_for_host_memory_alone(unsigned int by_host_alloc)
{
	CUdeviceptr small, large, on_device;
	void *got = pointer_to(7);

	begin();
	small = keep_host(UNIT);
	large = keep_host(3 * UNIT);
	on_device = keep(SMALL);
	require((by_host_alloc
			 ? cuMemHostAlloc(&got, (size_t)1 << 60, 0)
			 : cuMemAllocHost_v2(&got, (size_t)1 << 60)) == CUDA_ERROR_OUT_OF_MEMORY);
	require(!got && !tag(small) && !tag(large) && own("kept_host_bytes") == 0);
	require(own("kept_released") == 2 && allocate(SMALL) == on_device);
	expect_no_kept();
}

/* cuMemCreate names its device. */
static void memory_is_released_on_the_device_that_needs_it(unsigned int unused)
{
	CUmemAllocationProp second = properties;
	CUmemGenericAllocationHandle handle;
	CUdeviceptr here, there;
	CUcontext other;

	(void)unused;
	begin();
	here = keep(LARGE);
	require_cuda(cuCtxCreate_v2(&other, 0, 1));
	there = keep(LARGE);
	require_cuda(cuCtxSetCurrent(context));
	second.location.id = 1;
	require_cuda(cuMemCreate(&handle, WANTED, &second, 0));
	require(own("kept_released") == 1 && !tag(there) && tag(here));
	require_cuda(cuMemRelease(handle));
	require_cuda(cuMemCreate(&handle, WANTED, &properties, 0));
	require(own("kept_released") == 2 && !tag(here));
	require_cuda(cuMemRelease(handle));
	expect_no_kept();
}

/* A pool's memory may be on another device than the current one. */
static void memory_is_released_on_the_device_of_the_pool(unsigned int unused)
{
	CUdeviceptr there, host, got;
	CUmemoryPool pool;
	CUcontext other;
	uint64_t id;

	(void)unused;
	begin();
	host = keep_host(UNIT);
	require_cuda(cuCtxCreate_v2(&other, 0, 1));
	there = keep(LARGE);
	id = tag(there);
	require_cuda(cuCtxSetCurrent(context));
	require_cuda(cuDeviceGetDefaultMemPool(&pool, 1));
	require_cuda(cuMemAllocFromPoolAsync(&got, WANTED, pool, NULL));
	require(own("kept_released") == 1 && tag(there) != id && tag(host));
	require_cuda(cuMemFreeAsync(got, NULL));
	expect_no_errors();
}

/* Blocks above 1 MiB; smaller memory shares a block with live memory here. */
static void free_memory_is_what_the_driver_would_report_after_a_free(unsigned int unused)
{
	static const size_t sizes[] = {
		1, 100000, MIB - 1, MIB + 1, 2 * MIB, 2 * MIB + 1, 5 * MIB
	};
	size_t before, seen, total;

	(void)unused;
	begin();
	allocate(1);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		require_cuda(cuMemGetInfo_v2(&before, &total));
		keep(sizes[i]);
		require_cuda(cuMemGetInfo_v2(&seen, NULL));
		require(seen == before);
		require(raw.cuMemGetInfo_v2(&seen, NULL) == CUDA_SUCCESS && seen <= before);
	}
	keep_host(5 * MIB);
	require_cuda(cuMemGetInfo_v2(&seen, NULL));
	require(seen == before);
	release_all();
	require(free_bytes() == before);
	/* Errors are the driver's. */
	require_cuda(cuCtxSetCurrent(NULL));
	require(cuMemGetInfo_v2(&seen, NULL) == CUDA_ERROR_INVALID_CONTEXT);
	require_cuda(cuCtxSetCurrent(context));
}

#define EACH_CALL(test)                                                                            \
	TEST(test, ALLOC, TIGHT), TEST(test, PITCH, TIGHT), TEST(test, MANAGED, TIGHT),            \
		TEST(test, CREATE, TIGHT), TEST(test, ASYNC, TIGHT),                               \
		TEST(test, ASYNC_PTSZ, TIGHT), TEST(test, FROM_POOL, TIGHT),                       \
		TEST(test, FROM_POOL_PTSZ, TIGHT)

const struct test pressure_tests[] = {
	EACH_CALL(an_allocation_gets_the_largest_kept_memory_that_it_needs),
	EACH_CALL(an_allocation_gets_all_if_it_needs_all),
	EACH_CALL(a_hopeless_allocation_releases_all_and_fails),
	TEST(an_allocation_gets_the_largest_kept_memory_that_it_needs, ALLOC,
	     TIGHT " PEERPIN_VERIFY=1"),
	TEST(other_errors_release_nothing, 0, TIGHT),
	TEST(host_memory_is_released_for_host_memory_alone, 0, TIGHT),
	TEST(host_memory_is_released_for_host_memory_alone, 1, TIGHT),
	TEST(memory_is_released_on_the_device_that_needs_it, 0, TIGHT " PEERPIN_SIM_DEVICES=2"),
	TEST(memory_is_released_on_the_device_of_the_pool, 0, TIGHT " PEERPIN_SIM_DEVICES=2"),
	TEST(free_memory_is_what_the_driver_would_report_after_a_free, 0, TIGHT),
	{ .name = NULL },
};
