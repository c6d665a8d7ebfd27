/* SPDX-License-Identifier: BSD-3-Clause */
/* contexts.c -- effects of the end of a context on memory */
#include "driver.h"

#include <pthread.h>

CASE(contexts);

TEST(contexts, destroying_a_context_ends_its_memory_and_no_other_s)
{
	CUcontext one, other;
	CUdeviceptr in_one, in_other;

	ck_cuda(driver.cuCtxCreate_v2(&one, 0, device));
	in_one = allocate(4 << 20);
	ck_cuda(driver.cuCtxCreate_v2(&other, 0, device));
	in_other = allocate(4 << 20);
	ck_cuda(driver.cuCtxDestroy_v2(one));
	ck_assert_int_eq(query_buffer_id(in_one), CUDA_ERROR_INVALID_VALUE);
	buffer_id(in_other);
	ck_cuda(driver.cuCtxDestroy_v2(other));
	ck_assert_int_eq(query_buffer_id(in_other), CUDA_ERROR_INVALID_VALUE);
}

TEST(contexts, a_context_ends_with_its_last_attachment)
{
	CUcontext created, attached;
	CUdeviceptr address;

	ck_cuda(driver.cuCtxCreate_v2(&created, 0, device));
	address = allocate(4 << 20);
	ck_cuda(driver.cuCtxAttach(&attached, 0));
	ck_assert_ptr_eq(attached, created);
	ck_cuda(driver.cuCtxDetach(created));
	buffer_id(address);
	ck_cuda(driver.cuCtxDetach(created));
	ck_assert_int_eq(query_buffer_id(address), CUDA_ERROR_INVALID_VALUE);
}

static int primary_is_active(void)
{
	unsigned int flags;
	int active;

	ck_cuda(driver.cuDevicePrimaryCtxGetState(device, &flags, &active));
	return active;
}

TEST(contexts, the_last_release_of_the_primary_context_ends_its_memory)
{
	CUcontext primary, again;
	CUdeviceptr address;

	ck_cuda(driver.cuDevicePrimaryCtxRetain(&primary, device));
	ck_cuda(driver.cuDevicePrimaryCtxRetain(&again, device));
	ck_assert_ptr_eq(primary, again);
	ck_cuda(driver.cuCtxPushCurrent_v2(primary));
	address = allocate(4 << 20);
	ck_cuda(driver.cuDevicePrimaryCtxRelease_v2(device));
	buffer_id(address);
	ck_assert(primary_is_active());
	ck_cuda(driver.cuCtxPopCurrent_v2(&again));
	ck_cuda(driver.cuDevicePrimaryCtxRelease_v2(device));
	ck_assert(!primary_is_active());
	ck_assert_int_eq(query_buffer_id(address), CUDA_ERROR_INVALID_VALUE);
}

TEST(contexts, a_reset_ends_the_memory_of_a_retained_primary_context)
{
	CUcontext primary, popped;
	CUdeviceptr address;

	ck_cuda(driver.cuDevicePrimaryCtxRetain(&primary, device));
	ck_cuda(driver.cuCtxPushCurrent_v2(primary));
	address = allocate(4 << 20);
	ck_cuda(driver.cuCtxPopCurrent_v2(&popped));
	ck_cuda(driver.cuDevicePrimaryCtxReset_v2(device));
	ck_assert_int_eq(query_buffer_id(address), CUDA_ERROR_INVALID_VALUE);
	ck_assert(!primary_is_active());
	/* A reset releases no reference to the context. */
	ck_cuda(driver.cuDevicePrimaryCtxRelease_v2(device));
	ck_assert_int_eq(driver.cuDevicePrimaryCtxRelease_v2(device), CUDA_ERROR_INVALID_CONTEXT);
}

TEST(contexts, what_is_not_there_cannot_be_ended)
{
	ck_assert(!primary_is_active());
	ck_assert_int_eq(driver.cuDevicePrimaryCtxRelease_v2(device), CUDA_ERROR_INVALID_CONTEXT);
	ck_cuda(driver.cuDevicePrimaryCtxReset_v2(device));
	ck_assert_int_eq(driver.cuCtxDestroy_v2(NULL), CUDA_ERROR_INVALID_VALUE);
}

/* The CUDA runtime calls these forms. */
TEST(contexts, the_old_forms_of_release_and_reset_end_memory_too)
{
	CUcontext primary, popped;
	CUdeviceptr address;

	for (int reset = 0; reset < 2; reset++) {
		ck_cuda(driver.cuDevicePrimaryCtxRetain(&primary, device));
		ck_cuda(driver.cuCtxPushCurrent_v2(primary));
		address = allocate(4 << 20);
		ck_cuda(driver.cuCtxPopCurrent_v2(&popped));
		if (reset)
			ck_cuda(driver.cuDevicePrimaryCtxReset(device));
		else
			ck_cuda(driver.cuDevicePrimaryCtxRelease(device));
		ck_assert_int_eq(query_buffer_id(address), CUDA_ERROR_INVALID_VALUE);
		ck_assert(!primary_is_active());
	}
	ck_cuda(driver.cuDevicePrimaryCtxRelease(device));
}

