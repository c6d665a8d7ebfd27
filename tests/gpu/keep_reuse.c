/* SPDX-License-Identifier: BSD-3-Clause */
/* keep_reuse.c -- memory that is freed while work still writes to it, and allocated again
 *
 * keep_reuse: each round launches work that writes to an allocation, frees the allocation at once,
 * allocates as much again, fills that from another stream and checks it. The free waits for the
 * work, so that every word is the fill's.
 * keep_reuse --without-wait: the same with memory that is filled while the work runs, without a
 * free: it must be found corrupt.
 * keep_reuse --plain: allocations, work and frees for a memory checker.
 * keep_reuse --after-free: work on freed memory, for a memory checker.
 */
#include <pthread.h>
#include <string.h>

#include "keep.h"
#include "statistic.h"

#define WORK_NS	      50000000u
#define OLD	      0xdeadbeefu
#define NEW	      0x600df00du
#define ROUNDS	      2
#define MIB	      ((size_t)1 << 20)
#define SIZE_MAX_HERE (64 * MIB)

static CUcontext context, other;
static CUstream writer, filler;
static unsigned int *copy; /* page-locked */
static int rounds, same_address, corrupt;

/* ---- frees, by threads in different states ---- */

static void free_here(CUdeviceptr address)
{
	must_cuda(cuMemFree_v2(address));
}

static void *free_in_thread(void *argument)
{
	CUcontext current = NULL;

	must_cuda(cuCtxGetCurrent(&current));
	must(!current);
	must_cuda(cuMemFree_v2(*(CUdeviceptr *)argument));
	return NULL;
}

static void free_without_context(CUdeviceptr address)
{
	pthread_t thread;

	must(!pthread_create(&thread, NULL, free_in_thread, &address));
	must(!pthread_join(thread, NULL));
}

static void free_in_other_context(CUdeviceptr address)
{
	must_cuda(cuCtxPushCurrent_v2(other));
	must_cuda(cuMemFree_v2(address));
	must_cuda(cuCtxPopCurrent_v2(NULL));
}

/* ---- rounds ---- */

static uint64_t count_wrong(const unsigned int *words, uint64_t count)
{
	uint64_t wrong = 0;

	for (uint64_t i = 0; i < count; i++)
		wrong += words[i] != NEW;
	return wrong;
}

/* At once, and again after all work has ended. */
static uint64_t fill_and_check(CUdeviceptr address, size_t size)
{
	uint64_t words = size / sizeof(*copy), wrong;

	must_cuda(cuMemsetD32Async(address, NEW, words, filler));
	must_cuda(cuMemcpyDtoHAsync_v2(copy, address, size, filler));
	must_cuda(cuStreamSynchronize(filler));
	wrong = count_wrong(copy, words);
	must_cuda(cuCtxSynchronize());
	must_cuda(cuMemcpyDtoH_v2(copy, address, size));
	return wrong + count_wrong(copy, words);
}

static void report(const char *name, size_t size, bool same, uint64_t wrong)
{
	rounds++;
	same_address += same;
	corrupt += wrong != 0;
	if (wrong)
		printf("# %s, %zu bytes: %llu words are not the second allocation's\n", name, size,
		       (unsigned long long)wrong);
}

static void reuse(const char *name, void (*free)(CUdeviceptr address), size_t size)
{
	CUdeviceptr address, again;

	must_cuda(cuMemAlloc_v2(&address, size));
	work_launch(writer, address, size / sizeof(*copy), OLD, WORK_NS);
	free(address);
	must_cuda(cuMemAlloc_v2(&again, size));
	report(name, size, again == address, fill_and_check(again, size));
	must_cuda(cuMemFree_v2(again));
}

static void reuse_pitched(size_t size)
{
	CUdeviceptr address, again;
	size_t pitch, pitch_again;

	must_cuda(cuMemAllocPitch_v2(&address, &pitch, size / 64 - 100, 64, 4));
	work_launch(writer, address, pitch * 64 / sizeof(*copy), OLD, WORK_NS);
	must_cuda(cuMemFree_v2(address));
	must_cuda(cuMemAllocPitch_v2(&again, &pitch_again, size / 64 - 100, 64, 4));
	must(pitch == pitch_again);
	report("pitched", size, again == address, fill_and_check(again, size / 64 * 63));
	must_cuda(cuMemFree_v2(again));
}

