/* SPDX-License-Identifier: BSD-3-Clause */
/* captures.c -- memory in captured streams and graphs; calls that invalidate a capture */
#include "driver.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static CUstreamCaptureStatus status_of(CUstream of)
{
	CUstreamCaptureStatus status;

	ck_cuda(driver.cuStreamIsCapturing(of, &status));
	return status;
}

static void end_capture(CUstream of)
{
	CUgraph graph;

	ck_cuda(driver.cuStreamEndCapture(of, &graph));
	ck_cuda(driver.cuGraphDestroy(graph));
}

START_TEST(a_captured_allocation_is_no_memory)
{
	CUdeviceptr address = 0;

	ck_cuda(driver.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ck_cuda(driver.cuMemAllocAsync(&address, 200000, stream));
	ck_assert_uint_ne(address, 0);
	ck_assert_int_eq(query_buffer_id(address), CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(attributes_of(address).id, 0);
	ck_cuda(driver.cuMemFreeAsync(address, stream));
	end_capture(stream);
}
END_TEST

START_TEST(a_captured_free_refuses_ordinary_memory_and_the_capture_goes_on)
{
	CUdeviceptr pool;

	ck_cuda(driver.cuMemAllocAsync(&pool, 100000, stream));
	ck_cuda(driver.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	ck_assert_int_eq(driver.cuMemFreeAsync(pool, stream), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(status_of(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
	end_capture(stream);
	ck_assert_int_eq(query_buffer_id(pool), CUDA_SUCCESS);
	ck_cuda(driver.cuMemFreeAsync(pool, stream));
}
END_TEST

START_TEST(asking_whether_a_stream_is_captured_disturbs_nothing)
{
	CUstreamCaptureStatus status;
	CUstream blocking;

	ck_cuda(driver.cuStreamCreate(&blocking, 0));
	ck_assert_int_eq(status_of(stream), CU_STREAM_CAPTURE_STATUS_NONE);
	ck_cuda(driver.cuStreamBeginCapture_v2(blocking, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ck_assert_int_eq(driver.cuStreamIsCapturing(NULL, &status),
			 CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	ck_assert_int_eq(status_of(stream), CU_STREAM_CAPTURE_STATUS_NONE);
	ck_cuda(driver.cuStreamIsCapturing_ptsz(NULL, &status));
	ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_NONE);
	ck_assert_int_eq(status_of(blocking), CU_STREAM_CAPTURE_STATUS_ACTIVE);
	end_capture(blocking);
	ck_cuda(driver.cuStreamDestroy_v2(blocking));
}
END_TEST

START_TEST(a_free_on_the_legacy_stream_beside_a_captured_one_ends_nothing_but_the_capture)
{
	CUdeviceptr pool;
	CUstream blocking;
	CUgraph graph;

	ck_cuda(driver.cuMemAllocAsync(&pool, 100000, stream));
	ck_cuda(driver.cuStreamCreate(&blocking, 0));
	ck_cuda(driver.cuStreamBeginCapture_v2(blocking, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ck_assert_int_eq(driver.cuMemFreeAsync(pool, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	ck_assert_int_eq(status_of(blocking), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
	ck_assert_int_eq(driver.cuStreamEndCapture(blocking, &graph),
			 CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	ck_assert_int_eq(query_buffer_id(pool), CUDA_SUCCESS);
	ck_cuda(driver.cuMemFreeAsync(pool, stream));
	ck_cuda(driver.cuStreamDestroy_v2(blocking));
}
END_TEST

static void *set_sync_memops(void *argument)
{
	CUdeviceptr address = *(CUdeviceptr *)argument;
	unsigned int on = 1;

	return (void *)(intptr_t)driver.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
							      address);
}

static void *set_sync_memops_relaxed(void *argument)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	void *result;

	driver.cuThreadExchangeStreamCaptureMode(&mode);
	result = set_sync_memops(argument);
	driver.cuThreadExchangeStreamCaptureMode(&mode);
	return result;
}

static CUresult on_a_thread(void *(*run)(void *), CUdeviceptr address)
{
	pthread_t thread;
	void *result;

	ck_assert_int_eq(pthread_create(&thread, NULL, run, &address), 0);
	ck_assert_int_eq(pthread_join(thread, &result), 0);
	return (CUresult)(intptr_t)result;
}

START_TEST(a_call_in_relaxed_mode_leaves_a_capture_alone_and_another_ends_it)
{
	CUdeviceptr address = allocate(4096);
	CUgraph graph;

	ck_cuda(driver.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ck_cuda(on_a_thread(set_sync_memops_relaxed, address));
	ck_cuda((CUresult)(intptr_t)set_sync_memops_relaxed(&address));
	ck_assert_uint_ne(buffer_id(address), 0);
	ck_assert_int_eq(status_of(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
	ck_assert_int_eq(on_a_thread(set_sync_memops, address),
			 CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	ck_assert_int_eq(status_of(stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
	ck_assert_int_eq(driver.cuStreamEndCapture(stream, &graph),
			 CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	ck_cuda(driver.cuMemFree_v2(address));
}
END_TEST

static void *synchronize_relaxed(void *unused)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUresult result;

	(void)unused;
	ck_cuda(driver.cuCtxSetCurrent(context));
	driver.cuThreadExchangeStreamCaptureMode(&mode);
	result = driver.cuCtxSynchronize();
	driver.cuThreadExchangeStreamCaptureMode(&mode);
	return (void *)(intptr_t)result;
}

START_TEST(a_free_in_relaxed_mode_leaves_a_capture_alone_and_a_wait_for_the_context_ends_it)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUdeviceptr address = allocate(4 << 20);
	CUgraph graph;

	ck_cuda(driver.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	ck_cuda(driver.cuThreadExchangeStreamCaptureMode(&mode));
	ck_cuda(driver.cuMemFree_v2(address));
	ck_cuda(driver.cuThreadExchangeStreamCaptureMode(&mode));
	ck_assert_int_eq(status_of(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
	ck_assert_int_eq(on_a_thread(synchronize_relaxed, 0),
			 CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	ck_assert_int_eq(status_of(stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
	ck_assert_int_eq(driver.cuStreamEndCapture(stream, &graph),
			 CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}
END_TEST

/* ---- frees on the stream of a lost capture ---- */

/* Modes of the capture, and of the thread that then frees. */
enum lost { OWN_MODE, OTHER_MODE, RELAXED_CAPTURE, LOST };
static const char *const lost_names[LOST] = { "global, default thread", "global, relaxed thread",
					      "relaxed, default thread" };

static void lose_capture(enum lost lost)
{
	ck_cuda(driver.cuStreamBeginCapture_v2(stream, lost == RELAXED_CAPTURE
							       ? CU_STREAM_CAPTURE_MODE_RELAXED
							       : CU_STREAM_CAPTURE_MODE_GLOBAL));
	ck_assert_int_eq(lost == RELAXED_CAPTURE ? driver.cuCtxSynchronize()
						 : driver.cuMemFree_v2(0),
			 CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	ck_assert_int_eq(status_of(stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
}

static CUresult free_in_lost_capture(enum lost lost, CUdeviceptr address)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUresult result;

	if (lost == OTHER_MODE)
		ck_cuda(driver.cuThreadExchangeStreamCaptureMode(&mode));
	result = driver.cuMemFreeAsync(address, stream);
	if (lost == OTHER_MODE)
		ck_cuda(driver.cuThreadExchangeStreamCaptureMode(&mode));
	ck_assert_int_eq(status_of(stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
	return result;
}

/* A null address is treated as memory: peerpin tries it first. */
START_TEST(a_stream_whose_capture_is_lost_frees_nothing)
{
	CUresult results[LOST][3];
	CUdeviceptr memory[3] = { 0 };
	CUgraph graph;

	for (enum lost lost = OWN_MODE; lost < LOST; lost++) {
		ck_cuda(driver.cuMemAllocAsync(&memory[1], 100000, stream));
		memory[2] = allocate(100000);
		lose_capture(lost);
		for (int i = 0; i < 3; i++)
			results[lost][i] = free_in_lost_capture(lost, memory[i]);
		ck_assert_int_eq(driver.cuStreamEndCapture(stream, &graph),
				 CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
		printf("lost capture, %s: frees of a null address, pool memory and memory of "
		       "cuMemAlloc return %d, %d, %d; queries of both then return %d, %d\n",
		       lost_names[lost], results[lost][0], results[lost][1], results[lost][2],
		       query_buffer_id(memory[1]), query_buffer_id(memory[2]));
		for (int i = 1; i < 3; i++) {
			if (query_buffer_id(memory[i]) == CUDA_SUCCESS)
				ck_cuda(driver.cuMemFreeAsync(memory[i], stream));
		}
	}
	for (int i = 0; i < 3 * LOST; i++)
		ck_assert_int_eq(results[i / 3][i % 3], CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}
END_TEST

/* Calls that a capture refuses; nothing is allocated at address 1. */
static struct {
	CUdeviceptr address, pooled;
	CUmemoryPool pool, own;
	CUstream other;
	void *host, *page;
} forbidden;

enum { WAYS = 17 };

static CUresult forbidden_call(int way)
{
	CUdeviceptr none;

	switch (way % WAYS) {
	case 0:
		return driver.cuMemFree_v2(forbidden.address);
	case 1:
		return driver.cuMemFree_v2(1);
	case 2:
		return driver.cuMemFreeHost(forbidden.host);
	case 3:
		return driver.cuMemFreeHost((void *)1);
	case 4:
		return driver.cuMemHostUnregister(forbidden.page);
	case 5:
		return driver.cuMemHostUnregister((void *)1);
	case 6:
		return driver.cuMemFreeAsync(forbidden.pooled, forbidden.other);
	case 7:
		return driver.cuMemFreeAsync(1, forbidden.other);
	case 8:
		return driver.cuMemFreeAsync(1, NULL);
	case 9:
		return driver.cuMemAllocAsync(&none, 4096, forbidden.other);
	case 10:
		return driver.cuMemPoolTrimTo(forbidden.pool, 0);
	case 11:
		return driver.cuMemFree_v2(0);
	case 12:
		return driver.cuMemFreeAsync(0, forbidden.other);
	case 13:
		return driver.cuMemFreeAsync(0, NULL);
	case 14:
		return driver.cuMemPoolSetAttribute(
			forbidden.own, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &(uint64_t){ 1 });
	case 15:
		return driver.cuMemPoolGetAttribute(
			forbidden.own, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &(uint64_t){ 0 });
	default:
		return driver.cuMemPoolDestroy(forbidden.own);
	}
}

static void prepare_forbidden(void)
{
	CUmemPoolProps properties = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device },
	};

	forbidden.address = allocate(4096);
	ck_cuda(driver.cuMemPoolCreate(&forbidden.own, &properties));
	forbidden.page = aligned_alloc(4096, 4096);
	ck_cuda(driver.cuMemHostAlloc(&forbidden.host, 4096, 0));
	ck_cuda(driver.cuMemHostRegister_v2(forbidden.page, 4096, 0));
	ck_cuda(driver.cuDeviceGetDefaultMemPool(&forbidden.pool, device));
	ck_cuda(driver.cuStreamCreate(&forbidden.other, 1));
	ck_cuda(driver.cuMemAllocAsync(&forbidden.pooled, 4096, forbidden.other));
}

/* Until the end of the invalidated capture, at every address. */
START_TEST(a_capture_refuses_every_free_and_is_lost)
{
	CUgraph graph;

	prepare_forbidden();
	for (int first = 0; first < WAYS; first++) {
		ck_cuda(driver.cuStreamBeginCapture_v2(
			stream, first % 2 ? CU_STREAM_CAPTURE_MODE_GLOBAL
					  : CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
		ck_assert_int_eq(status_of(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
		for (int way = first; way < first + WAYS; way++) {
			ck_assert_int_eq(forbidden_call(way),
					 CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
			ck_assert_int_eq(status_of(stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
		}
		ck_assert_int_eq(driver.cuStreamEndCapture(stream, &graph),
				 CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	}
	/* Without a capture address 1 is an error; a free on the captured stream itself does not
	 * invalidate the capture. */
	for (int way = 1; way < 9; way += 2)
		ck_assert_int_ne(forbidden_call(way), CUDA_SUCCESS);
	ck_cuda(driver.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ck_assert_int_eq(driver.cuMemFreeAsync(1, stream), CUDA_ERROR_INVALID_VALUE);
	ck_cuda(driver.cuMemFreeAsync(0, stream));
	ck_assert_int_eq(status_of(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
	end_capture(stream);
	for (int way = 0; way < 8; way += 2)
		ck_cuda(forbidden_call(way));
	for (int way = 11; way < WAYS; way++)
		ck_cuda(forbidden_call(way));
	ck_cuda(driver.cuStreamDestroy_v2(forbidden.other));
	free(forbidden.page);
}
END_TEST

START_TEST(the_end_of_another_context_disturbs_no_capture)
{
	CUcontext other;

	ck_cuda(driver.cuCtxCreate_v2(&other, 0, device));
	ck_cuda(driver.cuCtxPopCurrent_v2(&other));
	ck_cuda(driver.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ck_cuda(driver.cuCtxDestroy_v2(other));
	ck_assert_int_eq(status_of(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
	end_capture(stream);
}
END_TEST

START_TEST(a_capture_in_thread_local_mode_is_ended_by_its_own_thread_alone)
{
	CUdeviceptr address = allocate(4096), none;
	CUgraph graph;

	ck_cuda(driver.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	ck_cuda(on_a_thread(set_sync_memops, address));
	ck_assert_int_eq(status_of(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
	ck_assert_int_eq(driver.cuMemAlloc_v2(&none, 4096), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	ck_assert_int_eq(status_of(stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
	ck_assert_int_eq(driver.cuStreamEndCapture(stream, &graph),
			 CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	ck_cuda(driver.cuMemFree_v2(address));
}
END_TEST

START_TEST(memory_of_a_graph_begins_with_its_launch)
{
	CUDA_MEM_ALLOC_NODE_PARAMS parameters;
	CUgraphExec exec;
	CUgraphNode node;
	CUgraph graph;
	uint64_t id;

	memset(&parameters, 0, sizeof(parameters));
	parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	parameters.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	parameters.bytesize = 3000000;
	ck_cuda(driver.cuGraphCreate(&graph, 0));
	ck_cuda(driver.cuGraphAddMemAllocNode(&node, graph, NULL, 0, &parameters));
	ck_assert_uint_ne(parameters.dptr, 0);
	ck_assert_int_eq(query_buffer_id(parameters.dptr), CUDA_ERROR_INVALID_VALUE);
	ck_cuda(driver.cuGraphInstantiateWithFlags(&exec, graph, 0));
	ck_assert_int_eq(query_buffer_id(parameters.dptr), CUDA_ERROR_INVALID_VALUE);
	ck_cuda(driver.cuGraphLaunch(exec, stream));
	ck_cuda(driver.cuStreamSynchronize(stream));
	id = buffer_id(parameters.dptr);
	ck_assert_uint_eq(attributes_of(parameters.dptr).rdma_capable, 0);
	ck_cuda(driver.cuMemFreeAsync(parameters.dptr, stream));
	ck_assert_int_eq(query_buffer_id(parameters.dptr), CUDA_ERROR_INVALID_VALUE);
	ck_cuda(driver.cuGraphLaunch(exec, stream));
	ck_cuda(driver.cuStreamSynchronize(stream));
	ck_assert_uint_ne(buffer_id(parameters.dptr), id);
	ck_cuda(driver.cuMemFree_v2(parameters.dptr));
	ck_cuda(driver.cuDeviceGraphMemTrim(device));
	ck_cuda(driver.cuGraphExecDestroy(exec));
	ck_cuda(driver.cuGraphDestroy(graph));
}
END_TEST

TCase *captures_tests(void)
{
	TCase *tests = tcase_create("captures");

	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, a_captured_allocation_is_no_memory);
	tcase_add_test(tests, a_captured_free_refuses_ordinary_memory_and_the_capture_goes_on);
	tcase_add_test(tests, asking_whether_a_stream_is_captured_disturbs_nothing);
	tcase_add_test(
		tests,
		a_free_on_the_legacy_stream_beside_a_captured_one_ends_nothing_but_the_capture);
	tcase_add_test(tests, a_call_in_relaxed_mode_leaves_a_capture_alone_and_another_ends_it);
	tcase_add_test(
		tests,
		a_free_in_relaxed_mode_leaves_a_capture_alone_and_a_wait_for_the_context_ends_it);
	tcase_add_test(tests, a_capture_in_thread_local_mode_is_ended_by_its_own_thread_alone);
	tcase_add_test(tests, a_capture_refuses_every_free_and_is_lost);
	tcase_add_test(tests, a_stream_whose_capture_is_lost_frees_nothing);
	tcase_add_test(tests, the_end_of_another_context_disturbs_no_capture);
	tcase_add_test(tests, memory_of_a_graph_begins_with_its_launch);
	return tests;
}
