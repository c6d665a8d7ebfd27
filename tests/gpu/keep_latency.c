/* SPDX-License-Identifier: BSD-3-Clause */
/* keep_latency.c -- latency of an allocation and its free, and of an idle cuCtxSynchronize, in one
 * process; tests/gpu/keep_latencies compares processes
 *
 * A line for each case: its name and the median ns; of sizes that were never freed ("unmatched")
 * the mean, because new blocks for small memory are few and slow. Sizes that this GPU lacks are
 * skipped.
 */
#include <stdbool.h>
#include <string.h>

#include "memory/cuda_abi.h"
#include "statistic.h"

#define SAMPLES 501
#define LEAST	5
#define CASE_S	0.4 /* of each case at most; fewer samples then, LEAST at least */
#define WARM_UP 2
#define MIB	((size_t)1 << 20)

static size_t size; /* of the measured allocation */

static void synchronize(void)
{
	must_cuda(cuCtxSynchronize());
}

static void allocate_and_free(void)
{
	CUdeviceptr address;

	must_cuda(cuMemAlloc_v2(&address, size));
	must_cuda(cuMemFree_v2(address));
}

static void allocate_and_free_host(void)
{
	void *address;

	must_cuda(cuMemHostAlloc(&address, size, 0));
	must_cuda(cuMemFreeHost(address));
}

/* A size that was never freed. */
static void allocate_and_free_once(void)
{
	allocate_and_free();
	size += 512;
}

/* At random from 4 KiB to 1 MiB. */
static void allocate_and_free_drifting(void)
{
	static uint32_t number;

	number = number * 1664525 + 1013904223;
	size = 4096 + (number >> 8) % (MIB - 4096);
	allocate_and_free();
}

static void allocate_and_free_in_order(void)
{
	CUdeviceptr address;

	must_cuda(cuMemAllocAsync(&address, size, NULL));
	must_cuda(cuMemFreeAsync(address, NULL));
	must_cuda(cuStreamSynchronize(NULL));
}

static int by_value(const void *left, const void *right)
{
	double one = *(const double *)left, other = *(const double *)right;

	return (one > other) - (one < other);
}

static double measure(void (*call)(void))
{
	static double samples[SAMPLES];
	double end = seconds() + CASE_S, start, sum = 0;
	size_t count = 0;

	for (int i = 0; i < WARM_UP; i++)
		call();
	while (count < SAMPLES && (count < LEAST || seconds() < end)) {
		start = seconds();
		call();
		samples[count] = (seconds() - start) * 1e9;
		sum += samples[count++];
	}
	if (call == allocate_and_free_once)
		return sum / (double)count;
	qsort(samples, count, sizeof(samples[0]), by_value);
	return samples[count / 2];
}

int main(void)
{
	static const struct {
		const char *name;
		void (*call)(void);
		size_t size;
	} cases[] = {
		/* Unmatched ones first: they would release what others have kept. */
		{ "idle cuCtxSynchronize", synchronize, 0 },
		{ "unmatched cuMemAlloc + cuMemFree, 4 KiB", allocate_and_free_once, 4096 },
		{ "unmatched cuMemAlloc + cuMemFree, 512 KiB", allocate_and_free_once, 512 << 10 },
		{ "unmatched cuMemAlloc + cuMemFree, 3 MiB", allocate_and_free_once, 3 * MIB },
		{ "unmatched cuMemAlloc + cuMemFree, 48 MiB", allocate_and_free_once, 48 * MIB },
		{ "cuMemAlloc + cuMemFree, 64 KiB", allocate_and_free, 64 << 10 },
		{ "cuMemAlloc + cuMemFree, 2 MiB", allocate_and_free, 2 * MIB },
		{ "cuMemAlloc + cuMemFree, 64 MiB", allocate_and_free, 64 * MIB },
		{ "cuMemAlloc + cuMemFree, 1 GiB", allocate_and_free, 1024 * MIB },
		{ "cuMemAlloc + cuMemFree, 16 GiB", allocate_and_free, 16384 * MIB },
		{ "drifting cuMemAlloc + cuMemFree, 4 to 1024 KiB", allocate_and_free_drifting,
		  4096 },
		{ "cuMemAllocAsync + cuMemFreeAsync, 1 MiB", allocate_and_free_in_order, MIB },
		{ "cuMemAllocAsync + cuMemFreeAsync, 256 MiB", allocate_and_free_in_order,
		  256 * MIB },
		{ "cuMemHostAlloc + cuMemFreeHost, 2 MiB", allocate_and_free_host, 2 * MIB },
		{ "cuMemHostAlloc + cuMemFreeHost, 64 MiB", allocate_and_free_host, 64 * MIB },
	};
	bool preloaded = dlsym(RTLD_DEFAULT, "peerpin_statistic");
	CUdeviceptr neighbour; /* in the block of small memory */
	CUcontext context;
	size_t free, total;

	must_cuda(cuInit(0));
	must_cuda(cuCtxCreate_v2(&context, 0, 0));
	must_cuda(cuMemAlloc_v2(&neighbour, 1));
	must_cuda(cuMemGetInfo_v2(&free, &total));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t reused = preloaded ? statistic("reused") : 0;

		size = cases[i].size;
		if (cases[i].call == allocate_and_free && size > free / 8 * 7)
			printf("# %s: not on this GPU\n", cases[i].name);
		else
			printf("%s\t%.1f\n", cases[i].name, measure(cases[i].call));
		must(!preloaded || strncmp(cases[i].name, "unmatched", 9) ||
		     statistic("reused") == reused);
	}
	if (preloaded)
		printf("# reused: %llu\n", (unsigned long long)statistic("reused"));
	else
		printf("# peerpin: no\n");
	return 0;
}
