/* SPDX-License-Identifier: BSD-3-Clause */
/* pools.c -- release thresholds of stream-ordered pools, and PEERPIN_KEEP=auto */
#include "keep.h"
#include "../../vmm.h"

#define TIGHT	  "PEERPIN_KEEP=inf PEERPIN_SIM_MEMORY=64M"
#define LIMIT	  (64 * MIB)
#define THRESHOLD CU_MEMPOOL_ATTR_RELEASE_THRESHOLD

static CUmemoryPool make_pool(void)
{
	CUmemPoolProps properties = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemoryPool pool;

	require_cuda(cuMemPoolCreate(&pool, &properties));
	return pool;
}

static CUmemoryPool default_pool(void)
{
	CUmemoryPool pool;

	require_cuda(cuDeviceGetDefaultMemPool(&pool, 0));
	return pool;
}

static uint64_t raw_attribute(CUmemoryPool pool, CUmemPool_attribute attribute)
{
	uint64_t value = 7;

	require_cuda(raw.cuMemPoolGetAttribute(pool, attribute, &value));
	return value;
}

static uint64_t reserved(CUmemoryPool pool)
{
	return raw_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
}

static uint64_t threshold(CUmemoryPool pool)
{
	uint64_t value = 7;

	require_cuda(cuMemPoolGetAttribute(pool, THRESHOLD, &value));
	return value;
}

static void set_threshold(CUmemoryPool pool, uint64_t value)
{
	require_cuda(cuMemPoolSetAttribute(pool, THRESHOLD, &value));
}

static void use(CUmemoryPool pool, size_t size)
{
	CUdeviceptr address;

	require_cuda(cuMemAllocFromPoolAsync(&address, size, pool, NULL));
	require_cuda(cuMemFreeAsync(address, NULL));
	require_cuda(cuStreamSynchronize(NULL));
}

