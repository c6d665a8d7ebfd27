/* SPDX-License-Identifier: BSD-3-Clause */
/* host.c -- what the driver says of page-locked memory of the host, and when that ends */
#include "driver.h"

#include <string.h>

#define SIZE ((size_t)100000)

static CUdeviceptr address_of(void *memory)
{
	return (CUdeviceptr)(uintptr_t)memory;
}

/* Of an attribute of up to 8 bytes. */
static uint64_t query(CUpointer_attribute attribute, void *memory)
{
	uint64_t value = 0;

	ck_cuda(driver.cuPointerGetAttribute(&value, attribute, address_of(memory)));
	return value;
}

START_TEST(host_memory_is_described_as_such)
{
	char *memory = NULL;

	ck_cuda(driver.cuMemHostAlloc((void **)&memory, SIZE, 0));
	for (size_t offset = 0; offset < SIZE; offset += SIZE - 1) {
		void *at = memory + offset;

		ck_assert_uint_eq(query(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at), CU_MEMORYTYPE_HOST);
		ck_assert_uint_eq(query(CU_POINTER_ATTRIBUTE_CONTEXT, at), (uintptr_t)context);
		ck_assert_uint_eq(query(CU_POINTER_ATTRIBUTE_HOST_POINTER, at), address_of(at));
		ck_assert_uint_eq(query(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, at), address_of(at));
		ck_assert_uint_eq(query(CU_POINTER_ATTRIBUTE_IS_MANAGED, at), 0);
		ck_assert_uint_eq(query(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, at), 0);
		ck_assert_uint_eq(query(CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, at), 0);
	}
	ck_cuda(driver.cuMemFreeHost(memory));
}
END_TEST

START_TEST(host_memory_takes_sync_memops_and_ends_when_it_is_freed)
{
	unsigned int on = 1;
	void *memory = NULL;

	ck_cuda(driver.cuMemAllocHost_v2(&memory, SIZE));
	memset(memory, 0x5a, SIZE);
	ck_cuda(driver.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address_of(memory)));
	ck_assert_uint_ne(buffer_id(address_of(memory)), 0);
	ck_cuda(driver.cuMemFreeHost(memory));
	ck_assert_int_eq(query_buffer_id(address_of(memory)), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(what_is_not_host_memory_is_not_freed_as_such)
{
	CUdeviceptr address = allocate(SIZE);
	char mine[64];

	ck_assert_int_ne(driver.cuMemFreeHost((void *)(uintptr_t)address), CUDA_SUCCESS);
	ck_assert_int_ne(driver.cuMemFreeHost(mine), CUDA_SUCCESS);
	buffer_id(address);
	ck_cuda(driver.cuMemFree_v2(address));
}
END_TEST

START_TEST(host_memory_ends_with_its_context)
{
	CUcontext other;
	void *memory = NULL;

	ck_cuda(driver.cuCtxCreate_v2(&other, 0, device));
	ck_cuda(driver.cuMemAllocHost_v2(&memory, SIZE));
	ck_cuda(driver.cuCtxDestroy_v2(other));
	ck_assert_int_eq(query_buffer_id(address_of(memory)), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(host_memory_can_be_copied_from_and_to)
{
	CUdeviceptr address = allocate(SIZE);
	char *memory = NULL;

	ck_cuda(driver.cuMemAllocHost_v2((void **)&memory, 2 * SIZE));
	for (size_t i = 0; i < SIZE; i++)
		memory[i] = (char)(i * 7);
	memset(memory + SIZE, 0, SIZE);
	ck_cuda(driver.cuMemcpyHtoD_v2(address, memory, SIZE));
	ck_cuda(driver.cuMemcpy(address_of(memory + SIZE), address, SIZE));
	ck_cuda(driver.cuCtxSynchronize());
	ck_assert_mem_eq(memory, memory + SIZE, SIZE);
	ck_cuda(driver.cuMemFreeHost(memory));
	ck_cuda(driver.cuMemFree_v2(address));
}
END_TEST

TCase *host_tests(void)
{
	TCase *tests = tcase_create("host memory");

	tcase_add_checked_fixture(tests, context_set_up, context_tear_down);
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, host_memory_is_described_as_such);
	tcase_add_test(tests, host_memory_takes_sync_memops_and_ends_when_it_is_freed);
	tcase_add_test(tests, what_is_not_host_memory_is_not_freed_as_such);
	tcase_add_test(tests, host_memory_ends_with_its_context);
	tcase_add_test(tests, host_memory_can_be_copied_from_and_to);
	return tests;
}
