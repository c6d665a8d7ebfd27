/* SPDX-License-Identifier: BSD-3-Clause */
/* life.c -- one rank of tests/gpu/lives: whole lives of registered memory, each part of them timed
 *
 * usage: life FILE RANKS PART ROUNDS BYTES MICROSECONDS
 * FILE, of at least 8 zero bytes, is shared by the ranks of a run, which begin each round at the
 * same time. Parts:
 * life   a buffer is allocated; MICROSECONDS later it is requested, deregistered and freed
 * again  a buffer is requested and deregistered 20 times
 * views  one allocation has 1265 views, which are all requested, and then all deregistered, twice:
 *        inference libraries register each tensor of a model
 * A request is SYNC_MEMOPS, the export of the allocation in whole pages, the registration by that
 * dma-buf and the end of it, as in UCX. A line for each figure: its name and the median of all
 * rounds in ns. The first round of "life" and "again" does not count.
 */
#include "statistic.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "memory/cuda_abi.h"
#include "sim/adapter_verbs.h"

/* Access flags of UCX. */
#define ACCESS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define PAGE_BYTES  4096ul
#define AGAIN	    20
#define VIEWS	    1265
#define FIGURES_MAX 5

static struct {
	_Atomic unsigned long arrived;
} * shared;

static unsigned long ranks, rounds, bytes, pause_us;
static struct ibv_pd *pd;
static struct ibv_mr *mrs[VIEWS];

static struct figure {
	const char *name;
	uint64_t *ns; /* of each round */
} figures[FIGURES_MAX];

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* Adds the time since *from, which becomes now, to the figure of this name in this round. */
static void count(const char *name, unsigned long round, uint64_t *from)
{
	struct figure *figure = figures;
	uint64_t time = now();

	while (figure->name && strcmp(figure->name, name))
		figure++;
	if (!figure->name) {
		figure->name = name;
		figure->ns = calloc(rounds, sizeof(*figure->ns));
		must(figure->ns);
	}
	figure->ns[round] += time - *from;
	*from = now();
}

static void meet(void)
{
	unsigned long mine = shared->arrived++;

	while (shared->arrived < (mine / ranks + 1) * ranks)
		;
}

/* Without system calls, as a rank that computes or polls. */
static void compute(void)
{
	uint64_t end = now() + pause_us * 1000;

	while (now() < end)
		;
}

/* Of a part of an allocation of `bytes` bytes. */
static struct ibv_mr *request(CUdeviceptr allocation, size_t offset, size_t length)
{
	CUdeviceptr from = allocation & ~(PAGE_BYTES - 1), memory = allocation + offset;
	size_t size = (allocation + bytes + PAGE_BYTES - 1 - from) & ~(PAGE_BYTES - 1);
	unsigned int on = 1;
	struct ibv_mr *mr;
	int fd;

	must_cuda(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, allocation));
	must_cuda(cuMemGetHandleForAddressRange(&fd, from, size,
						CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	mr = ibv_reg_dmabuf_mr(pd, memory - from, length, memory, fd, ACCESS);
	must(mr && !close(fd));
	return mr;
}

/* ---- parts ---- */

static void life(unsigned long round)
{
	CUdeviceptr memory;
	struct ibv_mr *mr;
	uint64_t time = now(), start = time, computing;

	must_cuda(cuMemAlloc_v2(&memory, bytes));
	count("allocation", round, &time);
	compute();
	computing = now() - time;
	time = now();
	mr = request(memory, 0, bytes);
	count("request", round, &time);
	must(!ibv_dereg_mr(mr));
	count("deregistration", round, &time);
	must_cuda(cuMemFree_v2(memory));
	count("free", round, &time);
	start += computing;
	count("sum", round, &start);
}

static void again(unsigned long round)
{
	CUdeviceptr memory;
	uint64_t time, mean;

	must_cuda(cuMemAlloc_v2(&memory, bytes));
	time = now();
	must(!ibv_dereg_mr(request(memory, 0, bytes)));
	count("first request", round, &time);
	for (int i = 1; i < AGAIN; i++)
		must(!ibv_dereg_mr(request(memory, 0, bytes)));
	mean = (now() - time) / (AGAIN - 1);
	time = now() - mean;
	count("later request", round, &time);
	must_cuda(cuMemFree_v2(memory));
}

static void views(unsigned long round)
{
	size_t piece = bytes / VIEWS & ~(size_t)255, length;
	CUdeviceptr memory;
	uint64_t time;

	must(piece >= PAGE_BYTES);
	must_cuda(cuMemAlloc_v2(&memory, bytes));
	for (int twice = 0; twice < 2; twice++) {
		time = now();
		for (size_t i = 0; i < VIEWS; i++) {
			length = i % 3 ? piece : piece / 8 & ~(size_t)255;
			mrs[i] = request(memory, i * piece, length);
		}
		count(twice ? "views again" : "views", round, &time);
		for (size_t i = 0; i < VIEWS; i++)
			must(!ibv_dereg_mr(mrs[i]));
	}
	must_cuda(cuMemFree_v2(memory));
}

static const struct part {
	const char *name;
	void (*run)(unsigned long round);
	bool warms_up;
} parts[] = { { "life", life, true }, { "again", again, true }, { "views", views, false } };

/* ---- the run ---- */

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

static int is_less(const void *one, const void *other)
{
	uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;

	return (a > b) - (a < b);
}

/* The simulated adapter holds a descriptor for each view; a common limit is 1024. */
static void allow_open_files(void)
{
	struct rlimit limit;

	must(!getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = limit.rlim_max;
	must(!setrlimit(RLIMIT_NOFILE, &limit));
}

int main(int argument_count, char **arguments)
{
	unsigned long first;
	const struct part *part = parts;

	must(argument_count == 7);
	ranks = strtoul(arguments[2], NULL, 10);
	while (part < parts + sizeof(parts) / sizeof(parts[0]) && strcmp(part->name, arguments[3]))
		part++;
	must(part < parts + sizeof(parts) / sizeof(parts[0]));
	first = part->warms_up;
	rounds = strtoul(arguments[4], NULL, 10) + first;
	bytes = strtoul(arguments[5], NULL, 10);
	pause_us = strtoul(arguments[6], NULL, 10);
	must(ranks && rounds > first && bytes);
	allow_open_files();
	begin(arguments[1]);
	for (unsigned long round = 0; round < rounds; round++) {
		meet();
		part->run(round);
	}
	for (struct figure *figure = figures; figure < figures + FIGURES_MAX && figure->name;
	     figure++) {
		qsort(figure->ns + first, rounds - first, sizeof(*figure->ns), is_less);
		printf("%s\t%lu\n", figure->name, figure->ns[(first + rounds) / 2]);
	}
	return 0;
}
