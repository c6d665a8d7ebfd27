/* SPDX-License-Identifier: BSD-3-Clause */
/* keep_captures.c -- captures of streams while other threads allocate and free
 *
 * keep_captures gpu|host COUNT: COUNT captures, beside at least half as many frees, by each call
 * that begins one, in each mode, of blocking and non-blocking streams. Meanwhile THREADS threads
 * free memory of that kind, with work on it, and check what they find in it. None of this disturbs
 * a capture without peerpin, so that none may be lost with it. Some of the graphs run, and have to
 * write what was captured.
 */
#include <pthread.h>
#include <string.h>

#include "keep.h"
#include "statistic.h"

#define THREADS 3
#define MODES	3
#define WORDS	1024 /* a graph writes */
#define RUN	64   /* one of so many graphs runs */
#define MIB	((size_t)1 << 20)
#define LARGEST (2 * MIB)
#define RUNTIME 12030 /* the CUDA version that a look-up asks for */

static CUcontext context;
static _Atomic bool ends;
static _Atomic uint64_t frees, wrong;

/* ---- captures ---- */

static CUgraph into;
static __typeof__(cuStreamBeginCapture_v2) *by_dlsym, *by_proc_address, *by_ptsz;
static __typeof__(cuStreamBeginCaptureToGraph) *to_graph;

static CUresult begin_linked(CUstream stream, CUstreamCaptureMode mode)
{
	return cuStreamBeginCapture_v2(stream, mode);
}

static CUresult begin_by_dlsym(CUstream stream, CUstreamCaptureMode mode)
{
	return by_dlsym(stream, mode);
}

static CUresult begin_by_proc_address(CUstream stream, CUstreamCaptureMode mode)
{
	return by_proc_address(stream, mode);
}

static CUresult begin_by_ptsz(CUstream stream, CUstreamCaptureMode mode)
{
	return by_ptsz(stream, mode);
}

static CUresult begin_to_graph(CUstream stream, CUstreamCaptureMode mode)
{
	must_cuda(cuGraphCreate(&into, 0));
	return to_graph(stream, into, NULL, NULL, 0, mode);
}

static CUresult (*begins[])(CUstream stream, CUstreamCaptureMode mode) = {
	begin_linked, begin_by_dlsym, begin_by_proc_address, begin_by_ptsz, begin_to_graph,
};
static unsigned int begins_known;

/* A driver before CUDA 12.3 lacks the last one. */
static void find_begins(void)
{
	CUdriverProcAddressQueryResult status;

	by_dlsym = (__typeof__(by_dlsym))dlsym(RTLD_DEFAULT, "cuStreamBeginCapture_v2");
	by_ptsz = (__typeof__(by_ptsz))dlsym(RTLD_DEFAULT, "cuStreamBeginCapture_v2_ptsz");
	to_graph = (__typeof__(to_graph))dlsym(RTLD_DEFAULT, "cuStreamBeginCaptureToGraph");
	must_cuda(cuGetProcAddress_v2("cuStreamBeginCapture", (void **)&by_proc_address, RUNTIME, 0,
				      &status));
	must(by_dlsym && by_ptsz && by_proc_address);
	begins_known = sizeof(begins) / sizeof(begins[0]) - !to_graph;
}

/* The simulated driver records no work. */
static bool graphs_run(void)
{
	return !dlsym(RTLD_DEFAULT, "sim_driver_subscribe_work");
}

static bool writes(CUgraph graph, CUstream stream, CUdeviceptr to, unsigned int *copy,
		   unsigned int value)
{
	CUgraphExec exec;
	bool same = true;

	must_cuda(cuGraphInstantiateWithFlags(&exec, graph, 0));
	must_cuda(cuMemsetD32Async(to, ~value, WORDS, stream));
	must_cuda(cuGraphLaunch(exec, stream));
	must_cuda(cuMemcpyDtoHAsync_v2(copy, to, WORDS * sizeof(*copy), stream));
	must_cuda(cuStreamSynchronize(stream));
	for (unsigned int i = 0; i < WORDS; i++)
		same &= copy[i] == value;
	must_cuda(cuGraphExecDestroy(exec));
	return same;
}

