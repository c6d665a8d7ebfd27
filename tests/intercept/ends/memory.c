/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.c -- frees by each call, in each state of the region; client MRs that outlive memory */
#include "ends.h"
#include "../../vmm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Regions without a waiter: from activate(), the worker's current one, and the marker's. */
struct scene {
	CUdeviceptr victim, marker;
	struct ibv_mr *mr; /* the victim's client MR; NULL: none */
	uint32_t key;	   /* 0: unknown */
	uint64_t living;   /* allocations after the free of the victim */
	CUcontext own;
};

/* ---- calls that allocate and free ---- */

static CUdeviceptr allocated_plainly(struct scene *scene)
{
	(void)scene;
	return allocate(UNIT);
}

static void end_freed(struct scene *scene)
{
	require_cuda(cuMemFree_v2(scene->victim));
}

static void set_access(CUdeviceptr address, CUmemAccess_flags flags)
{
	CUmemAccessDesc access = { .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 }, .flags = flags };

	require_cuda(cuMemSetAccess(address, UNIT, &access, 1));
}

static CUdeviceptr allocated_mapped(struct scene *scene)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr memory;

	(void)scene;
	require_cuda(cuMemAddressReserve(&memory, UNIT, 0, 0, 0));
	require_cuda(cuMemCreate(&handle, UNIT, &vmm_rdma, 0));
	require_cuda(cuMemMap(memory, UNIT, 0, handle, 0));
	require_cuda(cuMemRelease(handle));
	set_access(memory, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	return memory;
}

static void end_unmapped(struct scene *scene)
{
	require_cuda(cuMemUnmap(scene->victim, UNIT));
}

static void end_without_access(struct scene *scene)
{
	set_access(scene->victim, CU_MEM_ACCESS_FLAGS_PROT_NONE);
}

static CUdeviceptr allocated_in(CUcontext own)
{
	CUcontext popped;
	CUdeviceptr memory;

	require_cuda(cuCtxPushCurrent_v2(own));
	memory = allocate(UNIT);
	require_cuda(cuCtxPopCurrent_v2(&popped));
	return memory;
}

static CUdeviceptr allocated_in_context(struct scene *scene)
{
	CUcontext popped;

	require_cuda(cuCtxCreate_v2(&scene->own, 0, 0));
	require_cuda(cuCtxPopCurrent_v2(&popped));
	return allocated_in(scene->own);
}

static void end_with_context(struct scene *scene)
{
	require_cuda(cuCtxDestroy_v2(scene->own));
}

static CUdeviceptr allocated_in_primary(struct scene *scene)
{
	require_cuda(cuDevicePrimaryCtxRetain(&scene->own, 0));
	return allocated_in(scene->own);
}

static void end_with_reset(struct scene *scene)
{
	(void)scene;
	require_cuda(cuDevicePrimaryCtxReset_v2(0));
}

static void end_with_release(struct scene *scene)
{
	(void)scene;
	require_cuda(cuDevicePrimaryCtxRelease_v2(0));
}

static const struct way {
	CUdeviceptr (*allocated)(struct scene *scene);
	void (*end)(struct scene *scene);
} ways[] = {
	{ allocated_plainly, end_freed },	  { allocated_mapped, end_unmapped },
	{ allocated_mapped, end_without_access }, { allocated_in_context, end_with_context },
	{ allocated_in_primary, end_with_reset }, { allocated_in_primary, end_with_release },
};

/* ---- states of the victim's region ---- */

static void check_end(struct scene *scene, bool held)
{
	require(sim("live") == scene->living);
	require(own("pinned_bytes") == scene->living * UNIT);
	require(!scene->key || cannot_read(scene->key, scene->victim));
	require(own("internal_errors") == 0 && own("deregistrations_failed") == 0);
	require(own("revoked") == held);
	if (held)
		require(!ibv_dereg_mr(scene->mr) && own("late_deregistrations") == 1);
	require(sim("live") == scene->living && sim("dereg_mr") == sim("deregistrations"));
	require(!ibv_dealloc_pd(pd) && !ibv_close_device(device) && sim("live") == 0);
}

static void while_queued(unsigned int way)
{
	struct scene scene = { .living = 3 };
	CUdeviceptr busy = occupy_worker("hold", 1);
	uint64_t made = sim("registrations");

	scene.victim = ways[way].allocated(&scene);
	ways[way].end(&scene);
	require(sim("registrations") == made && own("cancelled") == 1);
	scene.marker = allocate(UNIT);
	set("hold", 0);
	/* The worker reaches the marker after the victim: afterwards it no longer touches the
	 * victim. */
	until(own("registrations_background") == 2);
	require(sim("registrations") == 3);
	require(!ibv_dereg_mr(registered(busy)) && !ibv_dereg_mr(registered(scene.marker)));
	require(own("hits") == 2);
	check_end(&scene, false);
}

