/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.c -- placement and end of allocations, reuse of addresses */
#include "driver.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK ((size_t)2 << 20)
#define PAGE  ((size_t)4096)

CASE(memory, .set_up = context_set_up, .tear_down = context_tear_down);

/* The first test of the process, and sizes without other uses: the allocations are adjacent. */
TEST(memory, small_allocations_are_carved_from_one_block_at_multiples_of_512)
{
	CUdeviceptr small[4], medium[4];

	for (int i = 0; i < 4; i++)
		small[i] = allocate(1000);
	for (int i = 0; i < 4; i++)
		medium[i] = allocate(100000);
	for (int i = 1; i < 4; i++) {
		ck_assert_uint_eq(small[i] - small[i - 1], 0x400);
		ck_assert_uint_eq(medium[i] - medium[i - 1], 0x18800);
	}
	ck_assert_uint_eq(small[0] / BLOCK, medium[3] / BLOCK);
	for (int i = 0; i < 4; i++) {
		ck_cuda(driver.cuMemFree_v2(small[i]));
		ck_cuda(driver.cuMemFree_v2(medium[i]));
	}
}

TEST(memory, nothing_is_not_allocated)
{
	CUdeviceptr address;

	ck_assert_int_eq(driver.cuMemAlloc_v2(&address, 0), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(driver.cuMemAlloc_v2(NULL, 4096), CUDA_ERROR_INVALID_VALUE);
}

TEST(memory, a_failed_allocation_leaves_a_null_address)
{
	CUdeviceptr address = 0x1234;
	CUcontext popped;
	size_t pitch = 7;

	ck_assert_int_eq(driver.cuMemAlloc_v2(&address, 0), CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(address, 0);
	address = 0x1234;
	ck_assert_int_eq(driver.cuMemAlloc_v2(&address, (size_t)1 << 50), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_uint_eq(address, 0);
	address = 0x1234;
	ck_assert_int_eq(driver.cuMemAllocPitch_v2(&address, &pitch, 1000, 100, 3),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(address, 0);
	ck_assert_uint_eq(pitch, 0);
	address = 0x1234;
	ck_assert_int_eq(driver.cuMemAllocPitch_v2(&address, &pitch, (size_t)1 << 40, 1 << 10, 4),
			 CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_uint_eq(address, 0);
	address = 0x1234;
	ck_cuda(driver.cuCtxPopCurrent_v2(&popped));
	ck_assert_int_eq(driver.cuMemAlloc_v2(&address, 4096), CUDA_ERROR_INVALID_CONTEXT);
	ck_assert_uint_eq(address, 0);
	ck_cuda(driver.cuCtxPushCurrent_v2(popped));
}

TEST(memory, the_interface_with_32_bit_addresses_refuses_today_s_contexts)
{
	CUdeviceptr_v1 address = 0x1234;

	ck_assert_int_eq(driver.cuMemAlloc(&address, 4096), CUDA_ERROR_INVALID_CONTEXT);
	ck_assert_uint_eq(address, 0);
}

TEST(memory, a_pebibyte_is_out_of_memory)
{
	CUdeviceptr address;

	ck_assert_int_eq(driver.cuMemAlloc_v2(&address, (size_t)1 << 50), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST(memory, freeing_null_succeeds_and_freeing_what_is_no_allocation_does_not)
{
	CUdeviceptr address = allocate(1 << 16);
	char host[64];

	ck_cuda(driver.cuMemFree_v2(0));
	ck_assert_int_eq(driver.cuMemFree_v2(address + 512), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(driver.cuMemFree_v2((CUdeviceptr)(uintptr_t)host),
			 CUDA_ERROR_INVALID_VALUE);
	ck_cuda(driver.cuMemFree_v2(address));
	ck_assert_int_eq(driver.cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
}

TEST(memory, large_allocations_begin_on_a_block)
{
	static const size_t sizes[] = { 3 << 19, 2 << 20, 3000000, 16 << 20 };

	for (int i = 0; i < 4; i++) {
		CUdeviceptr address = allocate(sizes[i]);

		ck_assert_uint_eq(address % BLOCK, 0);
		ck_cuda(driver.cuMemFree_v2(address));
	}
}

/* Whether any of many small allocations begins in the last page of memory of this size. */
static bool shares_its_last_page(size_t size)
{
	enum { LARGE = 16, SMALL = 4096 };
	static CUdeviceptr large[LARGE], small[SMALL];
	bool shares = false;

	for (int i = 0; i < LARGE; i++)
		large[i] = allocate(size);
	for (int i = 0; i < SMALL; i++) {
		small[i] = allocate(512);
		for (int k = 0; k < LARGE; k++)
			shares |= small[i] / PAGE == (large[k] + size - 1) / PAGE;
	}
	for (int i = 0; i < SMALL; i++)
		ck_cuda(driver.cuMemFree_v2(small[i]));
	for (int i = 0; i < LARGE; i++)
		ck_cuda(driver.cuMemFree_v2(large[i]));
	return shares;
}

TEST(memory, only_memory_larger_than_a_block_has_its_last_page_to_itself)
{
	ck_assert(shares_its_last_page(BLOCK / 2 + 1));
	ck_assert(!shares_its_last_page(BLOCK + 1));
	ck_assert(!shares_its_last_page(3000000));
}

TEST(memory, a_freed_address_comes_back_at_once_with_a_new_buffer_id)
{
	CUdeviceptr first = allocate(4 << 20), again;
	uint64_t id = buffer_id(first);

	for (int round = 0; round < 3; round++) {
		ck_cuda(driver.cuMemFree_v2(first));
		again = allocate(4 << 20);
		ck_assert_uint_eq(again, first);
		if (driver_keeps())
			ck_assert_uint_eq(buffer_id(again), id);
		else
			ck_assert_uint_gt(buffer_id(again), id);
		id = buffer_id(again);
	}
	ck_cuda(driver.cuMemFree_v2(first));
}

TEST(memory, the_address_range_is_the_allocation_as_it_was_asked_for)
{
	CUdeviceptr address = allocate(100000), base = 0;
	size_t size = 0;

	ck_cuda(driver.cuMemGetAddressRange_v2(&base, &size, address + 99999));
	ck_assert_uint_eq(base, address);
	/* Reused kept memory has the length of its whole block: of at most half more. */
	ck_assert(size == 100000 || (driver_keeps() && size > 100000 && size <= 159744));
	ck_cuda(driver.cuMemGetAddressRange_v2(NULL, &size, address));
	ck_cuda(driver.cuMemGetAddressRange_v2(&base, NULL, address));
	ck_cuda(driver.cuMemFree_v2(address));
	ck_assert_int_eq(driver.cuMemGetAddressRange_v2(&base, &size, address),
			 CUDA_ERROR_NOT_FOUND);
	ck_assert_uint_eq(base, 0);
	ck_assert_uint_eq(size, 0);
}

TEST(memory, rows_are_padded_to_the_pitch_and_the_range_holds_them_all)
{
	CUdeviceptr address, base;
	size_t pitch = 0, size;

	ck_cuda(driver.cuMemAllocPitch_v2(&address, &pitch, 1000, 100, 4));
	ck_assert_uint_ge(pitch, 1000);
	ck_assert_uint_eq(pitch % 4, 0);
	ck_cuda(driver.cuMemGetAddressRange_v2(&base, &size, address));
	ck_assert_uint_eq(base, address);
	ck_assert_uint_eq(size, pitch * 100);
	ck_assert_int_eq(driver.cuMemAllocPitch_v2(&address, &pitch, 1000, 100, 3),
			 CUDA_ERROR_INVALID_VALUE);
	ck_cuda(driver.cuMemFree_v2(base));
}

TEST(memory, free_memory_shrinks_and_grows_by_what_is_allocated)
{
	size_t before, during, after, total;
	CUdeviceptr address;

	ck_cuda(driver.cuMemGetInfo_v2(&before, &total));
	address = allocate(64 << 20);
	ck_cuda(driver.cuMemGetInfo_v2(&during, &total));
	ck_cuda(driver.cuMemFree_v2(address));
	ck_cuda(driver.cuMemGetInfo_v2(&after, &total));
	ck_assert_uint_ge(before - during, 64 << 20);
	ck_assert_uint_eq(before, after);
	ck_assert_uint_le(before, total);
}

TEST(memory, bytes_come_back_as_they_were_copied)
{
	enum { SIZE = 3000000 };
	CUdeviceptr one = allocate(SIZE), other = allocate(SIZE);
	char *out = malloc(SIZE), *in = malloc(SIZE);

	for (int i = 0; i < SIZE; i++)
		out[i] = (char)(i * 7 + i / 251);
	ck_cuda(driver.cuMemcpyHtoD_v2(one, out, SIZE));
	ck_cuda(driver.cuMemcpyDtoD_v2(other, one, SIZE));
	ck_cuda(driver.cuMemcpyDtoH_v2(in, other, SIZE));
	ck_assert_mem_eq(in, out, SIZE);
	ck_cuda(driver.cuMemsetD8_v2(other + 100, 0x5a, 1000));
	ck_cuda(driver.cuMemcpyDtoH_v2(in, other, SIZE));
	memset(out + 100, 0x5a, 1000);
	ck_assert_mem_eq(in, out, SIZE);
	ck_assert_int_eq(driver.cuMemcpyHtoD_v2(one + 1, out, SIZE), CUDA_ERROR_INVALID_VALUE);
	ck_cuda(driver.cuMemFree_v2(one));
	ck_cuda(driver.cuMemFree_v2(other));
	free(out);
	free(in);
}

struct findings {
	CUdeviceptr address;
	CUresult allocate, range, query, set, free;
};

static void *without_context(void *argument)
{
	struct findings *findings = argument;
	unsigned int on = 1;
	CUdeviceptr base;
	size_t size;

	findings->allocate = driver.cuMemAlloc_v2(&base, 4096);
	findings->range = driver.cuMemGetAddressRange_v2(&base, &size, findings->address);
	findings->query = query_buffer_id(findings->address);
	findings->set = driver.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
						     findings->address);
	findings->free = driver.cuMemFree_v2(findings->address);
	return NULL;
}

TEST(memory, a_thread_without_a_context_may_query_and_free_but_not_allocate_or_ask_for_ranges)
{
	struct findings findings = { .address = allocate(4096) };
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, without_context, &findings), 0);
	pthread_join(thread, NULL);
	ck_assert_int_eq(findings.allocate, CUDA_ERROR_INVALID_CONTEXT);
	ck_assert_int_eq(findings.range, CUDA_ERROR_INVALID_CONTEXT);
	ck_cuda(findings.query);
	ck_cuda(findings.set);
	ck_cuda(findings.free);
}

enum { THREADS = 8, ROUNDS = 50, HELD = 8 };

static bool holds(CUdeviceptr address, size_t size, unsigned char value)
{
	unsigned char ends[2] = { 0, 0 };

	return driver.cuMemcpyDtoH_v2(&ends[0], address, 1) == CUDA_SUCCESS &&
	       driver.cuMemcpyDtoH_v2(&ends[1], address + size - 1, 1) == CUDA_SUCCESS &&
	       ends[0] == value && ends[1] == value;
}

/* Sizes with shared blocks and granules, and one without. Returns NULL on success. */
static void *allocate_and_free(void *argument)
{
	static const size_t sizes[] = { 1, 1000, 40000, 100000, 3000000 };
	unsigned char value = *(unsigned char *)argument;
	CUdeviceptr held[HELD];

	if (driver.cuCtxPushCurrent_v2(context))
		return argument;
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < HELD; i++) {
			if (driver.cuMemAlloc_v2(&held[i], sizes[(round + i) % 5]) ||
			    driver.cuMemsetD8_v2(held[i], value, sizes[(round + i) % 5]))
				return argument;
		}
		for (int i = 0; i < HELD; i++) {
			if (!holds(held[i], sizes[(round + i) % 5], value) ||
			    driver.cuMemFree_v2(held[i]))
				return argument;
		}
	}
	return NULL;
}

TEST(memory, threads_that_allocate_and_free_at_once_keep_out_of_each_other_s_memory)
{
	unsigned char values[THREADS];
	pthread_t threads[THREADS];
	int failed = 0;

	for (int i = 0; i < THREADS; i++) {
		values[i] = (unsigned char)(i + 1);
		ck_assert_int_eq(pthread_create(&threads[i], NULL, allocate_and_free, &values[i]),
				 0);
	}
	for (int i = 0; i < THREADS; i++) {
		void *result;

		pthread_join(threads[i], &result);
		failed += result != NULL;
	}
	ck_assert_int_eq(failed, 0);
}

TEST(memory, memory_of_cumemalloc_may_be_freed_on_a_stream)
{
	CUdeviceptr address = allocate(1 << 20);

	ck_cuda(driver.cuMemFreeAsync(address, NULL));
	ck_cuda(driver.cuCtxSynchronize());
	ck_assert_int_eq(query_buffer_id(address), CUDA_ERROR_INVALID_VALUE);
}
