/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.c -- frees by each call, in each state of the region; client MRs that outlive memory */
#include "ends.h"
#include "../../vmm.h"

struct scene {
	CUdeviceptr victim;
	struct ibv_mr *mr; /* the victim's client MR; NULL: none */
	uint32_t key;	   /* 0: unknown */
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

/* The region from activate() is left. */
static void check_end(struct scene *scene, bool held)
{
	require(sim("live") == 1 && own("pinned_bytes") == UNIT);
	require(!scene->key || cannot_read(scene->key, scene->victim));
	require(own("internal_errors") == 0 && own("deregistrations_failed") == 0);
	require(own("revoked") == held);
	if (held)
		require(!ibv_dereg_mr(scene->mr) && own("late_deregistrations") == 1);
	require(sim("live") == 1 && sim("dereg_mr") == sim("deregistrations"));
	require(!ibv_dealloc_pd(pd) && !ibv_close_device(device) && sim("live") == 0);
}

static void while_in_flight(unsigned int way)
{
	struct scene scene = { .mr = NULL };
	uint64_t before, dereg;

	set_up();
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

static void while_held(unsigned int way)
{
	struct scene scene = { .mr = NULL };

	set_up();
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

static void memory_is_freed_after_a_lost_capture(unsigned int unused)
{
	CUdeviceptr memory;
	struct ibv_mr *mr;
	CUstream stream;
	CUgraph graph;

	(void)unused;
	set_up();
	memory = allocate(UNIT);
	mr = registered(memory);
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

#define ALL "PEERPIN_PREREGISTER=auto"

#define EACH_WAY(name)                                                                             \
	TEST(name, 0, ALL), TEST(name, 1, ALL), TEST(name, 2, ALL), TEST(name, 3, ALL),            \
		TEST(name, 4, ALL), TEST(name, 5, ALL)

const struct test memory_tests[] = {
	EACH_WAY(while_in_flight),
	EACH_WAY(while_held),
	TEST(memory_is_freed_after_a_lost_capture, 0, ALL),
	TEST(a_revoked_handle_is_changed, 0, NULL),
	{ .name = NULL },
};
