/* SPDX-License-Identifier: BSD-3-Clause */
/* host.c -- queries of page-locked host memory, before and after its end */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

#define SIZE ((size_t)100000)

static CUdeviceptr address_of(void *memory)
{
	return (CUdeviceptr)(uintptr_t)memory;
}

/* For attributes of up to 8 bytes. */
static uint64_t query(CUpointer_attribute attribute, void *memory)
{
	uint64_t value = 0;

	ck_cuda(driver.cuPointerGetAttribute(&value, attribute, address_of(memory)));
	return value;
}

CASE(host, .set_up = context_set_up, .tear_down = context_tear_down);

TEST(host, host_memory_is_described_as_such)
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

TEST(host, host_memory_takes_sync_memops_and_ends_when_it_is_freed)
{
	unsigned int on = 1;
	void *memory = NULL;

	ck_cuda(driver.cuMemAllocHost_v2(&memory, SIZE));
	memset(memory, 0x5a, SIZE);
	ck_cuda(driver.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
					     address_of(memory)));
	ck_assert_uint_ne(buffer_id(address_of(memory)), 0);
	ck_cuda(driver.cuMemFreeHost(memory));
	ck_assert_int_eq(query_buffer_id(address_of(memory)), CUDA_ERROR_INVALID_VALUE);
}

TEST(host, what_is_not_host_memory_is_not_freed_as_such)
{
	CUdeviceptr address = allocate(SIZE);
	char mine[64];

	ck_assert_int_ne(driver.cuMemFreeHost((void *)(uintptr_t)address), CUDA_SUCCESS);
	ck_assert_int_ne(driver.cuMemFreeHost(mine), CUDA_SUCCESS);
	buffer_id(address);
	ck_cuda(driver.cuMemFree_v2(address));
}