/* A refused call changes nothing. */
static void errors_are_the_driver_s(unsigned int unused)
{
	CUmemoryPool pool;
	uint64_t value = 7;
	CUstream stream;
	CUgraph graph;

	(void)unused;
	begin();
	pool = default_pool();
	use(pool, UNIT);
	require(cuMemPoolSetAttribute(pool, THRESHOLD, NULL) == CUDA_ERROR_INVALID_VALUE);
	require(cuMemPoolGetAttribute(pool, THRESHOLD, NULL) == CUDA_ERROR_INVALID_VALUE);
	require(cuMemPoolSetAttribute(NULL, THRESHOLD, &value) == CUDA_ERROR_INVALID_VALUE);
	require(cuMemPoolGetAttribute(NULL, THRESHOLD, &value) == CUDA_ERROR_INVALID_VALUE);
	require(cuMemPoolDestroy(pool) == CUDA_ERROR_INVALID_VALUE);
	require_cuda(cuStreamCreate(&stream, 1));
	require_cuda(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	require(cuMemPoolSetAttribute(pool, THRESHOLD, &value) ==
		CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	require(cuStreamEndCapture(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	require(threshold(pool) == 0 && raw_attribute(pool, THRESHOLD) == LIMIT && value == 7);
}

/* More than peerpin records at a time, and some with the handle of an earlier one. */
static void a_pool_after_destroyed_ones_is_raised(unsigned int unused)
{
	CUmemoryPool pool;

	(void)unused;
	begin();
	for (int i = 0; i < 100; i++) {
		pool = make_pool();
		use(pool, UNIT);
		require(raw_attribute(pool, THRESHOLD) == LIMIT);
		require_cuda(cuMemPoolDestroy(pool));
	}
}

/* The GPU has 64 MiB. */
static void held_memory_is_free_memory(unsigned int unused)
{
	CUmemGenericAllocationHandle handle;
	CUmemoryPool pool, own;
	CUdeviceptr address;
	size_t seen;

	(void)unused;
	begin();
	pool = default_pool();
	own = make_pool();
	use(pool, 32 * MIB);
	require(reserved(pool) == 32 * MIB && free_bytes() == 32 * MIB);
	require_cuda(cuMemGetInfo_v2(&seen, NULL));
	require(seen == 64 * MIB);
	require_cuda(cuMemAlloc_v2(&address, 40 * MIB));
	require_cuda(cuMemFree_v2(address));
	release_all();
	use(pool, 32 * MIB);
	use(own, 32 * MIB);
	require(free_bytes() == 0);
	require_cuda(cuMemCreate(&handle, 40 * MIB, &vmm_plain, 0));
	require(!reserved(pool) && !reserved(own) && free_bytes() == 24 * MIB);
	require_cuda(cuMemRelease(handle));
	set_threshold(own, UINT64_MAX);
	use(own, 64 * MIB);
	require(cuMemCreate(&handle, 40 * MIB, &vmm_plain, 0) == CUDA_ERROR_OUT_OF_MEMORY);
	require(reserved(own) == 64 * MIB);
	expect_no_errors();
}

/* ---- PEERPIN_KEEP=auto: of 64 MiB ---- */

/* Freed memory counts as free. */
static void auto_keeps_up_to_half_of_what_is_free(unsigned int unused)
{
	CUdeviceptr live, memory;

	(void)unused;
	begin();
	keep(32 * MIB);
	release_all();
	memory = allocate(34 * MIB);
	require_cuda(cuMemFree_v2(memory));
	require(!tag(memory));
	live = allocate(40 * MIB);
	memory = allocate(14 * MIB);
	require_cuda(cuMemFree_v2(memory));
	require(!tag(memory));
	keep(12 * MIB);
	require(own("kept_bytes") == 12 * MIB);
	require_cuda(cuMemFree_v2(live));
	expect_no_errors();
}

/* Other ranks of the job have used this GPU, and are live. */
static void auto_is_shared_by_the_processes_of_the_job(unsigned int others)
{
	CUdeviceptr memory;
	int used[2], ends[2];
	char byte;

	require(!pipe(used) && !pipe(ends));
	for (unsigned int i = 0; i < others; i++) {
		if (!fork()) {
			close(ends[1]);
			begin();
			keep(UNIT);
			require(write(used[1], "", 1) == 1 && !read(ends[0], &byte, 1));
			_exit(0);
		}
		require(read(used[0], &byte, 1) == 1);
	}
	begin();
	memory = allocate(64 * MIB / 2 / (others + 1) + UNIT);
	require_cuda(cuMemFree_v2(memory));
	require(!tag(memory));
	keep(64 * MIB / 2 / (others + 1) / UNIT * UNIT);
}

/* Another rank of the job uses the GPU later. */
static void auto_is_shared_with_later_processes(unsigned int unused)
{
	CUmemoryPool pool;
	uint64_t alone;
	int begins[2];
	pid_t other;
	char byte;

	(void)unused;
	require(!pipe(begins));
	other = fork();
	if (!other) {
		require(read(begins[0], &byte, 1) == 1);
		begin();
		keep(UNIT);
		_exit(0);
	}
	begin();
	pool = default_pool();
	use(pool, UNIT);
	alone = raw_attribute(pool, THRESHOLD);
	require(alone >= 30 * MIB && alone <= 32 * MIB);
	require(write(begins[1], "", 1) == 1 && await_child(other) == 0);
	for (int i = 0; i < 4; i++)
		use(pool, UNIT);
	require(threshold(pool) == 0 && raw_attribute(pool, THRESHOLD) == alone / 2);
	set_threshold(pool, 5);
	for (int i = 0; i < 64; i++)
		use(pool, UNIT);
	require(raw_attribute(pool, THRESHOLD) == 5);
}

/* Another rank of the job: it waits before its last step. */
struct other {
	pid_t process;
	int started[2], go[2];
};

/* False in the other rank. Call before begin(). */
static bool start_other(struct other *other)
{
	require(!pipe(other->started) && !pipe(other->go));
	other->process = fork();
	if (other->process)
		return true;
	close(other->go[1]);
	alarm(300);
	return false;
}

static void other_waits(const struct other *other)
{
	char byte;

	require(write(other->started[1], "", 1) == 1 && read(other->go[0], &byte, 1) == 1);
}

static void await_start(const struct other *other)
{
	char byte;

	require(read(other->started[0], &byte, 1) == 1);
}

static void other_ends(const struct other *other)
{
	require(write(other->go[1], "", 1) == 1 && await_child(other->process) == 0);
}

/* Wants more than is left. It has kept memory, or not. */
static void start_wanting(struct other *other, bool has_kept)
{
	CUdeviceptr memory;

	if (start_other(other))
		return;
	begin();
	if (has_kept)
		keep(UNIT);
	allocate(8 * MIB);
	other_waits(other);
	require(cuMemAlloc_v2(&memory, 60 * MIB) == CUDA_ERROR_OUT_OF_MEMORY);
	require(!own("kept_bytes"));
	_exit(0);
}

/* Gets what it wants. */
static void start_joining(struct other *other)
{
	if (start_other(other))
		return;
	other_waits(other);
	begin();
	keep(UNIT);
	_exit(0);
}

static void auto_releases_for_another_rank(unsigned int has_kept)
{
	struct other wanting, joining;

	start_wanting(&wanting, has_kept);
	start_joining(&joining);
	await_start(&wanting);
	begin();
	keep(4 * MIB);
	await_start(&joining);
	other_ends(&joining);
	for (int i = 0; i < 1000; i++)
		keep(UNIT);
	require(own("kept_bytes") == 4 * MIB + UNIT && !own("kept_released"));
	other_ends(&wanting);
	while (!own("kept_released"))
		keep(UNIT);
	require(own("kept_released") == 2 && own("kept_bytes") == UNIT);
}

static void auto_releases_pools_for_another_rank(unsigned int unused)
{
	struct other wanting;
	CUmemoryPool pool;

	(void)unused;
	start_wanting(&wanting, true);
	await_start(&wanting);
	begin();
	pool = default_pool();
	use(pool, 8 * MIB);
	other_ends(&wanting);
	while (reserved(pool) >= 8 * MIB)
		use(pool, UNIT);
}

#define AUTO	 "PEERPIN_KEEP=auto PEERPIN_SIM_MEMORY=64M"
#define IN_A_JOB AUTO " OMPI_COMM_WORLD_RANK=0 PMIX_NAMESPACE=keep-"

const struct test pool_tests[] = {
	TEST(errors_are_the_driver_s, 0, KEEP),
	TEST(a_pool_after_destroyed_ones_is_raised, 0, KEEP),
	TEST(held_memory_is_free_memory, 0, TIGHT),
	TEST(auto_keeps_up_to_half_of_what_is_free, 0, AUTO),
	TEST(auto_is_shared_by_the_processes_of_the_job, 3, IN_A_JOB "earlier"),
	TEST(auto_is_shared_with_later_processes, 0, IN_A_JOB "later"),
	TEST(auto_releases_for_another_rank, 1, IN_A_JOB "keeping"),
	TEST(auto_releases_for_another_rank, 0, IN_A_JOB "wanting"),
	TEST(auto_releases_pools_for_another_rank, 0, IN_A_JOB "pools"),
	{ .name = NULL },
};
