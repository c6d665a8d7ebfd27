/* SPDX-License-Identifier: BSD-3-Clause */
/* pools.c -- release thresholds of stream-ordered pools, and PEERPIN_KEEP=auto */
#include "keep.h"
#include "../../vmm.h"

#define TIGHT	  "PEERPIN_KEEP=inf PEERPIN_SIM_MEMORY=64M"
#define LIMIT	  (64 * MIB)
#define THRESHOLD CU_MEMPOOL_ATTR_RELEASE_THRESHOLD

/* As keep_pools.c marks its thresholds. */
#define MARK 0x15bad

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
	require(threshold(pool) == 0 && raw_attribute(pool, THRESHOLD) == (LIMIT | MARK) &&
		value == 7);
}

static void a_pool_of_the_program_stays_as_it_is(unsigned int unused)
{
	CUmemoryPool pool;

	(void)unused;
	begin();
	pool = make_pool();
	use(pool, UNIT);
	require(raw_attribute(pool, THRESHOLD) == 0 && reserved(pool) == 0);
	set_threshold(pool, MARK);
	require(threshold(pool) == MARK);
	require_cuda(cuMemPoolDestroy(pool));
}

/* Before the first allocation and after it. */
static void the_program_s_threshold_stays(unsigned int unused)
{
	CUmemoryPool pool;

	(void)unused;
	begin();
	pool = default_pool();
	set_threshold(pool, 5);
	use(pool, UNIT);
	require(raw_attribute(pool, THRESHOLD) == 5 && threshold(pool) == 5);
	set_threshold(pool, 0);
	use(pool, UNIT);
	require(raw_attribute(pool, THRESHOLD) == 0);
}

/* The GPU has 64 MiB. */
static void held_memory_is_free_memory(unsigned int unused)
{
	CUmemGenericAllocationHandle handle;
	CUmemoryPool pool;
	size_t seen;

	(void)unused;
	begin();
	pool = default_pool();
	use(pool, 32 * MIB);
	require(reserved(pool) == 32 * MIB && free_bytes() == 32 * MIB);
	require_cuda(cuMemGetInfo_v2(&seen, NULL));
	require(seen == 64 * MIB);
	require(!reserved(pool) && free_bytes() == 64 * MIB);
	use(pool, 32 * MIB);
	require_cuda(cuMemCreate(&handle, 40 * MIB, &vmm_plain, 0));
	require(!reserved(pool) && free_bytes() == 24 * MIB);
	require_cuda(cuMemRelease(handle));
	use(pool, 32 * MIB);
	require(reserved(pool) == 32 * MIB);
	require_cuda(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &seen));
	require(!seen && !reserved(pool));
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
	/* The limit follows within 100 ms. */
	do {
		memory = allocate(14 * MIB);
		require_cuda(cuMemFree_v2(memory));
	} while (tag(memory));
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

/* Wants more than is left, though less than what the GPU has beside its allocations. It has kept
 * memory, or not. */
static void start_wanting(struct other *other, bool has_kept)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr memory;

	if (start_other(other))
		return;
	begin();
	if (has_kept)
		keep(UNIT);
	require_cuda(cuMemCreate(&handle, 8 * MIB, &vmm_plain, 0));
	other_waits(other);
	require(cuMemAlloc_v2(&memory, 60 * MIB) == CUDA_ERROR_OUT_OF_MEMORY);
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

static void memory_is_released_for_another_rank(unsigned int has_kept)
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
	/* For a time nothing is kept. */
	while (!own("kept_released"))
		give_up(false, allocate(UNIT));
	require(own("kept_bytes") == 0);
	while (!own("kept_bytes"))
		give_up(false, allocate(UNIT));
	require(own("kept_bytes") == UNIT);
}

/* An allocation releases where the context has no work. */
static void an_allocation_releases_for_another_rank(unsigned int unused)
{
	struct other wanting;

	(void)unused;
	start_wanting(&wanting, true);
	await_start(&wanting);
	begin();
	keep(4 * MIB);
	other_ends(&wanting);
	while (!own("kept_released"))
		allocate(4096);
	require(own("kept_bytes") == 0 && own("reused") == 0);
}

static void a_pool_is_released_for_another_rank(unsigned int unused)
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

#define SIZED "PEERPIN_KEEP=16M PEERPIN_SIM_MEMORY=64M OMPI_COMM_WORLD_RANK=0 PMIX_NAMESPACE=keep-"

const struct test pool_tests[] = {
	TEST(errors_are_the_driver_s, 0, "PEERPIN_KEEP=64M"),
	TEST(a_pool_of_the_program_stays_as_it_is, 0, KEEP),
	TEST(the_program_s_threshold_stays, 0, KEEP),
	TEST(held_memory_is_free_memory, 0, TIGHT),
	TEST(auto_keeps_up_to_half_of_what_is_free, 0, AUTO),
	TEST(auto_is_shared_by_the_processes_of_the_job, 3, IN_A_JOB "earlier"),
	TEST(memory_is_released_for_another_rank, 1, IN_A_JOB "keeping"),
	TEST(memory_is_released_for_another_rank, 0, IN_A_JOB "wanting"),
	TEST(memory_is_released_for_another_rank, 1, SIZED "sized"),
	TEST(an_allocation_releases_for_another_rank, 0, IN_A_JOB "allocating"),
	TEST(an_allocation_releases_for_another_rank, 0, SIZED "sized-allocating"),
	TEST(a_pool_is_released_for_another_rank, 0, IN_A_JOB "pools"),
	{ .name = NULL },
};
