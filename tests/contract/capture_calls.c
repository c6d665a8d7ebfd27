/* SPDX-License-Identifier: BSD-3-Clause */
/* capture_calls.c -- calls of another thread during a capture: which end it, and which do not */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "driver.h"

#define IMPLICIT CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
#define REFUSED	 CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
#define LEGACY	 ((CUstream)NULL)
#define MODES	 3

static CUstream beside; /* captures nothing */
static CUevent of_stream, of_context, unused;

static void set_up(void)
{
	context_set_up();
	ck_cuda(driver.cuStreamCreate(&beside, 1));
	ck_cuda(driver.cuEventCreate(&of_stream, CU_EVENT_DISABLE_TIMING));
	ck_cuda(driver.cuEventCreate(&of_context, CU_EVENT_DISABLE_TIMING));
	ck_cuda(driver.cuEventCreate(&unused, CU_EVENT_DISABLE_TIMING));
	ck_cuda(driver.cuEventRecord(of_stream, beside));
	if (driver.cuCtxRecordEvent)
		ck_cuda(driver.cuCtxRecordEvent(context, of_context));
}

static void tear_down(void)
{
	driver.cuEventDestroy_v2(unused);
	driver.cuEventDestroy_v2(of_context);
	driver.cuEventDestroy_v2(of_stream);
	driver.cuStreamDestroy_v2(beside);
	context_tear_down();
}

CASE(capture_calls, .set_up = set_up, .tear_down = tear_down);

/* ---- calls ---- */

static CUresult allocate_and_free(void)
{
	CUdeviceptr address;
	CUresult result = driver.cuMemAlloc_v2(&address, 100);

	return result == CUDA_SUCCESS ? driver.cuMemFree_v2(address) : result;
}

static CUresult allocate_and_free_host(void)
{
	void *address;
	CUresult result = driver.cuMemHostAlloc(&address, 100, 0);

	return result == CUDA_SUCCESS ? driver.cuMemFreeHost(address) : result;
}

static CUresult create_and_destroy_an_event(void)
{
	CUevent event;
	CUresult result = driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);

	return result == CUDA_SUCCESS ? driver.cuEventDestroy_v2(event) : result;
}

static CUresult wait_for_an_event_of_a_stream(void)
{
	return driver.cuEventSynchronize(of_stream);
}

static CUresult wait_for_an_event_of_the_context(void)
{
	return driver.cuEventSynchronize(of_context);
}

static CUresult record_on_another_stream(void)
{
	return driver.cuEventRecord(unused, beside);
}

static CUresult wait_for_another_stream(void)
{
	return driver.cuStreamSynchronize(beside);
}

static CUresult record_on_the_legacy_stream(void)
{
	return driver.cuEventRecord(unused, LEGACY);
}

static CUresult wait_for_the_legacy_stream(void)
{
	return driver.cuStreamSynchronize(LEGACY);
}

static CUresult wait_for_the_context(void)
{
	return driver.cuCtxSynchronize();
}

static CUresult record_an_event_of_the_context(void)
{
	return driver.cuCtxRecordEvent ? driver.cuCtxRecordEvent(context, unused) : REFUSED;
}

static CUresult query_the_context(void)
{
	unsigned int flags, version;
	CUresult result = driver.cuCtxGetFlags(&flags);

	return result == CUDA_SUCCESS ? driver.cuCtxGetApiVersion(NULL, &version) : result;
}

static CUresult push_and_pop_a_context(void)
{
	CUcontext popped;
	CUresult result = driver.cuCtxPushCurrent_v2(context);

	return result == CUDA_SUCCESS ? driver.cuCtxPopCurrent_v2(&popped) : result;
}

/* Results beside the capture of a non-blocking stream, and of a blocking one. A call that fails
 * ends the capture. The calls that peerpin itself makes are among them. */