/* The work writes by way of the bus. */
static void reuse_host(size_t size)
{
	uint64_t words = size / sizeof(*copy), wrong;
	unsigned int *address, *again;

	must_cuda(cuMemHostAlloc((void **)&address, size, CU_MEMHOSTALLOC_DEVICEMAP));
	work_launch(writer, (uintptr_t)address, words, OLD, WORK_NS);
	must_cuda(cuMemFreeHost(address));
	must_cuda(cuMemHostAlloc((void **)&again, size, CU_MEMHOSTALLOC_DEVICEMAP));
	for (uint64_t i = 0; i < words; i++)
		((volatile unsigned int *)again)[i] = NEW;
	wrong = count_wrong(again, words);
	must_cuda(cuCtxSynchronize());
	report("host memory", size, again == address, wrong + count_wrong(again, words));
	must_cuda(cuMemFreeHost(again));
}

static void reuse_without_wait(size_t size)
{
	CUdeviceptr address;

	must_cuda(cuMemAlloc_v2(&address, size));
	work_launch(writer, address, size / sizeof(*copy), OLD, WORK_NS);
	report("without a wait", size, true, fill_and_check(address, size));
	must_cuda(cuMemFree_v2(address));
}

/* ---- programs ---- */

static void prepare(void)
{
	must_cuda(cuInit(0));
	must_cuda(cuCtxCreate_v2(&other, 0, 0));
	must_cuda(cuCtxPopCurrent_v2(NULL));
	must_cuda(cuCtxCreate_v2(&context, 0, 0));
	if (!work_load()) {
		printf("skipped: this driver has no kernels\n");
		exit(SKIPPED);
	}
	must_cuda(cuStreamCreate(&writer, NON_BLOCKING));
	must_cuda(cuStreamCreate(&filler, NON_BLOCKING));
	must_cuda(cuMemHostAlloc((void **)&copy, SIZE_MAX_HERE, 0));
}

/* Everything once: the driver loads its kernels at their first use, and waits for that. */
static void warm_up(void)
{
	CUdeviceptr address;

	must_cuda(cuMemAlloc_v2(&address, MIB));
	work_launch(writer, address, 1, OLD, 0);
	must_cuda(cuCtxSynchronize());
	must(!fill_and_check(address, MIB));
	must_cuda(cuMemFree_v2(address));
}

static int reuse_all(bool waits)
{
	static const size_t sizes[] = { 64 << 10, 2 * MIB, 3 * MIB + 4096, SIZE_MAX_HERE };

	warm_up();
	for (int round = 0; round < ROUNDS; round++) {
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			if (!waits) {
				reuse_without_wait(sizes[i]);
				continue;
			}
			reuse("freed with its context", free_here, sizes[i]);
			reuse("freed without a context", free_without_context, sizes[i]);
			reuse("freed with another context", free_in_other_context, sizes[i]);
		}
		if (waits) {
			reuse_pitched(2 * MIB);
			reuse_host(2 * MIB);
			reuse_host(64 << 10);
		}
	}
	printf("%d of %d rounds corrupt, %d at the same address\n", corrupt, rounds, same_address);
	return corrupt != 0;
}

/* The last free is followed by work if `after`. */
static int check_memory(bool after)
{
	CUdeviceptr address = 0;

	for (int i = 0; i < 3; i++) {
		must_cuda(cuMemAlloc_v2(&address, 2 * MIB));
		work_launch(writer, address, 1024, NEW, 0);
		must_cuda(cuCtxSynchronize());
		must_cuda(cuMemFree_v2(address));
	}
	if (after)
		work_launch(writer, address, 1024, OLD, 0);
	/* The checker ends the context. */
	printf("# synchronize: %d\n", (int)cuCtxSynchronize());
	return 0;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";

	prepare();
	if (!strcmp(mode, "--plain") || !strcmp(mode, "--after-free"))
		return check_memory(!strcmp(mode, "--after-free"));
	return reuse_all(strcmp(mode, "--without-wait") != 0);
}