static void while_in_flight(unsigned int way)
{
	struct scene scene = { .living = 1 };
	uint64_t before, dereg;

	activate();
	before = begun();
	dereg = sim("deregistrations");
	set("hold", 1);
	scene.victim = ways[way].allocated(&scene);
	until(begun() > before);
	require(sim("live") == 1);
	let_go_when_waiting();
	ways[way].end(&scene);
	/* The registration in flight completed and was deregistered. */
	require(sim("deregistrations") == dereg + 1 && own("never_used") == 1);
	check_end(&scene, false);
}

static void while_ready(unsigned int way)
{
	struct scene scene = { .living = 1 };

	activate();
	scene.victim = ways[way].allocated(&scene);
	until(own("registrations_background") == 1);
	scene.mr = registered(scene.victim);
	scene.key = scene.mr->rkey;
	require(own("hits") == 1 && can_read(scene.key, scene.victim) && !ibv_dereg_mr(scene.mr));
	require(can_read(scene.key, scene.victim));
	ways[way].end(&scene);
	check_end(&scene, false);
}

static void while_held(unsigned int way)
{
	struct scene scene = { .living = 1 };

	activate();
	scene.victim = ways[way].allocated(&scene);
	scene.mr = registered(scene.victim);
	scene.key = scene.mr->rkey;
	require(can_read(scene.key, scene.victim));
	/* Memory in use ends after the release: on hardware the kernel keeps the pages until then.
	 */
	set("outlive", ways[way].end == end_with_release);
	ways[way].end(&scene);
	check_end(&scene, true);
}

/* ---- memory without background registration ---- */

