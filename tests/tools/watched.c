/* SPDX-License-Identifier: BSD-3-Clause */
/* watched.c -- a process that registers GPU memory when it is told to, and is looked at meanwhile
 *
 * Each line of standard input is a number of requests to make, each for memory that was requested before; after each line
 * it says "done" on standard output. At the end of the input it ends.
 */
#include <stdio.h>
#include <stdlib.h>

#include "memory/cuda_abi.h"
#include "sim/adapter_verbs.h"

#define SIZE ((size_t)2 << 20)

#define require(condition)                                                                                   \
	do {                                                                                                 \
		if (!(condition)) {                                                                          \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                      \
			exit(1);                                                                             \
		}                                                                                            \
	} while (0)

static struct ibv_pd *open_adapter(void)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);
	struct ibv_context *device;
	struct ibv_pd *pd;

	require(list && count > 0);
	device = ibv_open_device(list[0]);
	require(device);
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(device);
	require(pd);
	return pd;
}

static CUdeviceptr allocate(void)
{
	CUdeviceptr address;
	CUcontext context;
	CUdevice gpu;

	require(cuInit(0) == CUDA_SUCCESS && cuDeviceGet(&gpu, 0) == CUDA_SUCCESS &&
		cuCtxCreate_v2(&context, 0, gpu) == CUDA_SUCCESS &&
		cuMemAlloc_v2(&address, SIZE) == CUDA_SUCCESS);
	return address;
}

static void request(struct ibv_pd *pd, CUdeviceptr address)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, (void *)address, SIZE, IBV_ACCESS_LOCAL_WRITE);

	require(mr && !ibv_dereg_mr(mr));
}

int main(void)
{
	struct ibv_pd *pd = open_adapter();
	CUdeviceptr address = allocate();
	char line[32];

	while (fgets(line, sizeof(line), stdin)) {
		for (int left = atoi(line); left > 0; left--)
			request(pd, address);
		puts("done");
		fflush(stdout);
	}
	return 0;
}
