/* SPDX-License-Identifier: BSD-3-Clause */
/* rank.c -- one rank of tests/gpu/ranks: allocates, computes, registers, deregisters, frees
 *
 * In blocks of rounds, in turn through the preload and directly: by the functions of the driver's
 * and libibverbs' symbol tables. "Early" rounds are direct and register before they compute, as
 * PEERPIN_PREREGISTER=eager does: where many ranks wait for each other in the driver, that order
 * alone changes the times. 16 ranks on one GPU take four times as long in one run as in the next,
 * so only blocks of one run can be compared. All ranks change at once, and a rank that has finished
 * its rounds makes more until the last has.
 *
 * Computes for a time between three and five quarters of MICROSECONDS, at random. With equal times
 * the ranks would keep the order in which they meet in the driver, and a block's times would depend
 * on it.
 *
 * usage: rank FILE RANKS WARM-UPS ROUNDS BLOCKS BYTES MICROSECONDS
 * FILE, of at least 8 zero bytes, is shared by all ranks of a run. ROUNDS of each of BLOCKS blocks
 * count; WARM-UPS precede the first block, and SETTLING rounds each. A line for each round: its
 * kind (0, 1 or 2: through the preload, direct, early), ns of the request after computing
 * (SYNC_MEMOPS, export, registration, close), and ns of allocation, request, deregistration and
 * free. The last line: turns of the computing loop in a ms, by kind, and hits of the rounds that
 * count (-1: no peerpin).
 */
#include "statistic.h"

#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/object.h"
#include "memory/cuda_abi.h"
#include "sim/adapter_verbs.h"

/* Access flags of UCX. */
#define ACCESS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define SETTLING 4 /* rounds after a change: the worker may still be at the last block's memory */

#define must_cuda(call) must((call) == CUDA_SUCCESS)

/* Blocks and steps before them that all ranks have finished. */
static struct {
	_Atomic unsigned long finished;
} * shared;

static unsigned long ranks, warm_ups, rounds, blocks, bytes, computing_ns;
static struct ibv_pd *pd;
static bool has_peerpin;

enum kind { PRELOADED, DIRECT, EARLY, KINDS };

struct round {
	enum kind kind;
	uint64_t request, sum;
};

/* Of the computing loop. */
static uint64_t turns[KINDS], turning_ns[KINDS];

/* ---- the calls of a round, through the preload and directly ---- */

static struct calls {
	__typeof__(cuMemAlloc_v2) *cuMemAlloc_v2;
	__typeof__(cuMemFree_v2) *cuMemFree_v2;
	__typeof__(cuPointerSetAttribute) *cuPointerSetAttribute;
	__typeof__(cuMemGetHandleForAddressRange) *cuMemGetHandleForAddressRange;
	__typeof__(ibv_reg_dmabuf_mr) *ibv_reg_dmabuf_mr;
	__typeof__(ibv_dereg_mr) *ibv_dereg_mr;
} preloaded = { cuMemAlloc_v2,	       cuMemFree_v2,
		cuPointerSetAttribute, cuMemGetHandleForAddressRange,
		ibv_reg_dmabuf_mr,     ibv_dereg_mr },
  direct;

