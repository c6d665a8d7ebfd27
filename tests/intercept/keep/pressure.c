/* SPDX-License-Identifier: BSD-3-Clause */
/* pressure.c -- kept memory is free memory: an allocation that needs it gets it
 *
 * Beside LIVE the GPU has 34 MiB: SMALL and LARGE are kept, and WANTED fits after their release.
 */
#include "keep.h"
#include "../../vmm.h"

#include <dlfcn.h>

#define TIGHT  "PEERPIN_KEEP=inf PEERPIN_KEEP_HOST=inf PEERPIN_SIM_MEMORY=64M"
#define LIVE   (30 * MIB)
#define SMALL  (10 * MIB)
#define LARGE  (20 * MIB)
#define WANTED (16 * MIB)

enum call { ALLOC, PITCH, MANAGED, CREATE, ASYNC, FROM_POOL };

static CUresult call_for(enum call call, size_t size, CUdeviceptr *address)
{
	CUmemGenericAllocationHandle handle;
	CUmemoryPool pool;
	size_t pitch;

	switch (call) {
	case ALLOC:
		return cuMemAlloc_v2(address, size);
	case PITCH:
		return cuMemAllocPitch_v2(address, &pitch, size / 16, 16, 4);
	case MANAGED:
		return cuMemAllocManaged(address, size, CU_MEM_ATTACH_GLOBAL);
	case CREATE:
		return cuMemCreate(&handle, size, &vmm_plain, 0);
	case ASYNC:
		return cuMemAllocAsync(address, size, NULL);
	case FROM_POOL:
		require_cuda(cuDeviceGetDefaultMemPool(&pool, 0));
		return cuMemAllocFromPoolAsync(address, size, pool, NULL);
	}
	return CUDA_ERROR_NOT_READY;
}

static void expect_free(size_t bytes)
{
	size_t seen, total;

	require_cuda(cuMemGetInfo_v2(&seen, &total));
	require(total == 64 * MIB && seen == bytes);
}

/* An allocation that does not fit into an empty GPU fails as without peerpin, and releases nothing
 * where its GPU is known: not for pools. */
static void an_allocation_gets_kept_memory_if_that_is_enough(unsigned int call)
{
	CUdeviceptr small, large, host, got = 0;

	begin();
	allocate(LIVE);
	host = keep_host(UNIT);
	small = allocate(SMALL);
	large = allocate(LARGE);
	expect_free(4 * MIB);
	require_cuda(cuMemFree_v2(small));
	require_cuda(cuMemFree_v2(large));
	require(tag(small) && tag(large) && free_bytes() == 4 * MIB);
	expect_free(34 * MIB);
	if (call != ASYNC && call != FROM_POOL) {
		require(call_for(call, 128 * MIB, &got) == CUDA_ERROR_OUT_OF_MEMORY && !got);
		require(own("kept_released") == 0 && tag(small) && tag(large));
	}
	require_cuda(call_for(call, WANTED, &got));
	require(own("kept_released") == 2 && own("kept_bytes") == 0 && tag(host));
	require(free_bytes() == 34 * MIB - WANTED);
	expect_free(34 * MIB - WANTED);
	require(call_for(call, 128 * MIB, &got) == CUDA_ERROR_OUT_OF_MEMORY);
	/* Afterwards memory is kept again. */
	small = keep(SMALL);
	require(allocate(SMALL) == small && own("reused") == 1);
	expect_no_errors();
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
	CUmemAllocationProp second = vmm_plain;
	CUmemGenericAllocationHandle handle;
	CUdeviceptr here, there;
	CUcontext other;

	(void)unused;
	begin();
	allocate(LIVE);
	here = keep(LARGE);
	require_cuda(cuCtxCreate_v2(&other, 0, 1));
	allocate(LIVE);
	there = keep(LARGE);
	require_cuda(cuCtxSetCurrent(context));
	second.location.id = 1;
	require_cuda(cuMemCreate(&handle, WANTED, &second, 0));
	require(own("kept_released") == 1 && !tag(there) && tag(here));
	require_cuda(cuMemRelease(handle));
	require_cuda(cuMemCreate(&handle, WANTED, &vmm_plain, 0));
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
	allocate(LIVE);
	there = keep(LARGE);
	id = tag(there);
	require_cuda(cuCtxSetCurrent(context));
	require_cuda(cuDeviceGetDefaultMemPool(&pool, 1));
	require_cuda(cuMemAllocFromPoolAsync(&got, WANTED, pool, NULL));
	require(own("kept_released") == 1 && tag(there) != id && tag(host));
	require_cuda(cuMemFreeAsync(got, NULL));
	expect_no_errors();
}

/* ---- releases by another thread ---- */

static _Atomic pid_t releasing_thread, waiting_thread;

static void *release(void *unused)
{
	(void)unused;
	require_cuda(cuCtxSetCurrent(context));
	releasing_thread = gettid();
	allocate(WANTED);
	return NULL;
}

static void *allocate_meanwhile(void *unused)
{
	(void)unused;
	require_cuda(cuCtxSetCurrent(context));
	waiting_thread = gettid();
	allocate(WANTED);
	waiting_thread = 0;
	return NULL;
}

/* The release waits for the registration of its memory, which the adapter holds. */
static void an_allocation_waits_for_memory_that_another_thread_releases(unsigned int unused)
{
	pthread_t threads[2];
	CUdeviceptr memory;
	uint64_t before;

	(void)unused;
	set_up();
	begin();
	require(!ibv_dereg_mr(registered(allocate(LIVE))));
	before = begun();
	set("hold", 1);
	memory = allocate(LARGE);
	until(begun() > before);
	require_cuda(cuMemFree_v2(memory));
	require(own("kept") == 1);
	require(!pthread_create(&threads[0], NULL, release, NULL));
	until(releasing_thread && is_waiting(releasing_thread) && own("kept_bytes") == 0);
	require(!pthread_create(&threads[1], NULL, allocate_meanwhile, NULL));
	until(waiting_thread && is_waiting(waiting_thread));
	require(tag(memory));
	set("hold", 0);
	for (int i = 0; i < 2; i++)
		require(!pthread_join(threads[i], NULL));
	require(own("kept_released") == 1 && own("internal_errors") == 0);
}

#define NEEDS(call) TEST(an_allocation_gets_kept_memory_if_that_is_enough, call, TIGHT)

const struct test pressure_tests[] = {
	NEEDS(ALLOC),
	NEEDS(PITCH),
	NEEDS(MANAGED),
	NEEDS(CREATE),
	NEEDS(ASYNC),
	NEEDS(FROM_POOL),
	TEST(host_memory_is_released_for_host_memory_alone, 0, TIGHT),
	TEST(host_memory_is_released_for_host_memory_alone, 1, TIGHT),
	TEST(memory_is_released_on_the_device_that_needs_it, 0, TIGHT " PEERPIN_SIM_DEVICES=2"),
	TEST(memory_is_released_on_the_device_of_the_pool, 0, TIGHT " PEERPIN_SIM_DEVICES=2"),
	TEST(an_allocation_waits_for_memory_that_another_thread_releases, 0, TIGHT),
	{ .name = NULL },
};
