/* SPDX-License-Identifier: BSD-3-Clause */
/* parallel.c -- threads that allocate and free at once */
#include "keep.h"

#include <dlfcn.h>
#include <sched.h>
#include <string.h>

#define THREADS 8

#define ROUNDS 400
static _Atomic unsigned int begun_threads;
static CUdeviceptr contested;
static _Atomic unsigned int round_of[2];

/* Waits without sleep: both threads are to meet. */
#define until_now(condition)                                                                       \
	do {                                                                                       \
		while (!(condition))                                                               \
			sched_yield();                                                             \
	} while (0)

struct worker {
	pthread_t thread;
	unsigned int number, random;
	bool host;
};

static unsigned int next(struct worker *worker)
{
	return worker->random = worker->random * 1664525u + 1013904223u;
}

/* Equal sizes for all, sizes of its own, and sizes of blocks of their own. */
static size_t size_of(struct worker *worker)
{
	static const size_t equal[] = { 256, 65536, MIB + 1, 2 * MIB };
	unsigned int which = next(worker) >> 16;

	if (which % 3 == 0)
		return 1000 + worker->number;
	return equal[which / 3 % (worker->host ? 2 : 4)];
}

static bool is_mine(CUdeviceptr memory, size_t size, unsigned char value)
{
	unsigned char ends[2] = { 0, 0 };

	return cuMemcpyDtoH_v2(&ends[0], memory, 1) == CUDA_SUCCESS &&
	       cuMemcpyDtoH_v2(&ends[1], memory + size - 1, 1) == CUDA_SUCCESS &&
	       ends[0] == value && ends[1] == value;
}

static void write_mine(bool host, CUdeviceptr memory, size_t size, unsigned char value)
{
	if (host)
		memset(pointer_to(memory), value, size);
	else
		require_cuda(cuMemsetD8_v2(memory, value, size));
}

static bool is_host_mine(CUdeviceptr memory, size_t size, unsigned char value)
{
	const unsigned char *bytes = pointer_to(memory);

	return bytes[0] == value && bytes[size - 1] == value;
}

/* Each allocation is its thread's alone: its bytes, its range, and one free. */
static void *allocate_and_free(void *argument)
{
	struct worker *worker = argument;
	unsigned char value = (unsigned char)(worker->number + 1);
	CUdeviceptr held[4], base;
	size_t sizes[4], size;

	require_cuda(cuCtxSetCurrent(context));
	begun_threads++;
	until(begun_threads == THREADS);
	for (uint64_t i = 0; i < ROUNDS; i++) {
		unsigned int count = 1 + (next(worker) >> 20) % 4;

		for (unsigned int j = 0; j < count; j++) {
			sizes[j] = size_of(worker);
			held[j] = obtain(worker->host, sizes[j]);
			write_mine(worker->host, held[j], sizes[j], value);
		}
		for (unsigned int j = 0; j < count; j++) {
			require(worker->host ? is_host_mine(held[j], sizes[j], value)
					     : is_mine(held[j], sizes[j], value));
			require(query_tag(held[j]) == tag(held[j]));
			require_cuda(cuMemGetAddressRange_v2(&base, &size, held[j]));
			require(base == held[j] && size == sizes[j]);
			give_up(worker->host, held[j]);
		}
	}
	return NULL;
}

/* Limits of a few allocations: releases, allocations by the driver and reuse meet. */
static void threads_keep_out_of_each_other_s_memory(unsigned int host)
{
	struct worker workers[THREADS];
	size_t bytes;

	begin();
	bytes = free_bytes();
	for (unsigned int i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .number = i, .random = i * 7919, .host = host };
		require(!pthread_create(&workers[i].thread, NULL, allocate_and_free, &workers[i]));
	}
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	require(own("reused") > 0 && own("untracked_frees") == 0);
	release_all();
	require(free_bytes() == bytes);
	expect_no_kept();
}

/* ---- two frees of one address ---- */

static _Atomic unsigned int freed[2];

static void *free_contested(void *number)
{
	unsigned int self = *(unsigned int *)number;
	CUresult result;

	require_cuda(cuCtxSetCurrent(context));
	for (unsigned int i = 1; i <= 2000; i++) {
		until_now(round_of[0] == i);
		result = cuMemFree_v2(contested);
		require(result == CUDA_SUCCESS || result == CUDA_ERROR_INVALID_VALUE);
		freed[self] += result == CUDA_SUCCESS;
		round_of[1]++;
	}
	return NULL;
}

