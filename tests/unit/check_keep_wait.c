/* SPDX-License-Identifier: BSD-3-Clause */
/* check_keep_wait.c -- the wait of a free that keeps memory, and captures that begin meanwhile */
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include "keep_fixture.h"

/* The driver's side of a capture that another thread begins. */
static _Atomic bool begins, is_open;
static pthread_t capturer;

static void set_up(void)
{
	set_up_with("inf", "64M");
	begins = is_open = false;
}

CASE(wait, .set_up = set_up);

static void *capture(void *nothing)
{
	bool counted;

	begins = true;
	counted = captures_begin();
	is_open = true;
	captures_begun(counted, CUDA_SUCCESS);
	return nothing;
}

static void begin_beside(void)
{
	require(!pthread_create(&capturer, NULL, capture, NULL));
	while (!begins)
		usleep(0);
}

static void begin_here(void)
{
	capture(NULL);
}

static void end(void)
{
	is_open = false;
	captures_ended();
}

TEST(wait, a_free_waits_for_the_context_of_the_memory)
{
	allocate(HOME, 4096);
	allocate_in(&second, HOME + BLOCK, 4096);
	ck_assert(keeps(HOME + BLOCK));
	ck_assert_uint_eq(first.waits, 0);
	ck_assert_uint_eq(second.waits, 1);
	ck_assert_ptr_eq(stack[0], &first);
	ck_assert_uint_eq(depth, 1);
	ck_assert(keeps(HOME));
	ck_assert_uint_eq(first.waits, 1);
	ck_assert_uint_eq(gpu.events, 0);
	ck_assert_uint_eq(gpu.probes, 0);
	ck_assert_int_eq(capture_mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

TEST(wait, it_sleeps_where_the_context_s_waits_sleep)
{
	allocate(HOME, 4096);
	allocate(HOME + BLOCK, 4096);
	ck_assert(keeps(HOME));
	ck_assert_uint_eq(gpu.event_flags, CU_EVENT_DISABLE_TIMING);
	gpu.flags = 0x10 | CU_CTX_SCHED_BLOCKING_SYNC;
	ck_assert(keeps(HOME + BLOCK));
	ck_assert_uint_eq(gpu.event_flags, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC);
}

TEST(wait, a_driver_without_events_of_contexts_waits_in_a_free_of_own_memory)
{
	allocate_in(&second, HOME, 4096);
	standin_driver.cuCtxRecordEvent = NULL;
	ck_assert(keeps(HOME));
	ck_assert_uint_eq(gpu.probes, 1);
	ck_assert_uint_eq(second.waits, 1);
	ck_assert_uint_eq(first.waits, 0);
	ck_assert_uint_eq(depth, 1);
	allocate(HOME + BLOCK, 4096);
	gpu.wait_result = (CUresult)719; /* a kernel failed */
	ck_assert(!keeps(HOME + BLOCK));
	gpu.wait_result = CUDA_SUCCESS;
	standin_driver.cuMemAlloc_v2 = NULL;
	ck_assert(!keeps(HOME + BLOCK));
	ck_assert(is_found(HOME + BLOCK));
}

TEST(wait, a_refused_record_leaves_no_event_and_own_memory_waits)
{
	allocate(HOME, 4096);
	gpu.record_result = CUDA_ERROR_NOT_SUPPORTED;
	ck_assert(keeps(HOME));
	ck_assert_uint_eq(gpu.events, 0);
	ck_assert_uint_eq(gpu.probes, 1);
	ck_assert_uint_eq(first.waits, 1);
}

static void must_not_be_called(void)
{
	ck_abort_msg("an event is recorded during a capture");
}

/* Between the check for captures and the wait. */
TEST(wait, a_capture_that_begins_before_the_record_is_left_alone)
{
	allocate(HOME, 4096);
	gpu.before_record = begin_here;
	gpu.in_record = must_not_be_called;
	ck_assert(keeps(HOME));
	ck_assert_uint_eq(gpu.probes, 1);
	ck_assert_uint_eq(first.waits, 1);
	ck_assert_uint_eq(gpu.events, 0);
	end();
	ck_assert(!captures_may_be_open());
}

static void must_hold_off_the_capture(void)
{
	begin_beside();
	/* The capture is counted, and then waits for this record. */
	while (!captures_may_be_open())
		usleep(0);
	for (int i = 0; i < 100; i++) {
		require(!is_open);
		usleep(0);
	}
}

TEST(wait, a_capture_begins_after_the_record)
{
	allocate(HOME, 4096);
	gpu.in_record = must_hold_off_the_capture;
	ck_assert(keeps(HOME));
	pthread_join(capturer, NULL);
	ck_assert(is_open);
	ck_assert_uint_eq(gpu.probes, 0);
	ck_assert_uint_eq(first.waits, 1);
	end();
}

static long sleeps(void)
{
	struct rusage usage;

	require(!getrusage(RUSAGE_THREAD, &usage));
	return usage.ru_nvcsw;
}

static void must_let_the_capture_begin_at_once(void)
{
	long before = sleeps();

	begin_here();
	require(sleeps() == before);
}

TEST(wait, a_capture_begins_during_the_wait)
{
	allocate(HOME, 4096);
	gpu.in_wait = must_let_the_capture_begin_at_once;
	ck_assert(keeps(HOME));
	end();
	allocate(HOME + BLOCK, 4096);
	standin_driver.cuCtxRecordEvent = NULL;
	ck_assert(keeps(HOME + BLOCK));
	ck_assert_uint_eq(gpu.probes, 1);
	end();
}

/* A record that does not return may wait for the capturing thread. */
static void must_let_the_capture_begin(void)
{
	begin_beside();
	pthread_join(capturer, NULL);
	require(is_open);
}

TEST(wait, a_capture_waits_for_no_record_for_ever)
{
	allocate(HOME, 4096);
	gpu.in_record = must_let_the_capture_begin;
	ck_assert(keeps(HOME));
	end();
}

TEST(wait, after_the_sign_of_a_capture_by_an_unknown_call_nothing_is_kept)
{
	allocate(HOME, 4096);
	allocate(HOME + BLOCK, 4096);
	gpu.record_result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	ck_assert(keeps(HOME));
	ck_assert_uint_eq(gpu.probes, 1);
	captures_ended();
	ck_assert(!keeps(HOME + BLOCK));
	ck_assert(captures_may_be_open());
	must_have_freed(1, (uint64_t[]){ HOME });
}

TEST(wait, an_end_without_a_begin_is_such_a_sign)
{
	allocate(HOME, 4096);
	captures_ended();
	captures_ended();
	ck_assert(captures_may_be_open());
	ck_assert(!keeps(HOME));
}

SUITE("keep_wait")
