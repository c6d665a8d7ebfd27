/* SPDX-License-Identifier: BSD-3-Clause */
/* witness_client.c -- a known number of verbs calls, for verbs_witness.c to count
 * (check_witness.sh)
 *
 * Memory is registered with the simulated adapter.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cuda.h>
#include <infiniband/verbs.h>

#include "stacks/verbs_witness.h"

/* Headers of rdma-core before 59 do not declare it. */
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct extended *wanted);

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define SIZE	 ((size_t)64 << 10)
#define MEMORIES 16

#define require(condition)                                                                         \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "witness_client: line %d: %s\n", __LINE__, #condition);    \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static struct ibv_pd *pd, *other_pd;
static struct ibv_mr *registered[MEMORIES];
static int count;
static char host[SIZE] __attribute__((aligned(4096)));
static CUdeviceptr gpu;

static void keep(struct ibv_mr *mr)
{
	require(mr && count < MEMORIES);
	registered[count++] = mr;
}

static void open_all(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *adapter;
	CUcontext context;
	CUdevice device;

	require(list && *list);
	adapter = ibv_open_device(*list);
	require(adapter);
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(adapter);
	other_pd = ibv_alloc_pd(adapter);
	require(pd && other_pd);
	require(!cuInit(0) && !cuDeviceGet(&device, 0) &&
		!cuDevicePrimaryCtxRetain(&context, device));
	require(!cuCtxSetCurrent(context) && !cuMemAlloc(&gpu, SIZE));
}

/* 6 requests, 1 of them refused by the kernel, and a test for support of dma-bufs; and by
 * libibverbs' own call of the extended form, in front of which is no witness. */
static void register_before(void)
{
	struct extended extended = { .length = SIZE,
				     .access = IBV_ACCESS_LOCAL_WRITE,
				     .mask = 2, /* IBV_REG_MR_MASK_ADDR */
				     .addr = (void *)(uintptr_t)gpu };
	int fd = -1;

	keep(ibv_reg_mr(pd, host, SIZE, IBV_ACCESS_LOCAL_WRITE));
	require(!ibv_reg_mr(pd, NULL, SIZE, IBV_ACCESS_LOCAL_WRITE));
	keep(ibv_reg_mr(pd, (void *)(uintptr_t)gpu, SIZE, IBV_ACCESS_LOCAL_WRITE));
	keep(ibv_reg_mr_iova(pd, (void *)(uintptr_t)gpu, SIZE, 0, IBV_ACCESS_LOCAL_WRITE));
	require(!cuMemGetHandleForAddressRange(&fd, gpu, SIZE, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
					       0));
	keep(ibv_reg_dmabuf_mr(pd, 0, SIZE, gpu, fd, IBV_ACCESS_LOCAL_WRITE));
	close(fd);
	require(!ibv_reg_dmabuf_mr(pd, 0, SIZE, 0, -1, IBV_ACCESS_LOCAL_WRITE));
	keep(ibv_reg_mr_ex(pd, &extended));
	require(!ibv_rereg_mr(registered[0], IBV_REREG_MR_CHANGE_PD, other_pd, NULL, 0, 0));
}

/* Named as peerpin's threads: not the program's request. */
static void *register_in_background(void *unused)
{
	prctl(PR_SET_NAME, "peerpin-client");
	keep(ibv_reg_mr(pd, (void *)(uintptr_t)gpu, SIZE, IBV_ACCESS_LOCAL_WRITE));
	return unused;
}

/* 1 of host memory, 2 of GPU memory. */
static void register_after(void)
{
	keep(ibv_reg_mr(pd, host, SIZE, IBV_ACCESS_LOCAL_WRITE));
	for (int i = 0; i < 2; i++)
		keep(ibv_reg_mr(pd, (void *)(uintptr_t)gpu, SIZE, IBV_ACCESS_LOCAL_WRITE));
}

int main(int argc, char **argv)
{
	__typeof__(MPI_Pcontrol) *control; /* of the preload */
	pthread_t thread;

	open_all();
	register_before();
	require(!pthread_create(&thread, NULL, register_in_background, NULL) &&
		!pthread_join(thread, NULL));
	register_after();
	/* If killed, it leaves the counts so far. */
	if (argc > 1 && !strcmp(argv[1], "killed")) {
		fflush(stdout);
		raise(SIGKILL);
	}
	control = (__typeof__(control))dlsym(RTLD_DEFAULT, "MPI_Pcontrol");
	if (control)
		control(1);
	require(ibv_dealloc_pd(pd)); /* in use */
	while (count)
		require(!ibv_dereg_mr(registered[--count]));
	require(!ibv_dealloc_pd(pd) && !ibv_dealloc_pd(other_pd));
	return 0;
}
