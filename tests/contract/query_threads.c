/* SPDX-License-Identifier: BSD-3-Clause */
/* query_threads.c -- queries by threads without a usable context, and during a capture */
#include "driver.h"

#include <pthread.h>
#include <string.h>

#define MAPPING ((size_t)2 << 20)

static CUdeviceptr address, mapped;
static CUcontext other;

/* Results of a thread's calls. */
static struct found {
	CUresult pointer, range, nothing, retain, set, version, alloc, registering, unregister,
		free;
	uint64_t pointer_value, listed;
	unsigned int access;
	CUdeviceptr base;
	size_t size;
	void *host;
} found;

static char mine[64];
static void *host;

static void query(void)
{
	CUpointer_attribute name = CU_POINTER_ATTRIBUTE_DEVICE_POINTER;
	void *data = &found.listed;
	CUmemGenericAllocationHandle handle;
	unsigned int version, on = 1;

	memset(&found, 0xaa, sizeof(found));
	found.pointer = driver.cuPointerGetAttribute(&found.pointer_value, name, address);
	ck_cuda(driver.cuPointerGetAttributes(1, &name, &data, address));
	ck_cuda(driver.cuPointerGetAttribute(&found.access, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS,
					     mapped));
	found.range = driver.cuMemGetAddressRange_v2(&found.base, &found.size, address);
	found.nothing = driver.cuMemGetAddressRange_v2(NULL, NULL, address);
	found.retain = driver.cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)address);
	found.set = driver.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address);
	found.version = driver.cuCtxGetApiVersion(NULL, &version);
	found.alloc = driver.cuMemHostAlloc(&found.host, 8, 0);
	found.registering = driver.cuMemHostRegister_v2(mine + 32, 8, 0);
	found.unregister = driver.cuMemHostUnregister(mine);
	found.free = driver.cuMemFreeHost(host);
}

static void *query_without_context(void *unused)
{
	(void)unused;
	query();
	return NULL;
}

static void *destroy(void *context_of_another)
{
	driver.cuCtxDestroy_v2(context_of_another);
	return NULL;
}

static void on_a_thread(void *(*what)(void *), void *argument)
{
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, what, argument), 0);
	pthread_join(thread, NULL);
}

static void set_up_mapped(void)
{
	CUmemAllocationProp properties = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
					   .location = { CU_MEM_LOCATION_TYPE_DEVICE, device } };
	CUmemAccessDesc access = { properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle handle;

	ck_cuda(driver.cuMemCreate(&handle, MAPPING, &properties, 0));
	ck_cuda(driver.cuMemAddressReserve(&mapped, MAPPING, 0, 0, 0));
	ck_cuda(driver.cuMemMap(mapped, MAPPING, 0, handle, 0));
	ck_cuda(driver.cuMemSetAccess(mapped, MAPPING, &access, 1));
	ck_cuda(driver.cuMemRelease(handle));
}

static void tear_down(void)
{
	ck_cuda(driver.cuMemUnmap(mapped, MAPPING));
	ck_cuda(driver.cuMemAddressFree(mapped, MAPPING));
	context_tear_down();
}

static void set_up(void)
{
	context_set_up();
	address = allocate(1000);
	set_up_mapped();
	ck_cuda(driver.cuMemHostAlloc(&host, 8, 0));
	ck_cuda(driver.cuMemHostRegister_v2(mine, 8, 0));
}

CASE(query_threads, .set_up = set_up, .tear_down = tear_down);

static void expect_no_device_pointer(void)
{
	ck_assert_int_eq(found.pointer, CUDA_ERROR_INVALID_CONTEXT);
	ck_assert_uint_eq(found.pointer_value, 0);
	ck_assert_uint_eq(found.listed, 0);
	ck_assert_uint_eq(found.access, 0); /* of the current context */
	ck_assert_uint_eq(found.base, 0);
	ck_assert_uint_eq(found.size, 0);
	ck_assert_ptr_null(found.host);
	ck_cuda(found.nothing);
	ck_assert_int_eq(found.retain, CUDA_ERROR_INVALID_VALUE);
}