static void of_two_frees_of_an_address_one_succeeds(unsigned int unused)
{
	unsigned int numbers[2] = { 0, 1 };
	pthread_t threads[2];

	(void)unused;
	begin();
	for (int i = 0; i < 2; i++)
		require(!pthread_create(&threads[i], NULL, free_contested, &numbers[i]));
	for (unsigned int i = 1; i <= 2000; i++) {
		contested = allocate(65536);
		round_of[0] = i;
		until_now(round_of[1] == 2 * i);
		require(freed[0] + freed[1] == i);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	require(own("kept") == 2000 && own("reused") == 1999);
	expect_no_errors();
}

/* ---- releases by another thread ---- */

static _Atomic pid_t releasing_thread, waiting_thread;
static CUcontext ending;

static void *release(void *unused)
{
	(void)unused;
	require_cuda(cuCtxSetCurrent(context));
	releasing_thread = gettid();
	release_all();
	return NULL;
}

static void *allocate_meanwhile(void *unused)
{
	(void)unused;
	require_cuda(cuCtxSetCurrent(context));
	waiting_thread = gettid();
	allocate(40 * MIB);
	waiting_thread = 0;
	return NULL;
}

static void *destroy_meanwhile(void *unused)
{
	(void)unused;
	waiting_thread = gettid();
	require_cuda(cuCtxDestroy_v2(ending));
	waiting_thread = 0;
	return NULL;
}

/* The release waits for the registration of its memory, which the adapter holds. */
static void a_call_waits_for_memory_that_another_thread_releases(unsigned int destroys)
{
	int (*find_domain)(struct ibv_pd *, int, void **) =
		(__typeof__(find_domain))dlsym(RTLD_DEFAULT, "peerpin_domain");
	pthread_t threads[2];
	CUdeviceptr memory;
	uint64_t before;
	void *domain;

	set_up();
	begin();
	require(!find_domain(pd, ACCESS, &domain));
	require_cuda(cuCtxCreate_v2(&ending, 0, 0));
	before = begun();
	set("hold", 1);
	memory = allocate(40 * MIB);
	until(begun() > before);
	require_cuda(cuMemFree_v2(memory));
	require(own("kept") == 1);
	require(!pthread_create(&threads[0], NULL, release, NULL));
	until(releasing_thread && is_waiting(releasing_thread) && own("kept_bytes") == 0);
	require(!pthread_create(&threads[1], NULL,
				destroys ? destroy_meanwhile : allocate_meanwhile, NULL));
	until(waiting_thread && is_waiting(waiting_thread));
	require(tag(memory));
	set("hold", 0);
	for (int i = 0; i < 2; i++)
		require(!pthread_join(threads[i], NULL));
	require(own("kept_released") == 1 && own("internal_errors") == 0);
}

const struct test parallel_tests[] = {
	TEST(threads_keep_out_of_each_other_s_memory, 0, KEEP),
	TEST(threads_keep_out_of_each_other_s_memory, 1, KEEP),
	TEST(threads_keep_out_of_each_other_s_memory, 0, "PEERPIN_KEEP=5M"),
	TEST(threads_keep_out_of_each_other_s_memory, 0,
	     "PEERPIN_KEEP=5M PEERPIN_POINTER_QUERIES=0"),
	TEST(threads_keep_out_of_each_other_s_memory, 0, "PEERPIN_KEEP=3M PEERPIN_VERIFY=1"),
	TEST(threads_keep_out_of_each_other_s_memory, 1, "PEERPIN_KEEP_HOST=100K"),
	TEST(threads_keep_out_of_each_other_s_memory, 0,
	     "PEERPIN_KEEP=inf PEERPIN_SIM_MEMORY=128M"),
	TEST(threads_keep_out_of_each_other_s_memory, 0, "PEERPIN_KEEP=inf PEERPIN_SIM_MEMORY=70M"),
	TEST(a_call_waits_for_memory_that_another_thread_releases, 0,
	     "PEERPIN_KEEP=inf PEERPIN_SIM_MEMORY=64M"),
	TEST(a_call_waits_for_memory_that_another_thread_releases, 1,
	     "PEERPIN_KEEP=inf PEERPIN_SIM_MEMORY=64M"),
	TEST(of_two_frees_of_an_address_one_succeeds, 0, KEEP),
	TEST(of_two_frees_of_an_address_one_succeeds, 0, KEEP_PLAIN),
	{ .name = NULL },
};