static void pool_memory_is_freed(unsigned int held)
{
	struct ibv_mr *mr;
	CUdeviceptr memory;
	CUcontext primary;
	uint32_t key;
	int fd = -1;

	require_cuda(cuDevicePrimaryCtxRetain(&primary, 0));
	activate();
	require_cuda(cuMemAllocAsync(&memory, UNIT, NULL));
	require_cuda(cuMemGetHandleForAddressRange(&fd, memory, UNIT,
						   CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	mr = ibv_reg_dmabuf_mr(pd, 0, UNIT, memory, fd, ACCESS);
	require(mr);
	close(fd);
	key = mr->rkey;
	require(own("requests") == 2 && own("bypassed") == 0 && can_read(key, memory));
	if (!held)
		require(!ibv_dereg_mr(mr) && can_read(key, memory));
	require_cuda(cuMemFreeAsync(memory, NULL));
	require(cannot_read(key, memory) && sim("live") == 1 && own("revoked") == held);
	if (held)
		require(!ibv_dereg_mr(mr) && own("late_deregistrations") == 1);
	require(!ibv_dealloc_pd(pd) && !ibv_close_device(device));
}

static void memory_is_freed_after_a_lost_capture(unsigned int unused)
{
	CUdeviceptr memory = allocate(UNIT);
	struct ibv_mr *mr = registered(memory);
	CUstream stream;
	CUgraph graph;

	(void)unused;
	require_cuda(cuStreamCreate(&stream, 1));
	require_cuda(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	require(cuCtxSynchronize() == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	require(cuMemFreeAsync(memory, stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	require(own("revoked") == 0 && own("frees") == 0);
	require(cuStreamEndCapture(stream, &graph) != CUDA_SUCCESS);
	require(can_read(mr->rkey, memory) && !ibv_dereg_mr(mr));
	require_cuda(cuMemFreeAsync(memory, stream));
	require(sim("live") == 0 && own("frees") == 1);
}

/* Not RDMA-capable: the library does not register it. */
static void opened_memory_is_closed(unsigned int unused)
{
	CUipcMemHandle handle;
	int to_child[2], to_parent[2];
	char byte = 0;
	CUdeviceptr memory;
	pid_t child;

	(void)unused;
	require(!pipe(to_child) && !pipe(to_parent));
	/* Before the library registers anything, so that the child is an ordinary process. */
	child = fork();
	require(child >= 0);
	if (!child) {
		alarm(TIME_OUT);
		set_up();
		memory = allocate(UNIT);
		require_cuda(cuIpcGetMemHandle(&handle, memory));
		require(write(to_parent[1], &handle, sizeof(handle)) == sizeof(handle));
		require(read(to_child[0], &byte, 1) == 1);
		require_cuda(cuMemFree_v2(memory));
		_exit(0);
	}
	set_up();
	activate();
	require(read(to_parent[0], &handle, sizeof(handle)) == sizeof(handle));
	require_cuda(cuIpcOpenMemHandle_v2(&memory, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	require(!ibv_dereg_mr(registered(memory)));
	require(own("bypassed_capability") + own("host_requests") == 1 && sim("live") == 1);
	require_cuda(cuIpcCloseMemHandle(memory));
	require(sim("live") == 1 && own("deregistrations") == 0 && own("internal_errors") == 0);
	require(write(to_child[1], &byte, 1) == 1 && await_child(child) == 0);
}

/* ---- client MRs of freed memory ---- */

static struct ibv_mr *revoked(void)
{
	CUdeviceptr memory = allocate(UNIT);
	struct ibv_mr *mr = registered(memory);

	require_cuda(cuMemFree_v2(memory));
	require(cannot_read(mr->rkey, memory) && sim("live") == 0);
	return mr;
}

static void a_revoked_handle_is_changed(unsigned int unused)
{
	struct ibv_mr *mr;
	uint32_t key;
	CUdeviceptr again;

	(void)unused;
	set_up();
	mr = revoked();
	key = mr->rkey;
	require(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			     IBV_ACCESS_REMOTE_READ) != 0);
	require(sim("live") == 0);
	again = allocate(UNIT);
	require(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, (void *)again, SIZE, 0));
	require(mr->rkey != key && can_read(mr->rkey, again) && cannot_read(key, again));
	require(!ibv_dereg_mr(mr) && own("late_deregistrations") == 0);
	require_cuda(cuMemFree_v2(again));
	require(sim("live") == 0 && own("revoked") == 1);
}

static void a_revoked_handle_outlives_its_device(unsigned int unused)
{
	struct ibv_mr *mr;
	CUdeviceptr memory;

	(void)unused;
	set_up();
	mr = revoked();
	require(!ibv_close_device(device));
	device = open_device(0);
	/* The kernel reuses handles; the client MR must not be taken for the new region's. */
	pd = ibv_alloc_pd(device);
	memory = allocate(UNIT);
	require(registered(memory));
	require(!ibv_dereg_mr(mr) && own("late_deregistrations") == 1);
	require(sim("live") == 1 && sim("deregistrations") == 1);
	require_cuda(cuMemFree_v2(memory));
	require(own("revoked") == 2 && sim("live") == 0);
}

/* malloc may place a client MR where a revoked one was. */
static void revoked_handles_are_unlimited(unsigned int unused)
{
	enum { MANY = 1000 };
	static struct ibv_mr *mr[MANY];

	(void)unused;
	set_up();
	for (int i = 0; i < MANY; i++)
		mr[i] = revoked();
	require(own("revoked") == MANY);
	for (int i = 0; i < MANY; i++)
		require(!ibv_dereg_mr(mr[i]));
	require(own("late_deregistrations") == MANY && sim("deregistrations") == MANY);
	require(!ibv_dealloc_pd(pd) && !ibv_close_device(device));
}

#define ALL "PEERPIN_PREREGISTER=all"

#define SCENE(name)                                                                                \
	static void name##_in_set_up(unsigned int way)                                             \
	{                                                                                          \
		set_up();                                                                          \
		name(way);                                                                         \
	}
SCENE(while_queued)
SCENE(while_in_flight)
SCENE(while_ready)
SCENE(while_held)
SCENE(pool_memory_is_freed)
SCENE(memory_is_freed_after_a_lost_capture)

#define IN_SET_UP(name, variant, settings)                                                         \
	{                                                                                          \
		name##_in_set_up, #name, variant, settings, 0, 0                                   \
	}
#define EACH_WAY(name)                                                                             \
	IN_SET_UP(name, 0, ALL), IN_SET_UP(name, 1, ALL), IN_SET_UP(name, 2, ALL),                 \
		IN_SET_UP(name, 3, ALL), IN_SET_UP(name, 4, ALL), IN_SET_UP(name, 5, ALL)

const struct test memory_tests[] = {
	EACH_WAY(while_queued),
	EACH_WAY(while_in_flight),
	EACH_WAY(while_ready),
	EACH_WAY(while_held),
	IN_SET_UP(pool_memory_is_freed, 0, ALL),
	IN_SET_UP(pool_memory_is_freed, 1, ALL),
	IN_SET_UP(memory_is_freed_after_a_lost_capture, 0, ALL),
	TEST(opened_memory_is_closed, 0, ALL),
	TEST(a_revoked_handle_is_changed, 0, NULL),
	TEST(a_revoked_handle_outlives_its_device, 0, NULL),
	TEST(revoked_handles_are_unlimited, 0, NULL),
	{ .name = NULL },
};