static void *current_of_a_thread(void *current)
{
	driver.cuCtxGetCurrent(current);
	return NULL;
}

TEST(contexts, each_thread_has_a_stack_of_contexts)
{
	CUcontext one, other, current;
	pthread_t thread;

	ck_cuda(driver.cuCtxCreate_v2(&one, 0, device));
	ck_cuda(driver.cuCtxCreate_v2(&other, 0, device));
	ck_cuda(driver.cuCtxGetCurrent(&current));
	ck_assert_ptr_eq(current, other);
	ck_cuda(driver.cuCtxPopCurrent_v2(&current));
	ck_assert_ptr_eq(current, other);
	ck_cuda(driver.cuCtxGetCurrent(&current));
	ck_assert_ptr_eq(current, one);
	ck_cuda(driver.cuCtxSetCurrent(other));
	ck_cuda(driver.cuCtxGetCurrent(&current));
	ck_assert_ptr_eq(current, other);
	ck_assert_int_eq(pthread_create(&thread, NULL, current_of_a_thread, &current), 0);
	pthread_join(thread, NULL);
	ck_assert_ptr_null(current);
	ck_cuda(driver.cuCtxDestroy_v2(other));
	ck_cuda(driver.cuCtxDestroy_v2(one));
}

struct bystander {
	CUcontext context, current;
	pthread_barrier_t barrier;
	CUdeviceptr address; /* of another context */
	CUresult push, allocate, free, free_nothing;
};

static void *stand_by(void *argument)
{
	struct bystander *bystander = argument;
	CUdeviceptr address;

	bystander->push = driver.cuCtxPushCurrent_v2(bystander->context);
	pthread_barrier_wait(&bystander->barrier); /* the context is current here */
	pthread_barrier_wait(&bystander->barrier); /* the other thread has destroyed it */
	driver.cuCtxGetCurrent(&bystander->current);
	bystander->allocate = driver.cuMemAlloc_v2(&address, 4096);
	bystander->free = driver.cuMemFree_v2(bystander->address);
	bystander->free_nothing = driver.cuMemFree_v2(0);
	return NULL;
}

TEST(contexts, a_destroyed_context_stays_current_to_other_threads_and_is_of_no_use_to_them)
{
	struct bystander bystander = { .push = CUDA_ERROR_NOT_READY };
	pthread_t thread;

	context_set_up();
	bystander.address = allocate(4096);
	ck_cuda(driver.cuCtxCreate_v2(&bystander.context, 0, device));
	pthread_barrier_init(&bystander.barrier, NULL, 2);
	ck_assert_int_eq(pthread_create(&thread, NULL, stand_by, &bystander), 0);
	pthread_barrier_wait(&bystander.barrier);
	ck_cuda(driver.cuCtxDestroy_v2(bystander.context));
	pthread_barrier_wait(&bystander.barrier);
	pthread_join(thread, NULL);
	pthread_barrier_destroy(&bystander.barrier);
	ck_cuda(bystander.push);
	ck_assert_ptr_eq(bystander.current, bystander.context);
	ck_assert_int_eq(bystander.allocate, CUDA_ERROR_CONTEXT_IS_DESTROYED);
	ck_assert_int_eq(bystander.free, CUDA_ERROR_CONTEXT_IS_DESTROYED);
	ck_assert_int_eq(bystander.free_nothing, CUDA_ERROR_CONTEXT_IS_DESTROYED);
	ck_cuda(driver.cuMemFree_v2(bystander.address));
	context_tear_down();
}

TEST(contexts, each_context_has_an_id_of_its_own)
{
	unsigned long long one_id = 0, other_id = 0, current_id = 0;
	CUcontext one, other;

	ck_cuda(driver.cuCtxCreate_v2(&one, 0, device));
	ck_cuda(driver.cuCtxCreate_v2(&other, 0, device));
	ck_cuda(driver.cuCtxGetId(one, &one_id));
	ck_cuda(driver.cuCtxGetId(other, &other_id));
	ck_cuda(driver.cuCtxGetId(NULL, &current_id));
	ck_assert_uint_eq(current_id, other_id);
	ck_assert_uint_ne(one_id, other_id);
	ck_assert_int_eq(driver.cuCtxGetId(one, NULL), CUDA_ERROR_INVALID_VALUE);
	ck_cuda(driver.cuCtxDestroy_v2(other));
	ck_cuda(driver.cuCtxDestroy_v2(one));
	ck_cuda(driver.cuCtxCreate_v2(&one, 0, device));
	current_id = 0;
	ck_cuda(driver.cuCtxGetId(one, &current_id));
	ck_assert_uint_ne(current_id, one_id);
	ck_assert_uint_ne(current_id, other_id);
	ck_cuda(driver.cuCtxDestroy_v2(one));
}

static void *ask_for_id(void *result)
{
	unsigned long long id;

	*(CUresult *)result = driver.cuCtxGetId(NULL, &id);
	return NULL;
}

TEST(contexts, without_a_context_there_is_no_id)
{
	CUresult result = CUDA_SUCCESS;
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, ask_for_id, &result), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_int_eq(result, CUDA_ERROR_INVALID_CONTEXT);
}
