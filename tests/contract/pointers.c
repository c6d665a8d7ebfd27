/* SPDX-License-Identifier: BSD-3-Clause */
/* pointers.c -- queries of addresses, inside allocations and elsewhere */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

CASE(pointers, .set_up = context_set_up, .tear_down = context_tear_down);

TEST(pointers, a_buffer_id_is_the_allocation_s_and_ends_with_it)
{
	CUdeviceptr one = allocate(1000), other = allocate(1000);

	ck_assert_uint_eq(buffer_id(one), buffer_id(one + 999));
	ck_assert_uint_ne(buffer_id(one), buffer_id(other));
	ck_cuda(driver.cuMemFree_v2(one));
	ck_assert_int_eq(query_buffer_id(one), CUDA_ERROR_INVALID_VALUE);
	ck_cuda(driver.cuMemFree_v2(other));
}

/* The library detects freed memory by its BUFFER_ID of 0. */
TEST(pointers, a_list_for_what_is_no_memory_is_no_error_and_all_null)
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

TEST(pointers, sync_memops_can_be_set_again_and_ends_with_the_allocation)
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
