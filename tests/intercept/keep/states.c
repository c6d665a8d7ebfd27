/* SPDX-License-Identifier: BSD-3-Clause */
/* states.c -- waits of a free, and the driver's results in each state of the context */
#include "keep.h"

#include "sim/work.h"

/* Waits for the work of each context. The driver has its lock: no calls from here. */
static struct {
	CUcontext context;
	uint64_t count;
} waits[4];
#define FAILED ((CUresult)700) /* CUDA_ERROR_ILLEGAL_ADDRESS */

static CUresult work_result;
static CUcontext failing; /* NULL: no work fails */

static CUresult await(CUcontext of)
{
	int i = 0;

	while (waits[i].context && waits[i].context != of)
		i++;
	waits[i].context = of;
	waits[i].count++;
	return of == failing ? work_result : CUDA_SUCCESS;
}

static uint64_t waited(CUcontext of)
{
	for (int i = 0; i < 4; i++) {
		if (waits[i].context == of)
			return waits[i].count;
	}
	return 0;
}

static void begin_two(CUcontext *second)
{
	begin();
	require_cuda(cuCtxCreate_v2(second, 0, 0));
	sim_driver_subscribe_work(await);
}

/* As without peerpin (the same free, of managed memory): for the memory's context alone. */
static void a_free_waits_for_its_context_and_no_other(unsigned int host)
{
	CUdeviceptr first, other;
	CUcontext second, current;

	begin_two(&second);
	other = obtain(host, UNIT);
	require_cuda(cuCtxSetCurrent(context));
	first = obtain(host, UNIT);
	require(waited(context) == 0 && waited(second) == 0);
	give_up(host, first);
	require(own("kept") == 1 && waited(context) == 1 && waited(second) == 0);
	/* Refused frees and a free of nothing do not wait. */
	require(cuMemFree_v2(first) == CUDA_ERROR_INVALID_VALUE);
	require(cuMemFreeHost(pointer_to(first)) == CUDA_ERROR_INVALID_VALUE);
	require_cuda(cuMemFree_v2(0));
	require_cuda(cuMemFreeHost(NULL));
	require(waited(context) == 1 && waited(second) == 0 && own("kept") == 1);
	/* Memory of a context that is not current. */
	give_up(host, other);
	require(own("kept") == 2 && waited(context) == 1 && waited(second) == 1);
	require_cuda(cuCtxGetCurrent(&current));
	require(current == context);
	/* Reuse needs no wait. */
	require(obtain(host, UNIT) == first);
	require(waited(context) == 1 && waited(second) == 1);
	expect_no_errors();
}

static void failed_work_is_the_result_of_the_free(unsigned int host)
{
	CUcontext second;
	CUdeviceptr memory;
	uint64_t id;

	begin_two(&second);
	memory = obtain(host, UNIT);
	id = tag(memory);
	failing = second;
	work_result = FAILED;
	require((host ? cuMemFreeHost(pointer_to(memory)) : cuMemFree_v2(memory)) == FAILED);
	require(own("kept") == 0 && own("frees") == 0 && own("host_frees") == 0);
	/* Not freed: to the program it is live. */
	require(query_tag(memory) == id);
	failing = NULL;
	give_up(host, memory);
	require(own("kept") == 1 && tag(memory) == id && query_tag(memory) == 0);
	expect_no_errors();
}

static void without_a_context_memory_is_freed_and_none_is_allocated(unsigned int host)
{
	CUdeviceptr memory, again = 7;
	void *again_host = pointer_to(7);
	CUcontext none = context;

	begin();
	memory = obtain(host, UNIT);
	require_cuda(cuCtxSetCurrent(NULL));
	give_up(host, memory);
	require(query_tag(memory) == 0);
	require_cuda(cuCtxGetCurrent(&none));
	require(!none);
	if (host) {
		require(cuMemHostAlloc(&again_host, UNIT, 0) == CUDA_ERROR_INVALID_CONTEXT);
		require(!again_host);
	} else {
		require(cuMemAlloc_v2(&again, UNIT) == CUDA_ERROR_INVALID_CONTEXT && !again);
	}
	require(own("reused") == 0);
	require_cuda(cuCtxSetCurrent(context));
	require(own("kept") == 1 && obtain(host, UNIT) == memory);
	expect_no_errors();
}

static void *destroy(void *argument)
{
	require_cuda(cuCtxDestroy_v2(argument));
	return NULL;
}