static int find_calls(struct dl_phdr_info *object, size_t size, void *unused)
{
	const char *name = object_file_name(object);
	struct object_tables tables;

	(void)size;
	(void)unused;
	if (strncmp(name, "libcuda.so", 10) && strncmp(name, "libibverbs.so", 13))
		return 0;
	must(object_read(object, &tables));
#define FIND(function)                                                                             \
	if (!direct.function)                                                                      \
	direct.function = (__typeof__(direct.function))object_find(&tables, #function)
	FIND(cuMemAlloc_v2);
	FIND(cuMemFree_v2);
	FIND(cuPointerSetAttribute);
	FIND(cuMemGetHandleForAddressRange);
	FIND(ibv_reg_dmabuf_mr);
	FIND(ibv_dereg_mr);
#undef FIND
	return 0;
}

/* ---- a round ---- */

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* No system calls, as in a rank that polls. */
static void compute(enum kind kind)
{
	uint64_t time = computing_ns - computing_ns / 4 + (uint64_t)rand() % (computing_ns / 2),
		 end = now() + time, count = 0;

	while (now() < end)
		count++;
	turns[kind] += count;
	turning_ns[kind] += time;
}

/* As UCX does: operations of the GPU on the memory are complete before an adapter reads it. */
static struct ibv_mr *request(const struct calls *call, CUdeviceptr memory)
{
	unsigned int on = 1;
	struct ibv_mr *mr;
	int fd;

	must_cuda(call->cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory));
	must_cuda(call->cuMemGetHandleForAddressRange(&fd, memory, bytes,
						      CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	mr = call->ibv_reg_dmabuf_mr(pd, 0, bytes, memory, fd, ACCESS);
	must(mr && !close(fd));
	return mr;
}

static struct round one_round(enum kind kind)
{
	const struct calls *call = kind == PRELOADED ? &preloaded : &direct;
	uint64_t start = now(), allocated, computed, requested;
	struct ibv_mr *mr = NULL;
	CUdeviceptr memory;

	must_cuda(call->cuMemAlloc_v2(&memory, bytes));
	if (kind == EARLY)
		mr = request(call, memory);
	allocated = now();
	compute(kind);
	computed = now();
	if (kind != EARLY)
		mr = request(call, memory);
	requested = now();
	must(!call->ibv_dereg_mr(mr));
	must_cuda(call->cuMemFree_v2(memory));
	return (struct round){ .kind = kind,
			       .request = requested - computed,
			       .sum = allocated - start + now() - computed };
}

/* ---- all ranks ---- */

/* The other ranks' rounds are beside as many ranks as before. */
static void finish(unsigned long step, enum kind kind)
{
	shared->finished++;
	while (shared->finished < (step + 1) * ranks)
		one_round(kind);
}

/* There and back: a slow change of the machine's speed is no difference. */
static enum kind kind_of(unsigned long block)
{
	return (enum kind)(block / KINDS % 2 ? KINDS - 1 - block % KINDS : block % KINDS);
}

/* Returns the number of hits. */
static uint64_t run_block(unsigned long block, struct round *times)
{
	enum kind kind = kind_of(block);
	uint64_t before, hits = 0;

	for (unsigned long i = 0; i < SETTLING; i++)
		one_round(kind);
	before = has_peerpin ? statistic("hits") : 0;
	for (unsigned long i = 0; i < rounds; i++)
		times[i] = one_round(kind);
	if (has_peerpin)
		hits = statistic("hits") - before;
	finish(2 + block, kind);
	return hits;
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
	dl_iterate_phdr(find_calls, NULL);
	must(direct.cuMemAlloc_v2 && direct.cuMemFree_v2 && direct.cuPointerSetAttribute &&
	     direct.cuMemGetHandleForAddressRange && direct.ibv_reg_dmabuf_mr &&
	     direct.ibv_dereg_mr);
}

int main(int count, char **arguments)
{
	unsigned long *numbers[] = { &ranks, &warm_ups, &rounds, &blocks, &bytes, &computing_ns };
	struct round *times;
	uint64_t hits = 0;

	must(count == 8);
	for (int i = 0; i < 6; i++)
		*numbers[i] = strtoul(arguments[2 + i], NULL, 10);
	computing_ns *= 1000;
	times = calloc(rounds * blocks, sizeof(*times));
	must(ranks && rounds && blocks >= KINDS && bytes && computing_ns && times);
	has_peerpin = dlsym(RTLD_DEFAULT, "peerpin_statistic") != NULL;
	begin(arguments[1]);
	srand((unsigned int)getpid());
	finish(0, PRELOADED);
	for (unsigned long i = 0; i < warm_ups; i++)
		one_round(PRELOADED);
	finish(1, PRELOADED);
	for (unsigned long i = 0; i < blocks; i++)
		hits += run_block(i, &times[i * rounds]);
	for (unsigned long i = 0; i < rounds * blocks; i++)
		printf("%d %lu %lu\n", times[i].kind, times[i].request, times[i].sum);
	for (int kind = 0; kind < KINDS; kind++)
		printf("%lu ", turns[kind] * 1000000 / turning_ns[kind]);
	printf("%ld\n", has_peerpin ? (long)hits : -1);
	return 0;
}
