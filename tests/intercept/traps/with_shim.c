/* SPDX-License-Identifier: BSD-3-Clause */
/* with_shim.c -- traps in the calls that reach the driver */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "shim.h"
#include "traps.h"

static CUcontext context;

static CUdeviceptr allocate(void)
{
	CUdeviceptr address = 0;

	cuMemAlloc_v2(&address, 100000);
	return address;
}

static uint64_t frees_at_free;

static void look_at_frees(void)
{
	frees_at_free = statistic("frees");
}

static void t29(void)
{
	CUdeviceptr address = allocate();
	uint64_t before = statistic("frees");
	bool kept;

	shim.in_free = look_at_frees;
	kept = PART(cuMemFree_v2(address) == CUDA_SUCCESS) && PART(frees_at_free == before + 1);
	shim.in_free = NULL;
	trap("T29", "the record is gone before the driver frees", kept);
}

/* The allocation returns only after another thread's allocation and free. */
static atomic_bool other_done, waited_in_vain;

static void *other(void *argument)
{
	(void)argument;
	cuCtxSetCurrent(context);
	shim.in_allocate = NULL;
	cuMemFree_v2(allocate());
	atomic_store(&other_done, true);
	return NULL;
}

static void wait_for_other(void)
{
	struct timespec start, now;
	pthread_t thread;

	if (pthread_create(&thread, NULL, other, NULL))
		return;
	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		sched_yield();
		clock_gettime(CLOCK_MONOTONIC, &now);
		atomic_store(&waited_in_vain, now.tv_sec - start.tv_sec > 120);
	} while (!atomic_load(&other_done) && !atomic_load(&waited_in_vain));
	if (atomic_load(&other_done))
		pthread_join(thread, NULL);
}

static void t26(void)
{
	CUdeviceptr address;

	shim.in_allocate = wait_for_other;
	address = allocate();
	trap("T26", "no lock is held while the driver is called",
	     PART(atomic_load(&other_done)) && PART(cuMemFree_v2(address) == CUDA_SUCCESS));
}

static void t36(void)
{
	unsigned int queries, settings = shim.settings;
	CUdeviceptr address;
	bool kept;

	queries = shim.queries;
	address = allocate();
	kept = PART(shim.queries == queries + 1);
	kept &= PART(cuMemFree_v2(address) == CUDA_SUCCESS) && PART(shim.queries == queries + 1) &&
		PART(shim.settings == settings);
	trap("T36", "an allocation costs one query of the driver, a free none", kept);
}

int main(void)
{
	uint64_t allocations, frees;
	CUdeviceptr address;
	CUdevice device;
	bool kept;

	kept = PART(shim.inits == 0) && PART(!statistic("allocations"));
	kept &= PART(cuInit(0) == CUDA_SUCCESS) && PART(shim.inits == 1);
	trap("T25", "a driver that looks itself up while it begins does not hang", kept);
	if (cuDeviceGet(&device, 0) || cuCtxCreate_v2(&context, 0, device))
		return 99;
	allocations = statistic("allocations");
	frees = statistic("frees");
	address = allocate();
	kept = PART(cuMemFree_v2(address) == CUDA_SUCCESS) &&
	       PART(statistic("allocations") == allocations + 1) &&
	       PART(statistic("frees") == frees + 1) && PART(shim.frees == 1) &&
	       PART(shim.allocations == 1) && PART(shim.finds_itself);
	trap("T6", "what a driver looks up in another is that other's function", kept);
	t29();
	t26();
	t36();
	trap("T28", "the library never begins CUDA", PART(shim.inits == 1));
	trap("T32", "nothing is exported at an allocation", PART(shim.exports == 0));
	return 0;
}