TEST(host, host_memory_ends_with_its_context)
{
	CUcontext other;
	void *memory = NULL;
	static char pages[100];

	ck_cuda(driver.cuCtxCreate_v2(&other, 0, device));
	ck_cuda(driver.cuMemAllocHost_v2(&memory, SIZE));
	ck_cuda(driver.cuMemHostRegister_v2(pages, sizeof(pages), 0));
	ck_cuda(driver.cuCtxDestroy_v2(other));
	ck_assert_int_eq(query_buffer_id(address_of(pages)), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(query_buffer_id(address_of(memory)), CUDA_ERROR_INVALID_VALUE);
}

TEST(host, host_memory_can_be_copied_from_and_to)
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

/* Registered ranges are exact to the byte: a page may be registered in part. */
TEST(host, registered_memory_is_known_to_the_byte)
{
	char *pages = aligned_alloc(4096, 8192), *first = pages + 100, *second = pages + 1200;

	ck_cuda(driver.cuMemHostRegister_v2(first, 1000, 0));
	ck_cuda(driver.cuMemHostRegister_v2(second, 10, CU_MEMHOSTREGISTER_DEVICEMAP));
	ck_assert_uint_eq(query(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, first), CU_MEMORYTYPE_HOST);
	ck_assert_uint_eq(query(CU_POINTER_ATTRIBUTE_CONTEXT, first), (uintptr_t)context);
	ck_assert_uint_eq(query(CU_POINTER_ATTRIBUTE_HOST_POINTER, first + 999),
			  address_of(first + 999));
	ck_assert_uint_eq(query(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, first + 999),
			  address_of(first));
	ck_assert_uint_eq(query(CU_POINTER_ATTRIBUTE_RANGE_SIZE, first), 1000);
	ck_assert_uint_eq(query(CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, first), address_of(pages));
	ck_assert_uint_eq(query(CU_POINTER_ATTRIBUTE_MAPPING_SIZE, first), 4096);
	ck_assert_uint_ne(buffer_id(address_of(first)), buffer_id(address_of(second)));
	ck_assert_int_eq(query_buffer_id(address_of(first - 1)), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(query_buffer_id(address_of(first + 1000)), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(query_buffer_id(address_of(second + 10)), CUDA_ERROR_INVALID_VALUE);
	ck_cuda(driver.cuMemHostUnregister(first));
	ck_assert_int_eq(query_buffer_id(address_of(first)), CUDA_ERROR_INVALID_VALUE);
	buffer_id(address_of(second));
	ck_cuda(driver.cuMemHostUnregister(second));
	free(pages);
}

TEST(host, what_is_registered_is_not_registered_again)
{
	char *pages = aligned_alloc(4096, 8192);
	void *memory = NULL;

	ck_cuda(driver.cuMemHostAlloc(&memory, 1000, 0));
	ck_cuda(driver.cuMemHostRegister_v2(pages, 100, 0));
	ck_assert_int_eq(driver.cuMemHostRegister_v2(pages + 50, 10, 0),
			 CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	ck_assert_int_eq(driver.cuMemHostRegister_v2(memory, 8, 0), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(driver.cuMemHostRegister_v2(NULL, 8, 0), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(driver.cuMemHostRegister_v2(pages + 4096, 0, 0), CUDA_ERROR_INVALID_VALUE);
	ck_cuda(driver.cuMemHostRegister_v2(pages + 100, 10, 0));
	ck_cuda(driver.cuMemHostUnregister(pages + 100));
	ck_cuda(driver.cuMemHostUnregister(pages));
	ck_cuda(driver.cuMemFreeHost(memory));
	free(pages);
}

TEST(host, only_the_beginning_of_registered_memory_unregisters_it)
{
	char *pages = aligned_alloc(4096, 8192);
	void *memory = NULL;

	ck_cuda(driver.cuMemHostAlloc(&memory, 1000, 0));
	ck_cuda(driver.cuMemHostRegister_v2(pages, 100, 0));
	ck_assert_int_eq(driver.cuMemHostUnregister(pages + 4), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(driver.cuMemHostUnregister(memory), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(driver.cuMemHostUnregister(NULL), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(driver.cuMemHostUnregister(pages + 200),
			 CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	ck_assert_int_eq(driver.cuMemFreeHost(pages), CUDA_ERROR_INVALID_VALUE);
	ck_cuda(driver.cuMemHostUnregister(pages));
	ck_assert_int_eq(driver.cuMemHostUnregister(pages), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	ck_assert_int_eq(driver.cuMemFreeHost((char *)memory + 8), CUDA_ERROR_INVALID_VALUE);
	ck_cuda(driver.cuMemFreeHost(memory));
	ck_cuda(driver.cuMemFreeHost(NULL));
	free(pages);
}

TEST(host, small_host_allocations_share_what_backs_them)
{
	void *one = NULL, *other = NULL, *nothing = &one;

	ck_cuda(driver.cuMemHostAlloc(&one, 1000, 0));
	ck_cuda(driver.cuMemHostAlloc(&other, 1000, 0));
	ck_assert_uint_eq(query(CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, one),
			  query(CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, other));
	ck_assert_uint_eq(query(CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, one),
			  query(CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, other));
	ck_assert_int_eq(query_buffer_id(address_of((char *)one + 1000)), CUDA_ERROR_INVALID_VALUE);
	ck_cuda(driver.cuMemFreeHost(one));
	buffer_id(address_of(other));
	ck_cuda(driver.cuMemFreeHost(other));
	ck_cuda(driver.cuMemHostAlloc(&nothing, 0, 0));
	ck_assert_ptr_null(nothing);
}

TEST(host, host_memory_has_a_device_pointer_which_is_its_address)
{
	char *memory = NULL, *pages = aligned_alloc(4096, 4096);
	CUdeviceptr pointer = 7, address = allocate(SIZE);

	ck_cuda(driver.cuMemHostAlloc((void **)&memory, 1000, 0));
	ck_cuda(driver.cuMemHostRegister_v2(pages, 100, 0));
	ck_cuda(driver.cuMemHostGetDevicePointer_v2(&pointer, memory + 3, 0));
	ck_assert_uint_eq(pointer, address_of(memory + 3));
	ck_cuda(driver.cuMemHostGetDevicePointer_v2(&pointer, pages + 5, 0));
	ck_assert_uint_eq(pointer, address_of(pages + 5));
	ck_assert_int_eq(driver.cuMemHostGetDevicePointer_v2(&pointer, pages + 150, 0),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(pointer, 0);
	ck_assert_int_eq(
		driver.cuMemHostGetDevicePointer_v2(&pointer, (void *)(uintptr_t)address, 0),
		CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(driver.cuMemHostGetDevicePointer_v2(NULL, memory, 0),
			 CUDA_ERROR_INVALID_VALUE);
	ck_cuda(driver.cuMemHostUnregister(pages));
	ck_cuda(driver.cuMemFreeHost(memory));
	ck_cuda(driver.cuMemFree_v2(address));
	free(pages);
}

TEST(host, sync_memops_of_host_memory_is_off_until_it_is_set)
{
	unsigned int on = 2;
	void *memory = NULL;

	ck_cuda(driver.cuMemHostAlloc(&memory, 1000, 0));
	ck_assert_uint_eq(query(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory), 0);
	ck_cuda(driver.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
					     address_of(memory)));
	ck_assert_uint_eq(query(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory), 1);
	ck_cuda(driver.cuMemFreeHost(memory));
}
