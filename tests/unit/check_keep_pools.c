/* SPDX-License-Identifier: BSD-3-Clause */
/* check_keep_pools.c -- release thresholds and unused memory of default pools */
#include <pthread.h>

#include "base/job_file.h"
#include "job_fixture.h"
#include "keep_fixture.h"

#define POOL  ((CUmemoryPool)HOME)
#define LIMIT (64 * MIB)
#define OWN   7

static uint64_t threshold;	  /* the driver's */
static unsigned int sets;	  /* by peerpin */
static uint64_t reserved, in_use; /* in_use: and what cannot be returned beside it */
static bool is_canceled;

static CUresult get_default(CUmemoryPool *pool, CUdevice device)
{
	call();
	ck_assert_int_eq(device, 0);
	*pool = POOL;
	return CUDA_SUCCESS;
}

static CUresult get(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
	call();
	ck_assert(pool == POOL);
	*(uint64_t *)value = attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD	 ? threshold
			     : attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT ? reserved
										 : 0;
	if (is_canceled)
		pthread_testcancel();
	return CUDA_SUCCESS;
}

static CUresult set(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
	call();
	ck_assert(pool == POOL && attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
	threshold = *(uint64_t *)value;
	sets++;
	return CUDA_SUCCESS;
}

static CUresult trim(CUmemoryPool pool, size_t bytes)
{
	call();
	ck_assert(pool == POOL && !bytes);
	reserved = in_use;
	return CUDA_SUCCESS;
}

static void set_up_pools(const char *keep, const char *keep_host)
{
	set_up_with(keep, keep_host);
	standin_driver.cuDeviceGetDefaultMemPool = get_default;
	standin_driver.cuMemPoolTrimTo = trim;
	standin_driver.cuMemPoolGetAttribute = get;
	standin_driver.cuMemPoolSetAttribute = set;
}

static void set_up(void)
{
	set_up_pools("64M", "0");
}

CASE(keep_pools, .set_up = set_up);

static uint64_t read_threshold(CUmemoryPool pool)
{
	uint64_t value = threshold;

	keep_pool_read(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value);
	return value;
}

static void use_pool(bool described)
{
	static uint64_t base = HOME;

	standin_allocate(base += BLOCK, 4096, NULL, true);
	if (described)
		standin_describe(base, 0, false);
	memory_allocated(ALLOCATION_POOL, base, 4096);
}

static void set_up_host_alone(void)
{
	set_up_pools("0", "64M");
}

CASE(host_alone, .set_up = set_up_host_alone);

TEST(host_alone, without_a_limit_a_pool_holds_nothing)
{
	use_pool(true);
	ck_assert_uint_eq(sets, 0);
}

TEST(keep_pools, the_first_allocation_raises_the_threshold_once)
{
	use_pool(false); /* captured: not described */
	ck_assert_uint_eq(sets, 0);
	use_pool(true);
	use_pool(true);
	ck_assert_uint_eq(sets, 1);
	ck_assert_uint_ge(threshold, LIMIT);
	ck_assert_uint_lt(threshold, LIMIT + BLOCK);
	ck_assert_uint_eq(read_threshold(POOL), 0);
	ck_assert_uint_eq(read_threshold((CUmemoryPool)(HOME + 64)), threshold);
}

/* _i: set before the first allocation, or after it. */
LOOP_TEST(keep_pools, the_program_s_threshold_stays, 0, 2)
{
	threshold = _i ? 0 : OWN;
	use_pool(true);
	threshold = _i ? OWN : 0; /* which it means */
	use_pool(true);
	ck_assert_uint_eq(sets, _i);
	ck_assert_uint_eq(read_threshold(POOL), threshold);
	reserved = LIMIT;
	keep_return_pool();
	ck_assert_uint_eq(reserved, LIMIT);
}

static void *use_canceled(void *unused)
{
	enter(&first);
	pthread_cancel(pthread_self());
	use_pool(true);
	pthread_testcancel();
	return unused;
}

TEST(keep_pools, a_canceled_thread_leaves_no_threshold_that_is_not_known)
{
	pthread_t thread;
	void *result;

	is_canceled = true;
	ck_assert(!pthread_create(&thread, NULL, use_canceled, NULL));
	ck_assert(!pthread_join(thread, &result) && result == PTHREAD_CANCELED);
	ck_assert_uint_eq(sets, 1);
	ck_assert_uint_eq(read_threshold(POOL), 0);
}

TEST(keep_pools, memory_that_the_driver_cannot_return_is_none_of_the_free)
{
	uint64_t value = 1024;

	use_pool(true);
	reserved = 1024;
	in_use = 768;
	keep_pool_read((CUmemoryPool)(HOME + 64), CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &value);
	ck_assert_uint_eq(value, 1024);
	keep_pool_read(POOL, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &value);
	ck_assert_uint_eq(value, 768);
	in_use = 0;
	enter(&of_second_gpu);
	keep_return_pool();
	ck_assert_uint_eq(reserved, 768);
	enter(&first);
	keep_return_pool();
	ck_assert_uint_eq(reserved, 0);
	ck_assert_uint_eq(keep_free_bytes(), 0);
}

/* Other threads fill the pool again before the next try. */
TEST(keep_pools, a_refused_call_gets_the_pool_s_memory_once)
{
	struct keep_refusal refusal = { 0 };
	unsigned int tries = 0;

	use_pool(true);
	do
		reserved = LIMIT;
	while (keep_retry(&refusal, KEEP_CURRENT, LIMIT) && tries++ < 100);
	keep_settled(&refusal);
	ck_assert_uint_eq(tries, 1);
}

static void set_up_rank(void)
{
	become_rank("pools");
	set_up();
}

CASE(ranks, .set_up = set_up_rank, .tear_down = remove_folder);

TEST(ranks, another_rank_s_request_is_answered_by_an_allocation_from_a_pool)
{
	use_pool(true);
	for (reserved = LIMIT; reserved; use_pool(true))
		job_file_want(1); /* the hash of a GPU without a UUID */
}

SUITE("keep_pools")
