/* SPDX-License-Identifier: BSD-3-Clause */
/* pools.c -- stream-ordered memory, and managed memory */
#include "driver.h"

static CUstream stream;

static void set_up(void)
{
	context_set_up();
	ck_cuda(driver.cuStreamCreate(&stream, 1));
}

static void tear_down(void)
{
	driver.cuStreamDestroy_v2(stream);
	context_tear_down();
}

static CUdeviceptr from_pool(size_t size)
{
	CUdeviceptr address = 0;

	ck_cuda(driver.cuMemAllocAsync(&address, size, stream));
	ck_assert_uint_ne(address, 0);
	return address;
}

CASE(pools, .set_up = set_up, .tear_down = tear_down);

TEST(pools, pool_memory_has_a_pool_and_no_context)
{
	CUdeviceptr address = from_pool(100000);
	struct attributes a = attributes_of(address);

	ck_assert_ptr_null(a.context);
	ck_assert_ptr_nonnull(a.pool);
	ck_assert_uint_eq(a.type, CU_MEMORYTYPE_DEVICE);
	ck_assert_uint_eq(a.rdma_capable, 0);
	ck_assert_uint_eq(a.ipc_capable, 0);
	ck_assert_uint_eq(a.range_base, address);
	ck_assert_uint_eq(a.range_size, 100000);
	ck_cuda(driver.cuMemFreeAsync(address, stream));
}