TEST(query_threads, a_thread_without_a_context_is_told_all_but_the_device_pointer_and_the_range)
{
	on_a_thread(query_without_context, NULL);
	expect_no_device_pointer();
	ck_assert_int_eq(found.range, CUDA_ERROR_INVALID_CONTEXT);
	ck_assert_int_eq(found.version, CUDA_ERROR_INVALID_CONTEXT);
	ck_cuda(found.set);
	ck_assert_int_eq(found.alloc, CUDA_ERROR_INVALID_CONTEXT);
	ck_assert_int_eq(found.registering, CUDA_ERROR_INVALID_CONTEXT);
	ck_cuda(found.unregister);
	ck_cuda(found.free);
}

TEST(query_threads, a_destroyed_context_is_in_the_way_of_sets_ranges_and_host_memory)
{
	unsigned int flags;
	CUdevice of;

	ck_cuda(driver.cuCtxCreate_v2(&other, 0, device));
	on_a_thread(destroy, other);
	query();
	expect_no_device_pointer();
	ck_cuda(driver.cuCtxGetDevice(&of));
	ck_cuda(driver.cuCtxGetFlags(&flags));
	ck_assert_int_eq(found.range, CUDA_ERROR_CONTEXT_IS_DESTROYED);
	ck_assert_int_eq(found.version, CUDA_ERROR_CONTEXT_IS_DESTROYED);
	ck_assert_int_eq(found.set, CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(found.alloc, CUDA_ERROR_CONTEXT_IS_DESTROYED);
	ck_assert_int_eq(found.registering, CUDA_ERROR_CONTEXT_IS_DESTROYED);
	ck_assert_int_eq(found.unregister, CUDA_ERROR_CONTEXT_IS_DESTROYED);
	ck_assert_int_eq(found.free, CUDA_ERROR_CONTEXT_IS_DESTROYED);
	ck_cuda(driver.cuCtxPopCurrent_v2(&other));
}

static CUstream stream;

/* Whether a capture stays valid after `what`. */
static bool survives(void (*what)(void))
{
	CUgraph graph;

	ck_cuda(driver.cuStreamCreate(&stream, 1));
	ck_cuda(driver.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	what();
	if (driver.cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS) {
		ck_cuda(driver.cuGraphDestroy(graph));
		ck_cuda(driver.cuStreamDestroy_v2(stream));
		return true;
	}
	ck_cuda(driver.cuStreamDestroy_v2(stream));
	return false;
}

static void all_queries(void)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr base;
	uint64_t value[2];
	size_t size;

	for (int attribute = 1; attribute < 25; attribute++)
		driver.cuPointerGetAttribute(value, (CUpointer_attribute)attribute, address);
	ck_cuda(driver.cuMemGetAddressRange_v2(&base, &size, address));
	driver.cuMemRetainAllocationHandle(&handle, host);
	driver.cuPointerSetAttribute(NULL, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address);
}

static CUdeviceptr to_set;

static void set_sync_memops(void)
{
	unsigned int on = 1;

	ck_assert_int_eq(
		driver.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, to_set),
		CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

static void allocate_host(void)
{
	void *memory;

	ck_assert_int_eq(driver.cuMemHostAlloc(&memory, 8, 0),
			 CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

static void register_host(void)
{
	ck_assert_int_eq(driver.cuMemHostRegister_v2(mine + 32, 8, 0),
			 CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

static void end_host(void)
{
	ck_assert_int_eq(driver.cuMemFreeHost(host), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

TEST(query_threads, a_capture_survives_queries_and_no_set_whatever_the_address)
{
	unsigned int on = 1;

	ck_cuda(driver.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
	ck_assert(survives(all_queries));
	to_set = address; /* already set */
	ck_assert(!survives(set_sync_memops));
	to_set = (uintptr_t)&on; /* not memory of CUDA */
	ck_assert(!survives(set_sync_memops));
	ck_assert(!survives(allocate_host));
	ck_assert(!survives(register_host));
	ck_assert(!survives(end_host));
}
