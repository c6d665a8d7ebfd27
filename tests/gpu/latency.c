/* SPDX-License-Identifier: BSD-3-Clause */
/* latency.c -- latency of kernel launches, copies and events in one process; tests/gpu/latencies
 * compares processes
 *
 * A line for each case: its name and the ns of a call. Cases that this driver lacks (the simulated
 * one has no kernels) are reported and skipped. Needs a driver and libc alone.
 *
 * Load on the other half of a core makes a call a fifth slower, for minutes (measured: means of
 * processes spread by 8 % anywhere, by 4 % on a quiet processor, by 12 % on another). So each case
 * is measured on several processors; the result is the least of the medians. Extra cost on some of
 * them only is not detected.
 */
#include <dlfcn.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "memory/cuda_abi.h"

#define LARGE	    ((size_t)16 << 20)
#define PLACES	    8	/* processors at most, spread over this process's mask */
#define SAMPLES	    11	/* on each */
#define FEW_SAMPLES 5	/* of large copies */
#define MOST_CALLS  400 /* enqueued at once: fewer than the driver's queue takes */
#define SAMPLE_NS   200000
#define SKIPPED	    77
#define NON_BLOCKED 1 /* CU_STREAM_NON_BLOCKING */

#define must_cuda(call)                                                                            \
	do {                                                                                       \
		int result_ = (int)(call);                                                         \
		if (result_) {                                                                     \
			printf("latency: line %d: %s: error %d\n", __LINE__, #call, result_);      \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#define FUNCTIONS(X)                                                                               \
	X(cuInit)                                                                                  \
	X(cuCtxCreate_v2)                                                                          \
	X(cuCtxSynchronize)                                                                        \
	X(cuStreamCreate)                                                                          \
	X(cuStreamSynchronize)                                                                     \
	X(cuEventCreate)                                                                           \
	X(cuEventRecord)                                                                           \
	X(cuEventQuery)                                                                            \
	X(cuEventSynchronize)                                                                      \
	X(cuMemAlloc_v2)                                                                           \
	X(cuMemFree_v2)                                                                            \
	X(cuMemFreeHost)                                                                           \
	X(cuMemHostAlloc)                                                                          \
	X(cuMemcpyHtoD_v2)                                                                         \
	X(cuMemcpyDtoH_v2)                                                                         \
	X(cuMemcpyDtoD_v2)                                                                         \
	X(cuMemcpyHtoDAsync_v2)                                                                    \
	X(cuMemcpyDtoHAsync_v2)                                                                    \
	X(cuMemcpyDtoDAsync_v2)                                                                    \
	X(cuModuleLoadData)

static struct {
#define X(name) __typeof__(name) *name;
	FUNCTIONS(X)
#undef X
	int (*cuModuleGetFunction)(void **function, CUmodule module, const char *name);
	int (*cuLaunchKernel)(void *function, unsigned int grid_x, unsigned int grid_y,
			      unsigned int grid_z, unsigned int block_x, unsigned int block_y,
			      unsigned int block_z, unsigned int shared, CUstream stream,
			      void **parameters, void **extra);
} cuda;

/* For the oldest GPU that current drivers support. */
static const char kernel_text[] = ".version 6.4\n"
				  ".target sm_75\n"
				  ".address_size 64\n"
				  ".visible .entry nothing()\n"
				  "{\n"
				  "	ret;\n"
				  "}\n";

static CUstream stream;
static CUevent event;
static CUdeviceptr here, there;
static void *pageable, *pinned, *kernel;
static size_t size; /* of the measured copy */
static int places[PLACES], place_count;

/* ---- the calls ---- */

static void launch(void)
{
	must_cuda(cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
}

static void launch_and_wait(void)
{
	launch();
	must_cuda(cuda.cuStreamSynchronize(stream));
}

static void to_device(void)
{
	must_cuda(cuda.cuMemcpyHtoD_v2(here, pageable, size));
}

static void to_host(void)
{
	must_cuda(cuda.cuMemcpyDtoH_v2(pageable, here, size));
}

/* The call may return before the copy. */
static void inside(void)
{
	must_cuda(cuda.cuMemcpyDtoD_v2(there, here, size));
	must_cuda(cuda.cuCtxSynchronize());
}

static void to_device_async(void)
{
	must_cuda(cuda.cuMemcpyHtoDAsync_v2(here, pinned, size, stream));
}

static void to_host_async(void)
{
	must_cuda(cuda.cuMemcpyDtoHAsync_v2(pinned, here, size, stream));
}

static void inside_async(void)
{
	must_cuda(cuda.cuMemcpyDtoDAsync_v2(there, here, size, stream));
}

static void record(void)
{
	must_cuda(cuda.cuEventRecord(event, stream));
}

static void query(void)
{
	must_cuda(cuda.cuEventQuery(event));
}

static const struct kind {
	const char *name;
	void (*call)(void);
	int copies, kernel;
} kinds[] = {
	{ .name = "kernel launch", .call = launch, .kernel = 1 },
	{ .name = "kernel launch and wait", .call = launch_and_wait, .kernel = 1 },
	{ .name = "event record", .call = record },
	{ .name = "event query", .call = query },
	{ .name = "copy to device", .call = to_device, .copies = 1 },
	{ .name = "copy to host", .call = to_host, .copies = 1 },
	{ .name = "copy inside", .call = inside, .copies = 1 },
	{ .name = "copy to device, async", .call = to_device_async, .copies = 1 },
	{ .name = "copy to host, async", .call = to_host_async, .copies = 1 },
	{ .name = "copy inside, async", .call = inside_async, .copies = 1 },
};

/* ---- samples ---- */

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* Wait outside of the time. */
static double sample(void (*call)(void), int calls)
{
	double start, end;

	must_cuda(cuda.cuCtxSynchronize());
	start = now();
	for (int i = 0; i < calls; i++)
		call();
	end = now();
	must_cuda(cuda.cuCtxSynchronize());
	return (end - start) / calls;
}

static int by_value(const void *left, const void *right)
{
	double one = *(const double *)left, other = *(const double *)right;

	return (one > other) - (one < other);
}

/* The driver's own threads stay. False: that processor is gone. */
static int go_to(int place)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(place, &set);
	return !sched_setaffinity(0, sizeof(set), &set);
}

static double median(void (*call)(void), int calls)
{
	double samples[SAMPLES];
	int count = size == LARGE ? FEW_SAMPLES : SAMPLES;

	/* Warm this processor's caches. */
	sample(call, calls);
	for (int i = 0; i < count; i++)
		samples[i] = sample(call, calls);
	qsort(samples, (size_t)count, sizeof(samples[0]), by_value);
	return samples[count / 2];
}

static void measure(const char *name, void (*call)(void))
{
	double least = 0, once;
	int calls;

	/* Enqueued large copies would measure the wait for earlier ones. */
	sample(call, 2);
	once = sample(call, 4);
	calls = (int)(SAMPLE_NS / (once > 1 ? once : 1));
	if (size == LARGE || calls < 1)
		calls = size == LARGE ? 2 : 1;
	else if (calls > MOST_CALLS)
		calls = MOST_CALLS;
	for (int i = 0; i < place_count; i++) {
		double here_ns;

		if (!go_to(places[i]))
			continue;
		here_ns = median(call, calls);
		if (least == 0 || here_ns < least)
			least = here_ns;
	}
	/* Without a choice of processor: any. */
	if (least == 0)
		least = median(call, calls);
	printf("%s\t%.1f\n", name, least);
}

static void measure_kind(const struct kind *kind)
{
	static const struct {
		const char *name;
		size_t size;
	} copies[] = { { "8 B", 8 }, { "64 KiB", 65536 }, { "16 MiB", LARGE } };
	char name[80];

	size = 0;
	if (kind->kernel && !kernel) {
		printf("# %s: not with this driver\n", kind->name);
		return;
	}
	if (!kind->copies)
		measure(kind->name, kind->call);
	for (size_t i = 0; kind->copies && i < sizeof(copies) / sizeof(copies[0]); i++) {
		size = copies[i].size;
		snprintf(name, sizeof(name), "%s, %s", kind->name, copies[i].name);
		measure(name, kind->call);
	}
}

/* ---- */

static void find(void *library)
{
#define X(name)                                                                                    \
	cuda.name = (__typeof__(name) *)dlsym(library, #name);                                     \
	if (!cuda.name) {                                                                          \
		printf("latency: the driver lacks %s\n", #name);                                   \
		exit(1);                                                                           \
	}
	FUNCTIONS(X)
#undef X
	cuda.cuModuleGetFunction =
		(__typeof__(cuda.cuModuleGetFunction))dlsym(library, "cuModuleGetFunction");
	cuda.cuLaunchKernel = (__typeof__(cuda.cuLaunchKernel))dlsym(library, "cuLaunchKernel");
}

static void prepare(void)
{
	CUcontext context;
	CUmodule module;
	int result;

	must_cuda(cuda.cuInit(0));
	must_cuda(cuda.cuCtxCreate_v2(&context, 0, 0));
	must_cuda(cuda.cuStreamCreate(&stream, NON_BLOCKED));
	must_cuda(cuda.cuEventCreate(&event, 0));
	must_cuda(cuda.cuMemAlloc_v2(&here, LARGE));
	must_cuda(cuda.cuMemAlloc_v2(&there, LARGE));
	must_cuda(cuda.cuMemHostAlloc(&pinned, LARGE, 0));
	pageable = malloc(LARGE);
	if (!pageable)
		exit(1);
	memset(pageable, 1, LARGE);
	memset(pinned, 2, LARGE);
	must_cuda(cuda.cuMemcpyHtoD_v2(here, pageable, LARGE));
	must_cuda(cuda.cuEventRecord(event, stream));
	must_cuda(cuda.cuEventSynchronize(event));
	if (!cuda.cuModuleGetFunction || !cuda.cuLaunchKernel)
		return;
	result = (int)cuda.cuModuleLoadData(&module, kernel_text);
	if (!result)
		result = cuda.cuModuleGetFunction(&kernel, module, "nothing");
	if (!result)
		result = cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
	if (result && result != CUDA_ERROR_NOT_SUPPORTED)
		printf("# the kernel cannot be launched: error %d\n", result);
	if (result)
		kernel = NULL;
}

/* Equal in every process. */
static void find_places(void)
{
	cpu_set_t allowed;
	int count, seen = 0;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		return; /* more than a set holds */
	count = CPU_COUNT(&allowed);
	place_count = count < PLACES ? count : PLACES;
	for (int cpu = 0, next = 0; cpu < CPU_SETSIZE && next < place_count; cpu++) {
		if (!CPU_ISSET(cpu, &allowed))
			continue;
		if (seen++ == next * count / place_count)
			places[next++] = cpu;
	}
}

int main(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	if (!library) {
		printf("latency: there is no driver\n");
		return SKIPPED;
	}
	find(library);
	find_places();
	prepare();
	printf("# peerpin: %s\n", dlsym(RTLD_DEFAULT, "peerpin_statistic") ? "yes" : "no");
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		measure_kind(&kinds[i]);
	must_cuda(cuda.cuMemFree_v2(here));
	must_cuda(cuda.cuMemFree_v2(there));
	must_cuda(cuda.cuMemFreeHost(pinned));
	return 0;
}
