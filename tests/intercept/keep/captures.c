/* SPDX-License-Identifier: BSD-3-Clause */
/* captures.c -- during a capture frees and allocations are the driver's, and so is the capture's
 * end
 */
#include "keep.h"

#include <string.h>

#define SCENE_SIZE (3 * UNIT)

enum act { FREES, FREES_HOST, FREES_KEPT, FREES_NOTHING, ALLOCATES, ALLOCATES_HOST, ACTS };
enum actor { CAPTURER, OTHER, RELAXED_OTHER, ACTORS };

/* One call during a capture. */
struct scene {
	const struct functions *functions;
	enum act act;
	CUdeviceptr address, host, gone;
	CUresult result, end;
	bool stored; /* an allocation has stored an address */
};

static struct functions client;

static void *act(void *argument)
{
	struct scene *scene = argument;
	const struct functions *of = scene->functions;
	CUdeviceptr address = 0;
	void *host = NULL;

	switch (scene->act) {
	case FREES:
		scene->result = of->cuMemFree_v2(scene->address);
		break;
	case FREES_HOST:
		scene->result = of->cuMemFreeHost(pointer_to(scene->host));
		break;
	case FREES_KEPT:
		scene->result = of->cuMemFree_v2(scene->gone);
		break;
	case FREES_NOTHING:
		scene->result = of->cuMemFree_v2(0);
		break;
	case ALLOCATES:
		scene->result = of->cuMemAlloc_v2(&address, SCENE_SIZE);
		break;
	case ALLOCATES_HOST:
		scene->result = of->cuMemHostAlloc(&host, SCENE_SIZE, 0);
		break;
	case ACTS:
		break;
	}
	scene->stored = address || host;
	return NULL;
}

static void *act_on_a_thread(void *scene)
{
	require_cuda(raw.cuCtxSetCurrent(context));
	return act(scene);
}

static void *act_relaxed(void *scene)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	require_cuda(raw.cuThreadExchangeStreamCaptureMode(&mode));
	return act_on_a_thread(scene);
}

static void play(struct scene *scene, CUstreamCaptureMode mode, enum actor actor)
{
	pthread_t thread;
	CUstream stream;
	CUgraph graph;

	require_cuda(cuStreamCreate(&stream, 1));
	require_cuda(cuStreamBeginCapture_v2(stream, mode));
	if (actor == CAPTURER) {
		act(scene);
	} else {
		require(!pthread_create(&thread, NULL,
					actor == OTHER ? act_on_a_thread : act_relaxed, scene));
		pthread_join(thread, NULL);
	}
	scene->end = cuStreamEndCapture(stream, &graph);
	if (scene->end == CUDA_SUCCESS)
		require_cuda(cuGraphDestroy(graph));
	require_cuda(cuStreamDestroy_v2(stream));
}

/* Played by the driver's functions first, then by the client's with memory kept before. */
static void a_capture_goes_as_without_peerpin(unsigned int mode)
{
	struct scene plain = { .functions = &raw }, kept = { .functions = &client };
	unsigned int scenes = 0;
	CUdeviceptr memory;
	uint64_t before;

	begin();
	client.cuMemFree_v2 = cuMemFree_v2;
	client.cuMemFreeHost = cuMemFreeHost;
	client.cuMemAlloc_v2 = cuMemAlloc_v2;
	client.cuMemHostAlloc = cuMemHostAlloc;
	for (int one = 0; one < ACTS * ACTORS; one++, scenes++) {
		plain.act = kept.act = one % ACTS;
		require_cuda(raw.cuMemAlloc_v2(&plain.address, UNIT));
		plain.host = address_of(NULL);
		require_cuda(raw.cuMemHostAlloc((void **)&plain.host, UNIT, 0));
		require_cuda(raw.cuMemAlloc_v2(&memory, UNIT));
		require_cuda(raw.cuMemFree_v2(memory));
		plain.gone = memory;
		play(&plain, mode, one / ACTS);
		kept.address = allocate(UNIT);
		kept.host = allocate_host(UNIT);
		kept.gone = keep(SCENE_SIZE);
		keep_host(SCENE_SIZE);
		before = own("kept");
		play(&kept, mode, one / ACTS);
		require(kept.result == plain.result && kept.end == plain.end);
		require(kept.stored == plain.stored);
		/* A free by the driver, not kept; a refused one costs nothing. */
		require(own("kept") == before && own("reused") == 0);
		if (kept.act == FREES && kept.result == CUDA_SUCCESS)
			require(!tag(kept.address) && query_tag(kept.address) == 0);
		else
			require(query_tag(kept.address) == tag(kept.address) && tag(kept.address));
		release_all();
	}
	require(scenes == ACTS * ACTORS);
	expect_no_kept();
}

