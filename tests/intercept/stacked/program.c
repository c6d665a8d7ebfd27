/* SPDX-License-Identifier: BSD-3-Clause */
/* program.c -- allocates and frees on each lookup path, and prints how often each call arrived:
 * at the other preload, at peerpin, and at the driver */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "memory/cuda_abi.h"

#define SIZE (4u << 20)

typedef __typeof__(cuMemAlloc_v2) allocate_function;
typedef __typeof__(cuMemFree_v2) free_function;

/* -1: not preloaded. */
static long of_other(const char *counter)
{
	const unsigned int *value = dlsym(RTLD_DEFAULT, counter);

	return value ? (long)*value : -1;
}

static long of_peerpin(const char *counter)
{
	int (*read)(const char *name, uint64_t *value) =
		(__typeof__(read))dlsym(RTLD_DEFAULT, "peerpin_statistic");
	uint64_t value = 0;

	return read && !read(counter, &value) ? (long)value : -1;
}

static size_t free_bytes(void)
{
	size_t free = 0, total = 0;

	cuMemGetInfo_v2(&free, &total);
	return free;
}

struct counts {
	long other_allocations, other_frees, allocations, frees;
	size_t free;
};

static struct counts count(void)
{
	return (struct counts){ of_other("stacked_allocations"), of_other("stacked_frees"),
				of_peerpin("allocations"), of_peerpin("frees"), free_bytes() };
}

static void use(const char *path, allocate_function *allocate, free_function *release)
{
	struct counts before = count(), after;
	CUdeviceptr address = 0;
	CUresult results[3];
	size_t taken;

	results[0] = allocate(&address, SIZE);
	taken = before.free - free_bytes();
	results[1] = release(address);
	after = count();
	/* Refused: the first free arrived. */
	results[2] = release(address);
	printf("%s: results %d %d %d, taken %zu, left %zu, other %ld %ld, peerpin %ld %ld\n", path,
	       results[0], results[1], results[2], taken / SIZE, before.free - after.free,
	       after.other_allocations - before.other_allocations,
	       after.other_frees - before.other_frees, after.allocations - before.allocations,
	       after.frees - before.frees);
	fflush(stdout);
}

static void use_by_name(const char *path, __typeof__(cuGetProcAddress_v2) *by_name)
{
	void *allocate = NULL, *release = NULL;

	if (by_name("cuMemAlloc", &allocate, 12000, 0, NULL) ||
	    by_name("cuMemFree", &release, 12000, 0, NULL))
		exit(1);
	use(path, (allocate_function *)allocate, (free_function *)release);
}

int main(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	CUdeviceptr managed;
	CUcontext context;

	if (!driver || cuInit(0) || cuCtxCreate_v2(&context, 0, 0))
		return 1;
	use("linked", cuMemAlloc_v2, cuMemFree_v2);
	use("dlsym", (allocate_function *)dlsym(driver, "cuMemAlloc_v2"),
	    (free_function *)dlsym(driver, "cuMemFree_v2"));
	use_by_name("linked cuGetProcAddress", cuGetProcAddress_v2);
	use_by_name("cuGetProcAddress of dlsym",
		    (__typeof__(cuGetProcAddress_v2) *)dlsym(driver, "cuGetProcAddress_v2"));
	/* The other preload does not wrap it: peerpin sees one allocation in any case. */
	if (cuMemAllocManaged(&managed, SIZE, 1))
		return 1;
	printf("bypasses %ld\n", of_peerpin("bypasses"));
	return 0;
}