static void with_a_destroyed_context_each_call_fails(unsigned int unused)
{
	CUdeviceptr device_memory, host_memory, kept, kept_host, address = 7;
	void *host = pointer_to(7);
	CUcontext second;
	pthread_t thread;
	size_t pitch;

	(void)unused;
	begin();
	device_memory = allocate(UNIT);
	host_memory = allocate_host(UNIT);
	kept = keep(3 * UNIT);
	kept_host = keep_host(3 * UNIT);
	require_cuda(cuCtxCreate_v2(&second, 0, 0));
	require(!pthread_create(&thread, NULL, destroy, second));
	pthread_join(thread, NULL);
	require(cuMemFree_v2(device_memory) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
	require(cuMemFreeHost(pointer_to(host_memory)) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
	require(cuMemFree_v2(0) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
	require(cuMemFree_v2(kept) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
	require(cuMemFreeHost(pointer_to(kept_host)) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
	require(cuMemAlloc_v2(&address, 3 * UNIT) == CUDA_ERROR_CONTEXT_IS_DESTROYED && !address);
	require(cuMemAllocPitch_v2(&address, &pitch, 100, 1, 4) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
	require(cuMemHostAlloc(&host, 3 * UNIT, 0) == CUDA_ERROR_CONTEXT_IS_DESTROYED && !host);
	require(own("kept") == 2 && own("reused") == 0 && own("kept_released") == 0);
	require(query_tag(device_memory) == tag(device_memory) && tag(device_memory));
	require(query_tag(host_memory) == tag(host_memory) && tag(host_memory));
	require_cuda(cuCtxSetCurrent(context));
	require(allocate(3 * UNIT) == kept && allocate_host(3 * UNIT) == kept_host);
	require_cuda(cuMemFree_v2(device_memory));
	free_host(host_memory);
	require(own("kept") == 4);
	expect_no_errors();
}

static void wrong_arguments_are_the_driver_s(unsigned int unused)
{
	CUdeviceptr address = 7;
	size_t pitch = 7;
	void *host = pointer_to(7);

	(void)unused;
	begin();
	keep(UNIT);
	keep_host(UNIT);
	require(cuMemAlloc_v2(NULL, UNIT) == CUDA_ERROR_INVALID_VALUE);
	require(cuMemAlloc_v2(&address, 0) == CUDA_ERROR_INVALID_VALUE && !address);
	require(cuMemAllocPitch_v2(&address, NULL, 100, 1, 4) == CUDA_ERROR_INVALID_VALUE);
	require(cuMemAllocPitch_v2(NULL, &pitch, 100, 1, 4) == CUDA_ERROR_INVALID_VALUE);
	require(cuMemAllocPitch_v2(&address, &pitch, 100, 1, 5) == CUDA_ERROR_INVALID_VALUE);
	require(cuMemHostAlloc(NULL, UNIT, 0) == CUDA_ERROR_INVALID_VALUE);
	require(cuMemHostAlloc(&host, UNIT, 0x80) == CUDA_ERROR_INVALID_VALUE && !host);
	require_cuda(cuMemAllocHost_v2(&host, 0));
	require(!host);
	require_cuda(cuMemFreeHost(NULL));
	require_cuda(cuMemFree_v2(0));
	require(own("kept") == 2 && own("reused") == 0 && own("kept_released") == 0);
	expect_no_errors();
}

/* In a context of the interface before CUDA 3.2, today's calls are refused. */
static void an_old_context_neither_keeps_nor_reuses(unsigned int unused)
{
	CUdeviceptr kept, live, address = 7;
	CUcontext old;

	(void)unused;
	begin();
	kept = keep(UNIT);
	live = allocate(3 * UNIT);
	require_cuda(cuCtxCreate(&old, 0, 0));
	require(cuMemAlloc_v2(&address, UNIT) == raw.cuMemAlloc_v2(&address, UNIT) && !address);
	require(own("reused") == 0);
	require_cuda(cuMemFree_v2(live));
	require_cuda(cuCtxSetCurrent(context));
	require(query_tag(live) == 0 && query_tag(kept) == 0);
	require(allocate(UNIT) == kept);
	expect_no_errors();
}

const struct test state_tests[] = {
	TEST(a_free_waits_for_its_context_and_no_other, 0, KEEP),
	TEST(a_free_waits_for_its_context_and_no_other, 1, KEEP),
	TEST(a_free_waits_for_its_context_and_no_other, 0, KEEP_VERIFY),
	TEST(failed_work_is_the_result_of_the_free, 0, KEEP),
	TEST(failed_work_is_the_result_of_the_free, 1, KEEP),
	TEST(failed_work_is_the_result_of_the_free, 0, KEEP_PLAIN),
	TEST(without_a_context_memory_is_freed_and_none_is_allocated, 0, KEEP),
	TEST(without_a_context_memory_is_freed_and_none_is_allocated, 1, KEEP),
	TEST(with_a_destroyed_context_each_call_fails, 0, KEEP),
	TEST(with_a_destroyed_context_each_call_fails, 0, KEEP_PLAIN),
	TEST(wrong_arguments_are_the_driver_s, 0, KEEP),
	TEST(an_old_context_neither_keeps_nor_reuses, 0, KEEP),
	{ .name = NULL },
};
