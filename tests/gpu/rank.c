/* SPDX-License-Identifier: BSD-3-Clause */
/* rank.c -- one rank of tests/gpu/ranks: allocates, computes, registers, deregisters, frees
 *
 * Computes for a time between three and five quarters of MICROSECONDS, at random. With equal times
 * the ranks would keep the order in which they meet in the driver, and a run's times would depend
 * on it: sums of 386 and 508 us in two runs of one program (8 ranks, H200).
 *
 * usage: rank FILE RANKS WARM-UPS ROUNDS BYTES MICROSECONDS
 * FILE, of at least 16 zero bytes, is shared by all ranks of a run. A line for each round: ns of
 * the request (SYNC_MEMOPS, export, registration, close), and ns of allocation, request,
 * deregistration and free. The last line: turns of the computing loop in a ms, and hits in these
 * rounds (-1: no peerpin).
 */
#include "statistic.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/cuda_abi.h"
#include "sim/adapter_verbs.h"

/* Access flags of UCX. */
#define ACCESS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

#define must_cuda(call) must((call) == CUDA_SUCCESS)

enum phase { READY, WARM, DONE, PHASES };

static struct {
	_Atomic unsigned int arrived[PHASES];
} * shared;

static unsigned long ranks, warm_ups, rounds, bytes, computing_ns;
static struct ibv_pd *pd;
static uint64_t turns, turning_ns;

struct round {
	uint64_t request, sum;
};

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static bool all_arrived(enum phase phase)
{
	return shared->arrived[phase] >= ranks;
}

static void meet(enum phase phase)
{
	shared->arrived[phase]++;
	while (!all_arrived(phase))
		nanosleep(&(struct timespec){ .tv_nsec = 50000 }, NULL);
}

/* No system calls, as in a rank that polls. */
static void compute(void)
{
	uint64_t time = computing_ns - computing_ns / 4 + (uint64_t)rand() % (computing_ns / 2),
		 end = now() + time;

	while (now() < end)
		turns++;
	turning_ns += time;
}

/* As UCX does: operations of the GPU on the memory are complete before an adapter reads it. */
static void request(CUdeviceptr memory, struct ibv_mr **mr)
{
	unsigned int on = 1;
	int fd;

	must_cuda(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory));
	must_cuda(cuMemGetHandleForAddressRange(&fd, memory, bytes,
						CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	*mr = ibv_reg_dmabuf_mr(pd, 0, bytes, memory, fd, ACCESS);
	must(*mr && !close(fd));
}

static struct round one_round(void)
{
	uint64_t start = now(), allocated, computed, requested;
	CUdeviceptr memory;
	struct ibv_mr *mr;

	must_cuda(cuMemAlloc_v2(&memory, bytes));
	allocated = now();
	compute();
	computed = now();
	request(memory, &mr);
	requested = now();
	must(!ibv_dereg_mr(mr));
	must_cuda(cuMemFree_v2(memory));
	return (struct round){ .request = requested - computed,
			       .sum = allocated - start + now() - computed };
}

static void begin(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	struct ibv_device **devices;
	struct ibv_context *device;
	CUcontext context;

	must(fd >= 0);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	must(shared != MAP_FAILED && !close(fd));
	must_cuda(cuInit(0));
	must_cuda(cuDevicePrimaryCtxRetain(&context, 0));
	must_cuda(cuCtxSetCurrent(context));
	devices = ibv_get_device_list(NULL);
	must(devices && devices[0]);
	device = ibv_open_device(devices[0]);
	must(device);
	pd = ibv_alloc_pd(device);
	must(pd);
}

int main(int count, char **arguments)
{
	bool preloaded = dlsym(RTLD_DEFAULT, "peerpin_statistic") != NULL;
	unsigned long *numbers[] = { &ranks, &warm_ups, &rounds, &bytes, &computing_ns };
	struct round *times;
	uint64_t hits = 0;

	must(count == 7);
	for (int i = 0; i < 5; i++)
		*numbers[i] = strtoul(arguments[2 + i], NULL, 10);
	computing_ns *= 1000;
	times = malloc(rounds * sizeof(*times));
	must(ranks && rounds && bytes && computing_ns && times);
	begin(arguments[1]);
	srand((unsigned int)getpid());
	meet(READY);
	for (unsigned long i = 0; i < warm_ups; i++)
		one_round();
	meet(WARM);
	if (preloaded)
		hits = statistic("hits");
	turns = turning_ns = 0;
	for (unsigned long i = 0; i < rounds; i++)
		times[i] = one_round();
	if (preloaded)
		hits = statistic("hits") - hits;
	turns = turns * 1000000 / turning_ns;
	shared->arrived[DONE]++;
	for (unsigned long i = 0; i < rounds; i++)
		printf("%lu %lu\n", times[i].request, times[i].sum);
	printf("%lu %ld\n", turns, preloaded ? (long)hits : -1);
	/* The other ranks' rounds are beside as many ranks as before. */
	while (!all_arrived(DONE))
		one_round();
	return 0;
}