static const struct call {
	const char *name;
	CUresult (*call)(void);
	CUresult expected[2];
} calls[] = {
	{ "cuMemFree", allocate_and_free, { CUDA_SUCCESS, CUDA_SUCCESS } },
	{ "cuMemFreeHost", allocate_and_free_host, { CUDA_SUCCESS, CUDA_SUCCESS } },
	{ "cuEventCreate", create_and_destroy_an_event, { CUDA_SUCCESS, CUDA_SUCCESS } },
	{ "cuEventSynchronize", wait_for_an_event_of_a_stream, { CUDA_SUCCESS, CUDA_SUCCESS } },
	{ "cuEventSynchronize, of the context",
	  wait_for_an_event_of_the_context,
	  { CUDA_SUCCESS, CUDA_SUCCESS } },
	{ "cuEventRecord", record_on_another_stream, { CUDA_SUCCESS, CUDA_SUCCESS } },
	{ "cuStreamSynchronize", wait_for_another_stream, { CUDA_SUCCESS, CUDA_SUCCESS } },
	{ "cuEventRecord, legacy stream", record_on_the_legacy_stream, { CUDA_SUCCESS, IMPLICIT } },
	{ "cuStreamSynchronize, legacy stream",
	  wait_for_the_legacy_stream,
	  { CUDA_SUCCESS, IMPLICIT } },
	{ "cuCtxSynchronize", wait_for_the_context, { REFUSED, REFUSED } },
	{ "cuCtxRecordEvent", record_an_event_of_the_context, { REFUSED, REFUSED } },
	{ "cuCtxGetFlags", query_the_context, { CUDA_SUCCESS, CUDA_SUCCESS } },
	{ "cuCtxPushCurrent", push_and_pop_a_context, { CUDA_SUCCESS, CUDA_SUCCESS } },
};
#define CALLS ((int)(sizeof(calls) / sizeof(calls[0])))

static void *run_relaxed(void *call)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	if (driver.cuCtxSetCurrent(context) != CUDA_SUCCESS ||
	    driver.cuThreadExchangeStreamCaptureMode(&mode) != CUDA_SUCCESS)
		return (void *)(intptr_t)-1;
	return (void *)(intptr_t)((const struct call *)call)->call();
}

static CUresult run_beside(const struct call *call)
{
	pthread_t thread;
	void *result;

	ck_assert_int_eq(pthread_create(&thread, NULL, run_relaxed, (void *)call), 0);
	ck_assert_int_eq(pthread_join(thread, &result), 0);
	return (CUresult)(intptr_t)result;
}

static CUresult end_capture(CUstream stream)
{
	CUgraph graph;
	CUresult result = driver.cuStreamEndCapture(stream, &graph);

	if (result == CUDA_SUCCESS)
		ck_cuda(driver.cuGraphDestroy(graph));
	return result;
}

/* The other thread is in relaxed mode: in others the driver refuses more. */
LOOP_TEST(capture_calls, another_thread_s_call_ends_a_capture_or_leaves_it_alone, 0, CALLS * 2)
{
	const struct call *call = &calls[_i / 2];
	bool blocking = _i % 2, lost = call->expected[blocking] != CUDA_SUCCESS;
	CUstreamCaptureStatus status;
	CUstream stream;

	ck_cuda(driver.cuStreamCreate(&stream, !blocking));
	for (unsigned int mode = 0; mode < MODES; mode++) {
		ck_cuda(driver.cuStreamBeginCapture_v2(stream, mode));
		if (call->call == record_an_event_of_the_context && !driver.cuCtxRecordEvent) {
			ck_cuda(end_capture(stream));
			continue;
		}
		ck_assert_msg(run_beside(call) == call->expected[blocking],
			      "%s, %s stream, mode %u", call->name,
			      blocking ? "blocking" : "non-blocking", mode);
		ck_cuda(driver.cuStreamIsCapturing(stream, &status));
		ck_assert_msg(status == (lost ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
					      : CU_STREAM_CAPTURE_STATUS_ACTIVE),
			      "%s, %s stream, mode %u: status %d", call->name,
			      blocking ? "blocking" : "non-blocking", mode, (int)status);
		ck_assert_int_eq(end_capture(stream),
				 lost ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS);
	}
	ck_cuda(driver.cuStreamDestroy_v2(stream));
}