TEST(pools, from_the_call_of_its_free_on_it_is_unknown)
{
	CUdeviceptr address = from_pool(100000);

	ck_cuda(driver.cuMemFreeAsync(address, stream));
	ck_assert_int_eq(query_buffer_id(address), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(driver.cuMemFreeAsync(address, stream), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(driver.cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
}

TEST(pools, either_free_takes_memory_of_either_kind)
{
	CUdeviceptr pool = from_pool(100000), plain = allocate(100000);

	ck_cuda(driver.cuMemFree_v2(pool));
	/* The free of this memory takes effect in stream order. */
	ck_cuda(driver.cuMemFreeAsync(plain, stream));
	ck_cuda(driver.cuStreamSynchronize(stream));
	ck_assert_int_eq(query_buffer_id(pool), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(query_buffer_id(plain), CUDA_ERROR_INVALID_VALUE);
}

TEST(pools, only_the_beginning_of_pool_memory_can_be_freed)
{
	CUdeviceptr address = from_pool(100000);

	ck_assert_int_eq(driver.cuMemFreeAsync(address + 512, stream), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(driver.cuMemFree_v2(address + 512), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(driver.cuMemFreeAsync(0x1234, stream), CUDA_ERROR_INVALID_VALUE);
	ck_cuda(driver.cuMemFreeAsync(0, stream));
	ck_cuda(driver.cuMemFreeAsync(address, stream));
}

TEST(pools, a_failed_allocation_in_order_leaves_a_null_address)
{
	CUdeviceptr address = 0x1234;

	ck_cuda(driver.cuMemAllocAsync(&address, 0, stream));
	ck_assert_uint_eq(address, 0);
	address = 0x1234;
	ck_assert_int_eq(driver.cuMemAllocAsync(&address, (size_t)1 << 50, stream),
			 CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_uint_eq(address, 0);
	ck_assert_int_eq(driver.cuMemAllocAsync(NULL, 100, stream), CUDA_ERROR_INVALID_VALUE);
}

static CUmemoryPool make_pool(void)
{
	CUmemPoolProps properties = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				      .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemoryPool pool;

	ck_cuda(driver.cuMemPoolCreate(&pool, &properties));
	return pool;
}

TEST(pools, what_is_in_use_outlives_its_pool)
{
	CUmemoryPool pool = make_pool();
	CUdeviceptr address;

	ck_cuda(driver.cuMemAllocFromPoolAsync(&address, 3000000, pool, stream));
	ck_cuda(driver.cuStreamSynchronize(stream));
	ck_cuda(driver.cuMemPoolTrimTo(pool, 0));
	ck_assert_ptr_eq(attributes_of(address).pool, pool);
	ck_cuda(driver.cuMemPoolDestroy(pool));
	ck_assert_int_eq(query_buffer_id(address), CUDA_SUCCESS);
	ck_cuda(driver.cuMemFreeAsync(address, stream));
	ck_assert_int_eq(query_buffer_id(address), CUDA_ERROR_INVALID_VALUE);
}

/* ---- what a pool holds; sizes are multiples of what it takes from the GPU at a time ---- */

#define STEP ((uint64_t)32 << 20)

static uint64_t attribute_of(CUmemoryPool pool, CUmemPool_attribute attribute)
{
	uint64_t value = 7;

	ck_cuda(driver.cuMemPoolGetAttribute(pool, attribute, &value));
	return value;
}

static uint64_t reserved(CUmemoryPool pool)
{
	return attribute_of(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
}

static void set_threshold(CUmemoryPool pool, uint64_t threshold)
{
	ck_cuda(driver.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
	ck_assert_uint_eq(attribute_of(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD), threshold);
}

static void use(CUmemoryPool pool, uint64_t size)
{
	CUdeviceptr address;

	ck_cuda(driver.cuMemAllocFromPoolAsync(&address, size, pool, stream));
	ck_assert_uint_eq(attribute_of(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), size);
	ck_assert_uint_ge(reserved(pool), size);
	ck_cuda(driver.cuMemFreeAsync(address, stream));
	ck_cuda(driver.cuStreamSynchronize(stream));
	ck_assert_uint_eq(attribute_of(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
}

TEST(pools, freed_memory_stays_in_its_pool_up_to_the_threshold)
{
	CUmemoryPool pool = make_pool();

	ck_assert_uint_eq(attribute_of(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD), 0);
	use(pool, 2 * STEP);
	ck_assert_uint_eq(reserved(pool), 0);
	set_threshold(pool, 8 * STEP);
	use(pool, 2 * STEP);
	ck_assert_uint_eq(reserved(pool), 2 * STEP);
	/* It is split and joined, and not allocated beside. */
	use(pool, STEP);
	use(pool, 2 * STEP);
	ck_assert_uint_eq(reserved(pool), 2 * STEP);
	set_threshold(pool, STEP);
	use(pool, 2 * STEP);
	ck_assert_uint_eq(reserved(pool), STEP);
	ck_cuda(driver.cuMemPoolTrimTo(pool, STEP));
	ck_assert_uint_eq(reserved(pool), STEP);
	ck_cuda(driver.cuMemPoolTrimTo(pool, 0));
	ck_assert_uint_eq(reserved(pool), 0);
	ck_cuda(driver.cuMemPoolDestroy(pool));
}

TEST(pools, the_driver_takes_what_a_pool_holds_for_other_memory)
{
	CUmemoryPool pool = make_pool();
	CUdeviceptr address;
	size_t before, after, total, most;

	ck_cuda(driver.cuMemGetInfo_v2(&before, &total));
	most = before / 4 * 3 / STEP * STEP;
	set_threshold(pool, UINT64_MAX);
	use(pool, most);
	ck_assert_uint_eq(reserved(pool), most);
	ck_cuda(driver.cuMemGetInfo_v2(&after, &total));
	ck_assert_uint_le(after, before - most);
	ck_cuda(driver.cuMemAlloc_v2(&address, before / 2));
	ck_assert_uint_lt(reserved(pool), most);
	ck_cuda(driver.cuMemFree_v2(address));
	ck_cuda(driver.cuMemPoolDestroy(pool));
}

TEST(pools, pool_memory_outlives_contexts_and_is_freed_without_one)
{
	CUdeviceptr address;
	CUcontext other;

	ck_cuda(driver.cuCtxCreate_v2(&other, 0, device));
	ck_cuda(driver.cuMemAllocAsync(&address, 4096, NULL));
	ck_cuda(driver.cuStreamSynchronize(NULL));
	ck_cuda(driver.cuCtxDestroy_v2(other));
	ck_assert_int_eq(query_buffer_id(address), CUDA_SUCCESS);
	ck_cuda(driver.cuCtxPopCurrent_v2(NULL));
	ck_cuda(driver.cuMemFree_v2(address));
	ck_assert_int_eq(query_buffer_id(address), CUDA_ERROR_INVALID_VALUE);
	ck_cuda(driver.cuCtxPushCurrent_v2(context));
}

TEST(pools, access_to_a_pool_is_given_and_its_own_device_s_is_not_taken)
{
	CUmemAccessDesc access = { { CU_MEM_LOCATION_TYPE_DEVICE, device },
				   CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemoryPool pool = make_pool();

	ck_cuda(driver.cuMemPoolSetAccess(pool, &access, 1));
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	ck_assert_int_ne(driver.cuMemPoolSetAccess(pool, &access, 1), CUDA_SUCCESS);
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	access.location.id = 99;
	ck_assert_int_ne(driver.cuMemPoolSetAccess(pool, &access, 1), CUDA_SUCCESS);
	ck_assert_int_eq(driver.cuMemPoolSetAccess(pool, NULL, 1), CUDA_ERROR_INVALID_VALUE);
	ck_cuda(driver.cuMemPoolDestroy(pool));
}

TEST(pools, managed_memory_has_neither_advice_nor_a_place_at_first)
{
	static const CUmem_range_attribute places[] = {
		CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION,
		CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION,
		CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY,
	};
	CUdeviceptr address, plain = allocate(4096);
	int value = 99;

	ck_cuda(driver.cuMemAllocManaged(&address, 8192, CU_MEM_ATTACH_GLOBAL));
	ck_cuda(driver.cuMemRangeGetAttribute(&value, sizeof(value),
					      CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, address, 8192));
	ck_assert_int_eq(value, 0);
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		value = 99;
		ck_cuda(driver.cuMemRangeGetAttribute(&value, sizeof(value), places[i], address,
						      8192));
		ck_assert_int_eq(value, CU_DEVICE_INVALID);
	}
	ck_assert_int_eq(driver.cuMemRangeGetAttribute(&value, 3, places[0], address, 8192),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(driver.cuMemRangeGetAttribute(NULL, 4, places[0], address, 8192),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(driver.cuMemRangeGetAttribute(&value, 4, places[0], address, 0),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(driver.cuMemRangeGetAttribute(&value, 4, places[0], plain, 4096),
			 CUDA_ERROR_INVALID_VALUE);
	ck_cuda(driver.cuMemFree_v2(address));
	ck_cuda(driver.cuMemFree_v2(plain));
}

TEST(pools, an_imported_pointer_is_another_allocation)
{
	CUmemoryPool pool = make_pool(), imported;
	CUmemPoolPtrExportData data;
	CUdeviceptr address, again;
	int file = -1;

	ck_cuda(driver.cuMemAllocFromPoolAsync(&address, 3000000, pool, stream));
	ck_cuda(driver.cuStreamSynchronize(stream));
	ck_cuda(driver.cuMemPoolExportToShareableHandle(
		&file, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	ck_cuda(driver.cuMemPoolImportFromShareableHandle(
		&imported, (void *)(intptr_t)file, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	ck_cuda(driver.cuMemPoolExportPointer(&data, address));
	ck_cuda(driver.cuMemPoolImportPointer(&again, imported, &data));
	ck_assert_uint_ne(again, address);
	ck_assert_uint_ne(buffer_id(again), buffer_id(address));
	ck_assert_uint_eq(attributes_of(again).rdma_capable, 0);
	ck_assert_uint_eq(attributes_of(again).range_size, 3000000);
	ck_cuda(driver.cuMemFree_v2(again));
	ck_assert_int_eq(query_buffer_id(again), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(query_buffer_id(address), CUDA_SUCCESS);
	ck_cuda(driver.cuMemFreeAsync(address, stream));
	ck_cuda(driver.cuMemPoolDestroy(imported));
	ck_cuda(driver.cuMemPoolDestroy(pool));
}

TEST(pools, managed_memory_is_the_context_s_and_not_for_adapters)
{
	CUdeviceptr address, bad = 0x1234;
	struct attributes a;
	CUcontext other;

	ck_assert_int_eq(driver.cuMemAllocManaged(&bad, 0, CU_MEM_ATTACH_GLOBAL),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(bad, 0);
	ck_assert_int_eq(driver.cuMemAllocManaged(&bad, 4096, 9), CUDA_ERROR_INVALID_VALUE);
	ck_cuda(driver.cuCtxCreate_v2(&other, 0, device));
	ck_cuda(driver.cuMemAllocManaged(&address, 100000, CU_MEM_ATTACH_GLOBAL));
	a = attributes_of(address);
	ck_assert_ptr_eq(a.context, other);
	ck_assert_uint_eq(a.managed, 1);
	ck_assert_uint_eq(a.rdma_capable, 0);
	ck_assert_int_eq(driver.cuMemFreeAsync(address, stream), CUDA_ERROR_NOT_SUPPORTED);
	ck_assert_int_eq(query_buffer_id(address), CUDA_SUCCESS);
	ck_cuda(driver.cuCtxDestroy_v2(other));
	ck_assert_int_eq(query_buffer_id(address), CUDA_ERROR_INVALID_VALUE);
}
