/* SPDX-License-Identifier: BSD-3-Clause */
/* pools.c -- release thresholds of stream-ordered pools */
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

static CUmemoryPool pool_of(unsigned int own)
{
	return own ? make_pool() : default_pool();
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

static void a_pool_holds_memory_and_its_threshold_reads_as_the_program_s(unsigned int own_pool)
{
	CUmemoryPool pool;
	CUdeviceptr address;
	uint64_t seen = 7;

	begin();
	pool = pool_of(own_pool);
	require(threshold(pool) == 0 && raw_attribute(pool, THRESHOLD) == 0);
	if (own_pool)
		use(pool, UNIT);
	else
		require_cuda(cuMemAllocAsync(&address, UNIT, NULL));
	require(threshold(pool) == 0 && raw_attribute(pool, THRESHOLD) == LIMIT);
	if (!own_pool)
		require_cuda(cuMemFreeAsync(address, NULL));
	require(reserved(pool) == UNIT);
	require_cuda(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &seen));
	require(seen == 0);
	if (own_pool)
		require_cuda(cuMemPoolDestroy(pool));
	expect_no_errors();
}

static void without_a_limit_a_pool_holds_nothing(unsigned int own_pool)
{
	CUmemoryPool pool;

	begin();
	pool = pool_of(own_pool);
	use(pool, UNIT);
	require(raw_attribute(pool, THRESHOLD) == 0 && reserved(pool) == 0);
}

static void the_program_s_threshold_stays(unsigned int value)
{
	CUmemoryPool before, after, bypassed;

	begin();
	before = make_pool();
	require_cuda(
		raw.cuMemPoolSetAttribute(bypassed = make_pool(), THRESHOLD, &(uint64_t){ 9 }));
	use(bypassed, UNIT);
	require(threshold(bypassed) == 9);
	set_threshold(before, value);
	use(before, UNIT);
	require(threshold(before) == value && raw_attribute(before, THRESHOLD) == value);
	after = default_pool();
	use(after, UNIT);
	set_threshold(after, value);
	use(after, UNIT);
	require(threshold(after) == value && raw_attribute(after, THRESHOLD) == value);
}

/* A refused call changes nothing. */
static void errors_are_the_driver_s(unsigned int unused)
{
	CUmemoryPool pool;
	uint64_t value = 7;

	(void)unused;
	begin();
	pool = default_pool();
	use(pool, UNIT);
	require(cuMemPoolSetAttribute(pool, THRESHOLD, NULL) == CUDA_ERROR_INVALID_VALUE);
	require(cuMemPoolGetAttribute(pool, THRESHOLD, NULL) == CUDA_ERROR_INVALID_VALUE);
	require(cuMemPoolSetAttribute(NULL, THRESHOLD, &value) == CUDA_ERROR_INVALID_VALUE);
	require(cuMemPoolGetAttribute(NULL, THRESHOLD, &value) == CUDA_ERROR_INVALID_VALUE);
	require(cuMemPoolDestroy(pool) == CUDA_ERROR_INVALID_VALUE);
	require(threshold(pool) == 0 && raw_attribute(pool, THRESHOLD) == LIMIT && value == 7);
}

static void a_pool_that_takes_the_handle_of_another_is_raised(unsigned int unused)
{
	CUmemoryPool pool;

	(void)unused;
	begin();
	for (int i = 0; i < 100; i++) {
		pool = make_pool();
		if (i % 2)
			set_threshold(pool, 1);
		use(pool, UNIT);
		require(raw_attribute(pool, THRESHOLD) == (i % 2 ? 1 : LIMIT));
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

static void a_capture_is_left_alone(unsigned int mode)
{
	CUmemoryPool pool;
	CUstream captured;
	CUgraph graph;
	CUdeviceptr address;
	size_t seen;

	begin();
	pool = default_pool();
	require_cuda(cuStreamCreate(&captured, 1));
	require_cuda(cuStreamBeginCapture_v2(captured, mode));
	require_cuda(cuMemAllocAsync(&address, UNIT, captured));
	require_cuda(cuMemFreeAsync(address, captured));
	require_cuda(cuMemGetInfo_v2(&seen, NULL));
	require_cuda(cuStreamEndCapture(captured, &graph));
	require(raw_attribute(pool, THRESHOLD) == 0);
	use(pool, UNIT);
	require(raw_attribute(pool, THRESHOLD) == LIMIT);
	require_cuda(cuStreamBeginCapture_v2(captured, mode));
	require_cuda(cuMemGetInfo_v2(&seen, NULL));
	require_cuda(cuStreamEndCapture(captured, &graph));
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

const struct test pool_tests[] = {
	TEST(a_pool_holds_memory_and_its_threshold_reads_as_the_program_s, 0, KEEP),
	TEST(a_pool_holds_memory_and_its_threshold_reads_as_the_program_s, 1, KEEP),
	TEST(without_a_limit_a_pool_holds_nothing, 0, "PEERPIN_KEEP=0"),
	TEST(without_a_limit_a_pool_holds_nothing, 1, "PEERPIN_KEEP_HOST=64M"),
	TEST(the_program_s_threshold_stays, 0, KEEP),
	TEST(the_program_s_threshold_stays, 5, KEEP),
	TEST(errors_are_the_driver_s, 0, KEEP),
	TEST(a_pool_that_takes_the_handle_of_another_is_raised, 0, KEEP),
	TEST(held_memory_is_free_memory, 0, TIGHT),
	VARIANTS_3(a_capture_is_left_alone, KEEP),
	TEST(auto_is_shared_with_later_processes, 0,
	     "PEERPIN_KEEP=auto PEERPIN_SIM_MEMORY=64M OMPI_COMM_WORLD_RANK=0 "
	     "PMIX_NAMESPACE=keep-pools"),
	{ .name = NULL },
};
