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

SUITE("keep_wait")