static CUdeviceptr memory;

static CUresult use_memory(void)
{
	CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_BUFFER_ID;
	unsigned int on = 1;
	CUcontext primary;
	uint64_t id;
	void *ids = &id;
	int file;

	if (driver.cuPointerGetAttributes(1, &attribute, &ids, memory) != CUDA_SUCCESS ||
	    driver.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory) !=
		    CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_VALUE;
	/* Not every host has dma-bufs. */
	if (driver.cuMemGetHandleForAddressRange(
		    &file, memory, 2 << 20, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0) == CUDA_SUCCESS)
		close(file);
	if (driver.cuDevicePrimaryCtxRetain(&primary, device) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_VALUE;
	return driver.cuDevicePrimaryCtxRelease_v2(device);
}

/* What a registration in the background does. */
TEST(capture_calls, another_thread_s_use_of_memory_leaves_a_capture_alone)
{
	static const struct call call = { "use", use_memory, { CUDA_SUCCESS } };
	CUcontext primary;
	CUstream stream;

	memory = allocate(2 << 20);
	ck_cuda(driver.cuDevicePrimaryCtxRetain(&primary, device));
	ck_cuda(driver.cuStreamCreate(&stream, 0));
	for (unsigned int mode = 0; mode < MODES; mode++) {
		ck_cuda(driver.cuStreamBeginCapture_v2(stream, mode));
		ck_cuda(run_beside(&call));
		ck_cuda(end_capture(stream));
	}
	ck_cuda(driver.cuStreamDestroy_v2(stream));
	ck_cuda(driver.cuDevicePrimaryCtxRelease_v2(device));
	ck_cuda(driver.cuMemFree_v2(memory));
}

/* ---- events of a context ---- */

static _Atomic bool may_end, has_ended;

static void wait_on_the_stream(void *nothing)
{
	(void)nothing;
	while (!may_end)
		usleep(100);
	has_ended = true;
}

static void *wait_for_event(void *result)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	driver.cuCtxSetCurrent(context);
	driver.cuThreadExchangeStreamCaptureMode(&mode);
	*(CUresult *)result = driver.cuEventSynchronize(of_context);
	return NULL;
}

/* Also while another thread waits for the event. */
TEST(capture_calls, an_event_of_a_context_stands_for_all_of_its_streams_and_ends_no_capture)
{
	CUresult result = CUDA_ERROR_NOT_READY;
	CUstream stream;
	pthread_t waiter;

	if (!driver.cuCtxRecordEvent)
		return;
	ck_cuda(driver.cuStreamCreate(&stream, 1));
	ck_cuda(driver.cuLaunchHostFunc(beside, wait_on_the_stream, NULL));
	ck_cuda(driver.cuCtxRecordEvent(context, of_context));
	ck_assert_int_eq(driver.cuEventQuery(of_context), CUDA_ERROR_NOT_READY);
	ck_assert_int_eq(pthread_create(&waiter, NULL, wait_for_event, &result), 0);
	for (unsigned int mode = 0; mode < 20 * MODES; mode++) {
		ck_cuda(driver.cuStreamBeginCapture_v2(stream, mode % MODES));
		ck_cuda(end_capture(stream));
	}
	ck_assert(!has_ended);
	may_end = true;
	ck_assert_int_eq(pthread_join(waiter, NULL), 0);
	ck_cuda(result);
	ck_assert(has_ended);
	ck_cuda(driver.cuEventQuery(of_context));
	ck_cuda(driver.cuStreamDestroy_v2(stream));
}

TEST(capture_calls, an_event_of_a_context_is_of_no_other)
{
	CUcontext other;

	if (!driver.cuCtxRecordEvent)
		return;
	ck_cuda(driver.cuCtxCreate_v2(&other, 0, device));
	ck_assert_int_eq(driver.cuCtxRecordEvent(other, of_context), CUDA_ERROR_INVALID_HANDLE);
	ck_cuda(driver.cuCtxDestroy_v2(other));
}
