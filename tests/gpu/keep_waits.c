/* SPDX-License-Identifier: BSD-3-Clause */
/* keep_waits.c -- the driver's waits for all work of a context: whether they wait, and their times
 *
 * A free that keeps memory waits for an event of the context, or in a free of other memory. Status
 * 1: one of them returns before the work ends.
 */
#include <string.h>

#include "keep.h"
#include "statistic.h"

#define ROUNDS	501
#define WORK_NS 50000000u

static CUcontext context;
static CUevent event;
static __typeof__(cuCtxRecordEvent) *record;

static void synchronize(void)
{
	must_cuda(cuCtxSynchronize());
}

static void wait_for_event(void)
{
	must_cuda(record(context, event));
	must_cuda(cuEventSynchronize(event));
}

static void wait_for_new_event(void)
{
	must_cuda(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	wait_for_event();
	must_cuda(cuEventDestroy_v2(event));
}

static void free_a_byte(void)
{
	CUdeviceptr address;

	must_cuda(cuMemAlloc_v2(&address, 1));
	must_cuda(cuMemFree_v2(address));
}

static int by_value(const void *left, const void *right)
{
	double one = *(const double *)left, other = *(const double *)right;

	return (one > other) - (one < other);
}

static double median(void (*wait)(void))
{
	static double samples[ROUNDS];
	double start;

	for (int i = 0; i < ROUNDS; i++) {
		start = seconds();
		wait();
		samples[i] = (seconds() - start) * 1e9;
	}
	qsort(samples, ROUNDS, sizeof(samples[0]), by_value);
	return samples[ROUNDS / 2];
}

static bool waits(const char *name, void (*wait)(void), CUstream stream, CUdeviceptr memory)
{
	double idle = median(wait), start;
	bool ended;

	work_launch(stream, memory, 1024, 1, WORK_NS);
	start = seconds();
	wait();
	start = seconds() - start;
	ended = cuStreamQuery(stream) == CUDA_SUCCESS;
	printf("%s%s: %.0f ns idle, %.1f ms for work of %u ms\n", ended ? "" : "WRONG ", name, idle,
	       start * 1e3, WORK_NS / 1000000);
	must_cuda(cuCtxSynchronize());
	return ended;
}

int main(void)
{
	CUdeviceptr memory, small;
	CUstream stream;
	bool good;

	must_cuda(cuInit(0));
	must_cuda(cuCtxCreate_v2(&context, 0, 0));
	if (!work_load()) {
		printf("skipped: this driver has no kernels\n");
		return SKIPPED;
	}
	must_cuda(cuStreamCreate(&stream, NON_BLOCKING));
	must_cuda(cuMemAlloc_v2(&memory, 4 << 20));
	/* The driver loads a kernel at its first use, and waits for that. */
	work_launch(stream, memory, 1, 1, 0);
	synchronize();
	good = waits("cuCtxSynchronize", synchronize, stream, memory);
	record = (__typeof__(record))dlsym(RTLD_DEFAULT, "cuCtxRecordEvent");
	if (record) {
		good &= waits("a new event of the context", wait_for_new_event, stream, memory);
		must_cuda(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
		good &= waits("an event of the context", wait_for_event, stream, memory);
	}
	good &= waits("allocation and free of a byte", free_a_byte, stream, memory);
	must_cuda(cuMemAlloc_v2(&small, 1));
	good &= waits("the same beside other small memory", free_a_byte, stream, memory);
	return !good;
}
