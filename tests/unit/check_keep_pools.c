/* SPDX-License-Identifier: BSD-3-Clause */
/* check_keep_pools.c -- the program sets a pool's release threshold while peerpin raises it */
#include "keep_fixture.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define POOL  ((CUmemoryPool)HOME)
#define LIMIT ((uint64_t)64 << 20)
#define OWN   7

static _Atomic uint64_t threshold; /* the driver's */
static _Atomic unsigned int sets;  /* by peerpin */
static _Atomic uint64_t reserved;
static bool meets_read, meets_set, is_canceled;

static uint64_t in_use; /* and what cannot be returned beside it */
static pthread_t program;
static _Atomic int program_thread; /* its number; 0: it has not begun */
static _Atomic bool program_is_done;

static void *set_own(void *unused)
{
	(void)unused;
	program_thread = (int)syscall(SYS_gettid);
	keep_pool_take(POOL);
	threshold = OWN;
	program_is_done = true;
	return NULL;
}

/* Until the program's thread has set the threshold, or waits for the end of this call. */
static void meet_program(void)
{
	ck_assert(!pthread_create(&program, NULL, set_own, NULL));
	while (!program_is_done && !(program_thread && is_asleep(program_thread)))
		sched_yield();
}

static CUresult get(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
	call(NULL);
	ck_assert(pool == POOL);
	*(uint64_t *)value = attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD	 ? threshold
			     : attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT ? reserved
										 : 0;
	if (meets_read)
		meet_program();
	if (is_canceled)
		pthread_testcancel();
	return CUDA_SUCCESS;
}

static CUresult set(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
	call(NULL);
	ck_assert(pool == POOL && attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
	if (meets_set)
		meet_program();
	threshold = *(uint64_t *)value;
	sets++;
	return CUDA_SUCCESS;
}

static CUresult trim(CUmemoryPool pool, size_t bytes)
{
	call(NULL);
	ck_assert(pool == POOL && !bytes);
	reserved = in_use;
	return CUDA_SUCCESS;
}

static void add_pool_calls(void)
{
	standin_driver.cuMemPoolTrimTo = trim;
	standin_driver.cuMemPoolGetAttribute = get;
	standin_driver.cuMemPoolSetAttribute = set;
}

static void set_up(void)
{
	set_up_with("64M", "0");
	add_pool_calls();
}

static uint64_t read_threshold(void)
{
	uint64_t value = threshold;

	keep_pool_read(POOL, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value);
	return value;
}

static void use_pool(void)
{
	kept_pool_allocated(&(struct allocation){ .pool = POOL, .described = true });
}

CASE(keep_pools, .set_up = set_up);

static void set_up_host_alone(void)
{
	set_up_with("0", "64M");
	add_pool_calls();
}

CASE(host_alone, .set_up = set_up_host_alone);

TEST(host_alone, without_a_limit_a_pool_holds_nothing)
{
	use_pool();
	ck_assert_uint_eq(sets, 0);
}

/* A captured allocation is not described. */
TEST(keep_pools, a_captured_allocation_raises_no_threshold)
{
	kept_pool_allocated(&(struct allocation){ .pool = POOL });
	ck_assert_uint_eq(sets, 0);
}

/* _i: by a call that bypasses peerpin, or before the first allocation, or after it. */
LOOP_TEST(keep_pools, the_program_s_threshold_stays, 0, 3)
{
	if (_i == 2)
		use_pool();
	if (_i)
		ck_assert(keep_pool_take(POOL) == (_i == 2));
	threshold = _i == 1 ? 0 : OWN;
	use_pool();
	use_pool();
	ck_assert_uint_eq(sets, _i == 2);
	ck_assert_uint_eq(read_threshold(), _i == 1 ? 0 : OWN);
}

TEST(keep_pools, the_first_allocation_raises_the_threshold_once)
{
	use_pool();
	use_pool();
	ck_assert_uint_eq(sets, 1);
	ck_assert_uint_eq(threshold, LIMIT);
	ck_assert_uint_eq(read_threshold(), 0);
}

TEST(keep_pools, a_setting_beside_the_look_at_the_threshold_stays)
{
	meets_read = true;
	use_pool();
	ck_assert(!pthread_join(program, NULL));
	ck_assert_uint_eq(sets, 0);
	ck_assert_uint_eq(read_threshold(), OWN);
}

TEST(keep_pools, a_setting_beside_the_raise_stays)
{
	meets_set = true;
	use_pool();
	ck_assert(!pthread_join(program, NULL));
	ck_assert_uint_eq(threshold, OWN);
	ck_assert_uint_eq(read_threshold(), OWN);
}

TEST(keep_pools, a_destroyed_pool_s_handle_is_a_new_pool)
{
	use_pool();
	ck_assert(keep_pool_take(POOL));
	keep_pool_forget(POOL);
	threshold = 0;
	use_pool();
	ck_assert_uint_eq(threshold, LIMIT);
}

TEST(keep_pools, memory_that_the_driver_cannot_return_is_none_of_the_free)
{
	uint64_t value = 1024;

	use_pool();
	reserved = 1024;
	in_use = 768;
	keep_pool_read(POOL, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &value);
	ck_assert_uint_eq(value, 768);
	keep_return_pools();
	ck_assert_uint_eq(reserved, 768);
	in_use = 0;
	keep_return_pools();
	ck_assert_uint_eq(reserved, 0);
	ck_assert_uint_eq(keep_free_bytes(), 0);
}

static void *read_held(void *unused)
{
	pthread_cancel(pthread_self());
	kept_trim_pools(0);
	pthread_testcancel();
	return unused;
}

TEST(keep_pools, a_canceled_thread_leaves_no_call_to_wait_for)
{
	pthread_t thread;
	void *result;

	use_pool();
	is_canceled = true;
	ck_assert(!pthread_create(&thread, NULL, read_held, NULL));
	ck_assert(!pthread_join(thread, &result) && result == PTHREAD_CANCELED);
	ck_assert(keep_pool_take(POOL));
}

/* Other threads fill the pool again before the next try. */
TEST(keep_pools, a_failing_allocation_ends_though_pools_fill_again)
{
	unsigned int tries = 0;

	use_pool();
	do
		reserved = LIMIT;
	while (keep_release_for(KEEP_CURRENT, LIMIT, tries++) && tries < 100);
	ck_assert_uint_ge(tries, 2);
	ck_assert_uint_lt(tries, 100);
}

static _Atomic bool forks_are_done;

static void *set_often(void *unused)
{
	while (!forks_are_done)
		keep_pool_take((CUmemoryPool)(HOME + 64));
	return unused;
}

/* Another thread of the parent sets thresholds. */
TEST(keep_pools, a_child_waits_for_no_thread_of_its_parent)
{
	pthread_t thread;
	int status = 0;
	pid_t child;

	ck_assert(!pthread_create(&thread, NULL, set_often, NULL));
	for (int i = 0; i < 200 && !status; i++) {
		child = fork();
		if (!child) {
			alarm(10);
			memory_renew();
			keep_pool_take(POOL);
			_exit(0);
		}
		ck_assert(child > 0 && waitpid(child, &status, 0) == child);
	}
	forks_are_done = true;
	ck_assert(!pthread_join(thread, NULL));
	ck_assert_int_eq(status, 0);
}

SUITE("keep_pools")
