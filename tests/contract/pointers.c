/* SPDX-License-Identifier: BSD-3-Clause */
/* pointers.c -- what the driver says of addresses, inside allocations and elsewhere */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

START_TEST(device_memory_is_described_at_every_address_inside)
{
	CUdeviceptr address = allocate(100000);
	struct {
		unsigned int type, managed, ipc, mapped, capable;
		int ordinal;
		CUcontext context;
		CUdeviceptr pointer, start;
		size_t size;
		CUmemoryPool pool;
	} is;

	for (size_t offset = 0; offset < 100000; offset += 99999) {
		CUdeviceptr at = address + offset;

		memset(&is, 0, sizeof(is));
		ck_cuda(driver.cuPointerGetAttribute(&is.type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
						     at));
		ck_assert_uint_eq(is.type, CU_MEMORYTYPE_DEVICE);
		ck_cuda(driver.cuPointerGetAttribute(&is.context, CU_POINTER_ATTRIBUTE_CONTEXT,
						     at));
		ck_assert_ptr_eq(is.context, context);
		ck_cuda(driver.cuPointerGetAttribute(&is.pointer,
						     CU_POINTER_ATTRIBUTE_DEVICE_POINTER, at));
		ck_assert_uint_eq(is.pointer, at);
		ck_cuda(driver.cuPointerGetAttribute(&is.managed, CU_POINTER_ATTRIBUTE_IS_MANAGED,
						     at));
		ck_assert_uint_eq(is.managed, 0);
		ck_cuda(driver.cuPointerGetAttribute(&is.ordinal,
						     CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at));
		ck_assert_int_eq(is.ordinal, 0);
		ck_cuda(driver.cuPointerGetAttribute(
			&is.ipc, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, at));
		ck_assert_uint_eq(is.ipc, 1);
		ck_cuda(driver.cuPointerGetAttribute(&is.start,
						     CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at));
		ck_assert_uint_eq(is.start, address);
		ck_cuda(driver.cuPointerGetAttribute(&is.size, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
						     at));
		ck_assert_uint_eq(is.size, 100000);
		ck_cuda(driver.cuPointerGetAttribute(&is.mapped, CU_POINTER_ATTRIBUTE_MAPPED, at));
		ck_assert_uint_eq(is.mapped, 1);
		ck_cuda(driver.cuPointerGetAttribute(
			&is.capable, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, at));
		ck_assert_uint_eq(is.capable, 1);
		ck_cuda(driver.cuPointerGetAttribute(&is.pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
						     at));
		ck_assert_ptr_null(is.pool);
	}
	ck_assert_int_eq(driver.cuPointerGetAttribute(&is.pointer,
						      CU_POINTER_ATTRIBUTE_HOST_POINTER, address),
			 CUDA_ERROR_INVALID_VALUE);
	ck_cuda(driver.cuMemFree_v2(address));
}
END_TEST

START_TEST(a_buffer_id_is_the_allocation_s_and_ends_with_it)
{
	CUdeviceptr one = allocate(1000), other = allocate(1000);

	ck_assert_uint_eq(buffer_id(one), buffer_id(one + 999));
	ck_assert_uint_ne(buffer_id(one), buffer_id(other));
	ck_cuda(driver.cuMemFree_v2(one));
	ck_assert_int_eq(query_buffer_id(one), CUDA_ERROR_INVALID_VALUE);
	ck_cuda(driver.cuMemFree_v2(other));
}
END_TEST

