/* SPDX-License-Identifier: BSD-3-Clause */
/* demo_client.c -- the client of `peerpin demo`: GPU memory that a peer writes
 *
 * It knows nothing of peerpin, but for statistics at its end. In each round it allocates buffers,
 * computes, and registers each as an MPI library does on a send. A peer writes into the buffer by
 * its key. Before the frees the client deregisters all buffers but one.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "memory/cuda_abi.h"
#include "sim/adapter_verbs.h"
#include "sim/demo.h"
#include "sim/sim_adapter.h"

#define SIZE   ((size_t)1 << 20)
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

struct buffer {
	CUdeviceptr address;
	struct ibv_mr *mr;
	uint32_t key;
	uint64_t request_ns, cycle_ns;
};

static void client_require(bool done, const char *what)
{
	if (done)
		return;
	fprintf(stderr, "peerpin demo: %s failed\n", what);
	exit(1);
}

#define require(condition) client_require(condition, #condition)

static uint64_t client_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct ibv_pd *client_open(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *adapter;
	CUcontext context;
	CUdevice gpu;

	require(cuInit(0) == CUDA_SUCCESS && cuDeviceGet(&gpu, 0) == CUDA_SUCCESS &&
		cuCtxCreate_v2(&context, 0, gpu) == CUDA_SUCCESS);
	require(list && list[0]);
	adapter = ibv_open_device(list[0]);
	require(adapter);
	return ibv_alloc_pd(adapter);
}

static void client_allocate(struct buffer *buffer)
{
	uint64_t start = client_now();

	require(cuMemAlloc_v2(&buffer->address, SIZE) == CUDA_SUCCESS);
	buffer->cycle_ns = client_now() - start;
}

/* The time for which a GPU computes. An idle CPU registers all buffers in half of it. */
static void client_compute(unsigned long delay)
{
	unsigned long us = DEMO_BUFFERS * (2 * delay + 250);
	struct timespec time = { .tv_sec = (time_t)(us / 1000000),
				 .tv_nsec = (long)(us % 1000000) * 1000 };

	while (nanosleep(&time, &time))
		;
}

static void client_request(struct ibv_pd *pd, struct buffer *buffer)
{
	uint64_t start = client_now();

	buffer->mr = ibv_reg_mr(pd, (void *)buffer->address, SIZE, ACCESS);
	buffer->request_ns = client_now() - start;
	buffer->cycle_ns += buffer->request_ns;
	require(buffer->mr);
	buffer->key = buffer->mr->rkey;
}

static void client_receive(struct ibv_pd *pd, const struct buffer *buffer, unsigned char value,
			   struct demo_result *result)
{
	unsigned char sent[64], arrived[sizeof(sent)];

	memset(sent, value, sizeof(sent));
	require(!sim_adapter_write(pd->context, buffer->key, buffer->address, sent, sizeof(sent)));
	require(cuMemcpyDtoH_v2(arrived, buffer->address, sizeof(arrived)) == CUDA_SUCCESS);
	for (size_t i = 0; i < sizeof(sent); i++)
		result->wrong_bytes += arrived[i] != value;
}

static void client_deregister(struct buffer *buffer)
{
	uint64_t start = client_now();

	require(!ibv_dereg_mr(buffer->mr));
	buffer->cycle_ns += client_now() - start;
	buffer->mr = NULL;
}

static void client_free(struct buffer *buffer)
{
	uint64_t start = client_now();

	require(cuMemFree_v2(buffer->address) == CUDA_SUCCESS);
	buffer->cycle_ns += client_now() - start;
}

/* Round 0 is the first. */
static void client_round(struct ibv_pd *pd, unsigned int round, unsigned long delay,
			 struct demo_result *result)
{
	struct buffer buffers[DEMO_BUFFERS], *last = &buffers[DEMO_BUFFERS - 1], *buffer;

	for (buffer = buffers; buffer <= last; buffer++)
		client_allocate(buffer);
	client_compute(delay);
	for (buffer = buffers; buffer <= last; buffer++) {
		client_request(pd, buffer);
		client_receive(pd, buffer,
			       (unsigned char)(round * DEMO_BUFFERS + (buffer - buffers)), result);
		if (buffer != last || !round)
			client_deregister(buffer);
	}
	for (buffer = buffers; buffer <= last; buffer++)
		client_free(buffer);
	for (buffer = buffers; buffer <= last; buffer++)
		result->live_keys +=
			!sim_adapter_write(pd->context, buffer->key, buffer->address, "", 1);
	if (!round)
		return;
	client_deregister(last);
	for (unsigned int i = 0; i < DEMO_BUFFERS; i++) {
		result->request_ns[(round - 1) * DEMO_BUFFERS + i] = buffers[i].request_ns;
		result->cycle_ns[(round - 1) * DEMO_BUFFERS + i] = buffers[i].cycle_ns;
	}
}

/* 0 without peerpin. */
static uint64_t client_statistic(const char *name)
{
	int (*statistic)(const char *, uint64_t *) =
		(__typeof__(statistic))dlsym(RTLD_DEFAULT, "peerpin_statistic");
	uint64_t value = 0;

	require(!statistic || !statistic(name, &value));
	return value;
}

/* In the first round peerpin learns which memory the program sends. */
int demo_client(unsigned long delay)
{
	static struct demo_result result;
	struct ibv_pd *pd;

	/* Count mistakes instead of the abort. */
	require(!sim_adapter_set("outlive", 1) && !sim_adapter_set("strict", 0));
	pd = client_open();
	require(pd);
	client_round(pd, 0, delay, &result);
#define STATISTIC(name) result.name = 0 - client_statistic(#name);
	DEMO_STATISTICS(STATISTIC)
#undef STATISTIC
	/* Those of the first round count, too: they may be the last. */
	result.background_delays = 0;
	for (unsigned int round = 1; round <= DEMO_ROUNDS; round++)
		client_round(pd, round, delay, &result);
#define STATISTIC(name) result.name += client_statistic(#name);
	DEMO_STATISTICS(STATISTIC)
#undef STATISTIC
	require(!sim_adapter_statistic("outlived", &result.outlived));
	for (size_t i = 0; i < DEMO_NUMBERS; i++)
		printf("%llu\n", (unsigned long long)((const uint64_t *)&result)[i]);
	return 0;
}