static bool capture_all(unsigned int count)
{
	unsigned int lost = 0, ran = 0, differ = 0, i, *copy;
	bool run = graphs_run();
	CUstream streams[2];
	CUdeviceptr to;
	CUgraph graph;

	for (unsigned int i = 0; i < 2; i++)
		must_cuda(cuStreamCreate(&streams[i], i));
	must_cuda(cuMemAlloc_v2(&to, WORDS * sizeof(*copy)));
	must_cuda(cuMemHostAlloc((void **)&copy, WORDS * sizeof(*copy), 0));
	for (i = 0; i < count; i++) {
		CUstream stream = streams[i % 2];

		/* So that captures and frees meet, whichever is quicker. */
		while (frees < i / 2)
			sched_yield();
		must_cuda(begins[i / 6 % begins_known](stream, i / 2 % MODES));
		if (cuMemsetD32Async(to, i, WORDS, stream) != CUDA_SUCCESS ||
		    cuStreamEndCapture(stream, &graph) != CUDA_SUCCESS) {
			cuStreamEndCapture(stream, &graph);
			lost++;
			continue;
		}
		if (run && i % RUN == 0) {
			ran++;
			differ += !writes(graph, stream, to, copy, i);
		}
		must_cuda(cuGraphDestroy(graph));
	}
	printf("%u of %u captures lost, %u of %u graphs wrong\n", lost, i, differ, ran);
	return !lost && !differ;
}

/* ---- frees ---- */

struct worker {
	pthread_t thread;
	unsigned int number;
	bool host;
	CUstream stream;
	unsigned int *copy;
	CUdeviceptr on_gpu;
};

static void compare(const unsigned int *words, size_t size, unsigned int value)
{
	uint64_t differ = 0;

	for (size_t i = 0; i < size / sizeof(*words); i++)
		differ += words[i] != value;
	wrong += differ;
}

/* The last fill may run when the memory is freed, and must have ended at its next use. */
static void use_gpu(struct worker *worker, size_t size, unsigned int value)
{
	CUdeviceptr address;

	must_cuda(cuMemAlloc_v2(&address, size));
	must_cuda(cuMemsetD32Async(address, value, size / 4, worker->stream));
	must_cuda(cuMemcpyDtoHAsync_v2(worker->copy, address, size, worker->stream));
	must_cuda(cuStreamSynchronize(worker->stream));
	compare(worker->copy, size, value);
	must_cuda(cuMemsetD32Async(address, ~value, size / 4, worker->stream));
	must_cuda(cuMemFree_v2(address));
}

/* The copy may run when the memory is freed, and must have ended at its next use. */
static void use_host(struct worker *worker, size_t size, unsigned int value)
{
	unsigned int *address;

	must_cuda(cuMemHostAlloc((void **)&address, size, 0));
	for (size_t i = 0; i < size / sizeof(*address); i++)
		address[i] = value;
	must_cuda(cuMemcpyHtoDAsync_v2(worker->on_gpu, address, size, worker->stream));
	must_cuda(cuMemFreeHost(address));
	must_cuda(cuMemcpyDtoHAsync_v2(worker->copy, worker->on_gpu, size, worker->stream));
	must_cuda(cuStreamSynchronize(worker->stream));
	compare(worker->copy, size, value);
}

static void *use_memory(void *argument)
{
	static const size_t sizes[] = { 4096, 64 << 10, MIB, LARGEST };
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	struct worker *worker = argument;

	must_cuda(cuCtxSetCurrent(context));
	must_cuda(cuThreadExchangeStreamCaptureMode(&mode));
	for (unsigned int i = 0; !ends; i++) {
		unsigned int value = worker->number << 28 | (i & 0xfffffff);

		/* The first size has the most rounds: they are the quickest. */
		(worker->host ? use_host : use_gpu)(worker, sizes[i % 16 < 13 ? 0 : i % 16 - 12],
						    value);
		frees++;
	}
	return NULL;
}

static void begin_worker(struct worker *worker)
{
	must_cuda(cuStreamCreate(&worker->stream, NON_BLOCKING));
	must_cuda(cuMemHostAlloc((void **)&worker->copy, LARGEST, 0));
	must_cuda(cuMemAlloc_v2(&worker->on_gpu, LARGEST));
	must(!pthread_create(&worker->thread, NULL, use_memory, worker));
}

int main(int argc, char **argv)
{
	struct worker workers[THREADS];
	bool good;

	must(argc == 3);
	must_cuda(cuInit(0));
	must_cuda(cuCtxCreate_v2(&context, 0, 0));
	find_begins();
	for (unsigned int i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .number = i + 1, .host = !strcmp(argv[1], "host") };
		begin_worker(&workers[i]);
	}
	while (frees < 100)
		sched_yield();
	good = capture_all((unsigned int)strtoul(argv[2], NULL, 10));
	ends = true;
	for (unsigned int i = 0; i < THREADS; i++)
		must(!pthread_join(workers[i].thread, NULL));
	printf("%llu words wrong in %llu allocations\n", (unsigned long long)wrong,
	       (unsigned long long)frees);
	return !good || wrong;
}