START_TEST(a_host_address_has_no_attributes)
{
	char host[64];
	CUdeviceptr address = (CUdeviceptr)(uintptr_t)host;
	unsigned int type, on = 1;
	CUcontext owner;

	ck_assert_int_eq(query_buffer_id(address), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(query_buffer_id(0), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(
		driver.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address),
		CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(
		driver.cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, address),
		CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(
		driver.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address),
		CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(a_list_of_attributes_agrees_with_single_ones)
{
	CUpointer_attribute attributes[] = {
		CU_POINTER_ATTRIBUTE_CONTEXT,
		CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
		CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
		CU_POINTER_ATTRIBUTE_BUFFER_ID,
		CU_POINTER_ATTRIBUTE_IS_MANAGED,
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
		CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
		CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
		CU_POINTER_ATTRIBUTE_RANGE_SIZE,
		CU_POINTER_ATTRIBUTE_MAPPED,
		CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE,
		CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
	};
	enum { COUNT = sizeof(attributes) / sizeof(attributes[0]) };
	CUdeviceptr address = allocate(100000);
	uint64_t listed[COUNT] = { 0 }, single;
	void *values[COUNT];

	for (int i = 0; i < COUNT; i++)
		values[i] = &listed[i];
	ck_cuda(driver.cuPointerGetAttributes(COUNT, attributes, values, address + 5));
	for (int i = 0; i < COUNT; i++) {
		single = 0;
		ck_cuda(driver.cuPointerGetAttribute(&single, attributes[i], address + 5));
		ck_assert_msg(single == listed[i], "attribute %d", (int)attributes[i]);
	}
	ck_assert_uint_eq(listed[0], (uintptr_t)context);
	ck_cuda(driver.cuMemFree_v2(address));
}
END_TEST

/* The library tells by the BUFFER_ID of 0 that there is no such memory any more. */
START_TEST(a_list_for_what_is_no_memory_is_no_error_and_all_null)
{
	CUdeviceptr address = allocate(4 << 20);
	CUpointer_attribute attributes[] = { CU_POINTER_ATTRIBUTE_CONTEXT,
					     CU_POINTER_ATTRIBUTE_BUFFER_ID,
					     CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL };
	CUcontext owner = context;
	uint64_t id = 99;
	int ordinal = 99;
	void *values[] = { &owner, &id, &ordinal };

	ck_cuda(driver.cuMemFree_v2(address));
	ck_cuda(driver.cuPointerGetAttributes(3, attributes, values, address));
	ck_assert_ptr_null(owner);
	ck_assert_uint_eq(id, 0);
	ck_assert_int_eq(ordinal, -2);
	owner = context;
	id = 99;
	ck_cuda(driver.cuPointerGetAttributes(3, attributes, values,
					      (CUdeviceptr)(uintptr_t)values));
	ck_assert_ptr_null(owner);
	ck_assert_uint_eq(id, 0);
}
END_TEST

START_TEST(sync_memops_can_be_set_again_and_ends_with_the_allocation)
{
	CUdeviceptr address = allocate(4 << 20);
	unsigned int on = 1;

	ck_cuda(driver.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
	ck_cuda(driver.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
	ck_cuda(driver.cuMemFree_v2(address));
	ck_assert_int_eq(
		driver.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address),
		CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(only_mapped_memory_has_an_allocation_handle)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address = allocate(4 << 20);
	char host[64];

	ck_assert_int_eq(driver.cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)address),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(driver.cuMemRetainAllocationHandle(&handle, host),
			 CUDA_ERROR_INVALID_VALUE);
	ck_cuda(driver.cuMemFree_v2(address));
}
END_TEST

TCase *pointers_tests(void)
{
	TCase *tests = tcase_create("pointers");

	tcase_add_checked_fixture(tests, context_set_up, context_tear_down);
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, device_memory_is_described_at_every_address_inside);
	tcase_add_test(tests, a_buffer_id_is_the_allocation_s_and_ends_with_it);
	tcase_add_test(tests, a_host_address_has_no_attributes);
	tcase_add_test(tests, a_list_of_attributes_agrees_with_single_ones);
	tcase_add_test(tests, a_list_for_what_is_no_memory_is_no_error_and_all_null);
	tcase_add_test(tests, sync_memops_can_be_set_again_and_ends_with_the_allocation);
	tcase_add_test(tests, only_mapped_memory_has_an_allocation_handle);
	return tests;
}
