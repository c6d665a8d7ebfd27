/* SPDX-License-Identifier: BSD-3-Clause */
/* streams.c -- work runs in stream order, and events report its completion */
#include "driver.h"

#include <string.h>

#define SIZE ((size_t)1 << 20)

static CUstream stream;
static CUdeviceptr one, other;
static unsigned char *memory; /* page-locked, so that copies of it are asynchronous */

static void set_up(void)
{
	context_set_up();
	ck_cuda(driver.cuStreamCreate(&stream, 1)); /* does not wait for the default stream */
	one = allocate(SIZE);
	other = allocate(SIZE);
	ck_cuda(driver.cuMemAllocHost_v2((void **)&memory, SIZE));
	memset(memory, 0, SIZE);
}

static void tear_down(void)
{
	driver.cuMemFreeHost(memory);
	driver.cuMemFree_v2(one);
	driver.cuMemFree_v2(other);
	driver.cuStreamDestroy_v2(stream);
	context_tear_down();
}

CASE(streams, .set_up = set_up, .tear_down = tear_down);

TEST(streams, what_is_asked_for_on_a_stream_happens_in_order)
{
	ck_cuda(driver.cuMemsetD32Async(one, 0x01020304, SIZE / 4, stream));
	ck_cuda(driver.cuMemsetD8Async(one + 1, 0x5a, 1, stream));
	ck_cuda(driver.cuMemcpyDtoDAsync_v2(other, one, SIZE, stream));
	ck_cuda(driver.cuMemcpyDtoHAsync_v2(memory, other, SIZE, stream));
	ck_cuda(driver.cuStreamSynchronize(stream));
	ck_cuda(driver.cuStreamQuery(stream));
	ck_assert_uint_eq(memory[0], 4);
	ck_assert_uint_eq(memory[1], 0x5a);
	ck_assert_uint_eq(memory[2], 2);
	ck_assert_uint_eq(memory[SIZE - 1], 1);
}

TEST(streams, a_stream_waits_for_an_event_of_another)
{
	CUstream waiting;
	CUevent event;

	ck_cuda(driver.cuStreamCreate(&waiting, 1));
	ck_cuda(driver.cuEventCreate(&event, 0));
	ck_cuda(driver.cuMemsetD8Async(one, 0x77, SIZE, stream));
	ck_cuda(driver.cuEventRecord(event, stream));
	ck_cuda(driver.cuStreamWaitEvent(waiting, event, 0));
	ck_cuda(driver.cuMemcpyDtoHAsync_v2(memory, one, SIZE, waiting));
	ck_cuda(driver.cuStreamSynchronize(waiting));
	ck_assert_uint_eq(memory[SIZE - 1], 0x77);
	ck_cuda(driver.cuEventDestroy_v2(event));
	ck_cuda(driver.cuStreamDestroy_v2(waiting));
}

TEST(streams, events_tell_the_time_between_them)
{
	CUevent start, end;
	float milliseconds = -1;

	ck_cuda(driver.cuEventCreate(&start, 0));
	ck_cuda(driver.cuEventCreate(&end, 0));
	ck_cuda(driver.cuEventRecord(start, stream));
	ck_cuda(driver.cuMemsetD8Async(one, 0x77, SIZE, stream));
	ck_cuda(driver.cuEventRecord(end, stream));
	ck_cuda(driver.cuEventSynchronize(end));
	ck_cuda(driver.cuEventQuery(start));
	ck_cuda(driver.cuEventElapsedTime(&milliseconds, start, end));
	ck_assert(milliseconds >= 0);
	ck_cuda(driver.cuEventDestroy_v2(start));
	ck_cuda(driver.cuEventDestroy_v2(end));
}