static void after_a_capture_memory_is_kept_again(unsigned int unused)
{
	struct scene scene = { .functions = &raw, .act = FREES_NOTHING };
	CUdeviceptr memory;

	(void)unused;
	begin();
	memory = keep(UNIT);
	play(&scene, CU_STREAM_CAPTURE_MODE_RELAXED, CAPTURER);
	require(scene.end == CUDA_SUCCESS && scene.result == CUDA_SUCCESS);
	require(allocate(UNIT) == memory && own("reused") == 1);
	play(&scene, CU_STREAM_CAPTURE_MODE_GLOBAL, CAPTURER);
	require(scene.end == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	require_cuda(cuMemFree_v2(memory));
	require(own("kept") == 2 && allocate(UNIT) == memory && own("reused") == 2);
	expect_no_errors();
}

/* ---- captures that begin while a free waits ---- */

static _Atomic bool may_end, waits, returned;

static void work(void *nothing)
{
	(void)nothing;
	waits = true;
	until(may_end);
}

static void *free_with_work(void *memory)
{
	CUstream stream;

	require_cuda(cuCtxSetCurrent(context));
	require_cuda(cuStreamCreate(&stream, 1));
	require_cuda(cuLaunchHostFunc(stream, work, NULL));
	require_cuda(cuMemFree_v2((uintptr_t)memory));
	returned = true;
	return NULL;
}

static CUresult begin_capture(unsigned int call, CUstream stream, CUstreamCaptureMode mode)
{
	CUgraph graph;

	switch (call) {
	case 0:
		return cuStreamBeginCapture(stream);
	case 1:
		return cuStreamBeginCapture_ptsz(stream);
	case 2:
		return cuStreamBeginCapture_v2(stream, mode);
	case 3:
		return cuStreamBeginCapture_v2_ptsz(stream, mode);
	case 4:
		require_cuda(cuGraphCreate(&graph, 0));
		return cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0, mode);
	default:
		require_cuda(cuGraphCreate(&graph, 0));
		return cuStreamBeginCaptureToGraph_ptsz(stream, graph, NULL, NULL, 0, mode);
	}
}

/* The work may wait for the thread that captures. */
static void a_capture_neither_waits_for_a_waiting_free_nor_is_lost(unsigned int blocking)
{
	CUdeviceptr memory;
	pthread_t thread;
	CUstream stream;
	CUgraph graph;

	begin();
	require_cuda(cuStreamCreate(&stream, !blocking));
	memory = allocate(UNIT);
	require(!pthread_create(&thread, NULL, free_with_work, pointer_to(memory)));
	until(waits && own("kept_bytes") == 0 && query_tag(memory) == 0);
	for (unsigned int one = 0; one < 18; one++) {
		require_cuda(begin_capture(one % 6, stream, one / 6));
		require_cuda(cuStreamEndCapture(stream, &graph));
		require_cuda(cuGraphDestroy(graph));
	}
	require(!returned);
	may_end = true;
	pthread_join(thread, NULL);
	require(own("kept") == 1 && allocate(UNIT) == memory && own("reused") == 1);
	expect_no_errors();
}

static void *destroy(void *of)
{
	require_cuda(cuCtxDestroy_v2(of));
	return NULL;
}

/* The end of another context, with kept memory and without. */
static void a_release_disturbs_no_capture(unsigned int kept)
{
	pthread_t thread;
	CUcontext second;
	CUstream stream;
	CUgraph graph;

	begin();
	require_cuda(cuCtxCreate_v2(&second, 0, 0));
	if (kept)
		keep(UNIT);
	require_cuda(cuCtxSetCurrent(context));
	require_cuda(cuStreamCreate(&stream, 1));
	require_cuda(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	require(!pthread_create(&thread, NULL, destroy, second));
	pthread_join(thread, NULL);
	require(own("kept_released") == kept);
	require_cuda(cuStreamEndCapture(stream, &graph));
	expect_no_kept();
}

const struct test capture_tests[] = {
	VARIANTS_3(a_capture_goes_as_without_peerpin, KEEP),
	TEST(a_capture_goes_as_without_peerpin, 0, KEEP_PLAIN),
	TEST(after_a_capture_memory_is_kept_again, 0, KEEP),
	TEST(a_capture_neither_waits_for_a_waiting_free_nor_is_lost, 0, KEEP),
	TEST(a_capture_neither_waits_for_a_waiting_free_nor_is_lost, 1, KEEP),
	TEST(a_release_disturbs_no_capture, 0, KEEP),
	TEST(a_release_disturbs_no_capture, 1, KEEP),
	{ .name = NULL },
};
