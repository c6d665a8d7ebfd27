/* SPDX-License-Identifier: BSD-3-Clause */
/* streams.c -- work runs in stream order, and events report its completion */
#include "driver.h"

#include <string.h>
#include <unistd.h>

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

/* Host functions that take their time, so that work which overtakes them fails a test. */
static void store_byte(void *data)
{
	usleep(20000);
	*(volatile unsigned char *)data = 0x33;
}

static struct {
	CUstream stream;
	CUresult status;
	int calls;
} called;

static void remember_call(CUstream of, CUresult status, void *data)
{
	usleep(20000);
	called.stream = of;
	called.status = status;
	called.calls += *(int *)data;
}

TEST(streams, a_host_function_runs_between_the_work_before_and_the_work_after)
{
	ck_cuda(driver.cuMemsetD8Async(one, 0x77, SIZE, stream));
	ck_cuda(driver.cuMemcpyDtoHAsync_v2(memory, one, SIZE, stream));
	ck_cuda(driver.cuLaunchHostFunc(stream, store_byte, memory + 5));
	ck_cuda(driver.cuMemcpyHtoDAsync_v2(other, memory, SIZE, stream));
	ck_cuda(driver.cuStreamSynchronize(stream));
	ck_assert_uint_eq(memory[5], 0x33);
	ck_assert_uint_eq(memory[6], 0x77);
	memset(memory, 0, SIZE);
	ck_cuda(driver.cuMemcpyDtoH_v2(memory, other, SIZE));
	ck_assert_uint_eq(memory[5], 0x33);
	ck_assert_int_eq(driver.cuLaunchHostFunc(stream, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
}

TEST(streams, a_callback_gets_its_stream_and_success)
{
	int one_call = 1;

	memset(&called, 0, sizeof(called));
	ck_cuda(driver.cuStreamAddCallback(stream, remember_call, &one_call, 0));
	ck_cuda(driver.cuStreamAddCallback(stream, remember_call, &one_call, 0));
	ck_cuda(driver.cuCtxSynchronize());
	ck_assert_int_eq(called.calls, 2);
	ck_assert_ptr_eq(called.stream, stream);
	ck_assert_int_eq(called.status, CUDA_SUCCESS);
	ck_assert_int_eq(driver.cuStreamAddCallback(stream, NULL, NULL, 0),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(driver.cuStreamAddCallback(stream, remember_call, &one_call, 1),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(called.calls, 2);
}

static void wait_for_flag(void *data)
{
	while (!__atomic_load_n((int *)data, __ATOMIC_ACQUIRE))
		usleep(1000);
}

TEST(streams, streams_and_events_are_busy_until_the_host_function_has_run)
{
	int flag = 0;
	CUevent event;

	ck_cuda(driver.cuEventCreate(&event, 0));
	ck_cuda(driver.cuLaunchHostFunc(stream, wait_for_flag, &flag));
	ck_cuda(driver.cuEventRecord(event, stream));
	ck_assert_int_eq(driver.cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	ck_assert_int_eq(driver.cuEventQuery(event), CUDA_ERROR_NOT_READY);
	__atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
	ck_cuda(driver.cuEventSynchronize(event));
	ck_cuda(driver.cuEventQuery(event));
	ck_cuda(driver.cuStreamSynchronize(stream));
	ck_cuda(driver.cuStreamQuery(stream));
	ck_cuda(driver.cuEventDestroy_v2(event));
}

TEST(streams, a_captured_stream_takes_host_functions_but_no_callbacks)
{
	int one_call = 1;
	CUgraph graph;

	memory[5] = 0;
	memset(&called, 0, sizeof(called));
	ck_cuda(driver.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	ck_cuda(driver.cuLaunchHostFunc(stream, store_byte, memory + 5));
	ck_cuda(driver.cuStreamEndCapture(stream, &graph));
	ck_cuda(driver.cuGraphDestroy(graph));
	ck_cuda(driver.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	ck_assert_int_eq(driver.cuStreamAddCallback(stream, remember_call, &one_call, 0),
			 CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	if (driver.cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS)
		ck_cuda(driver.cuGraphDestroy(graph));
	ck_cuda(driver.cuStreamSynchronize(stream));
	ck_assert_uint_eq(memory[5], 0);
	ck_assert_int_eq(called.calls, 0);
}

TEST(streams, an_event_for_other_processes_has_a_handle_and_no_times)
{
	CUipcEventHandle handle;
	CUevent event, plain;
	float milliseconds;

	ck_assert_int_eq(driver.cuEventCreate(&event, CU_EVENT_INTERPROCESS),
			 CUDA_ERROR_INVALID_VALUE);
	ck_cuda(driver.cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	ck_cuda(driver.cuEventCreate(&plain, 0));
	ck_cuda(driver.cuIpcGetEventHandle(&handle, event));
	ck_assert_int_ne(driver.cuIpcGetEventHandle(&handle, plain), CUDA_SUCCESS);
	ck_assert_int_eq(driver.cuIpcGetEventHandle(NULL, event), CUDA_ERROR_INVALID_VALUE);
	ck_cuda(driver.cuEventRecord(event, stream));
	ck_cuda(driver.cuEventRecord(plain, stream));
	ck_cuda(driver.cuStreamSynchronize(stream));
	ck_cuda(driver.cuEventQuery(event));
	ck_assert_int_eq(driver.cuEventElapsedTime(&milliseconds, event, plain),
			 CUDA_ERROR_INVALID_HANDLE);
	ck_cuda(driver.cuEventDestroy_v2(event));
	ck_cuda(driver.cuEventDestroy_v2(plain));
}
