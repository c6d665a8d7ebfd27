/* SPDX-License-Identifier: BSD-3-Clause */
/* check_worker_rests.c -- when the worker works: where CPUs are left, and with rests on busy ones
 *
 * System calls of the worker are simulated: a test ends its waits, and sets its CPUs.
 */
#include "suite.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/kernel.h"
#include "base/process.h"
#include "registration/background.h"
#include "registration/methods.h"
#include "registration/region.h"
#include "registration_fixture.h"
#include "../worker_thread.h"

#define US 1000L
#define MS 1000000L

#define POLL  (50 * US)
#define REST  (1000 * MS)
#define SLEEP 0
#define POLLS 16
#define QUEUE 4096

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct {
	bool waits;
	long wait; /* ns, or SLEEP */
	long preemptions;
} worker;
static __thread bool is_worker;
static _Atomic unsigned int workers; /* so far */
static _Atomic uint64_t cpus = 4;    /* of the cpuset */

/* `how` is the value that the worker waits with: one for polls and rests, one for sleep. */
static void wait_for_test(uint32_t how, const struct timespec *time)
{
	static uint32_t polling;

	pthread_mutex_lock(&lock);
	worker.wait = time->tv_sec * 1000 * MS + time->tv_nsec;
	if (!polling && worker.wait == POLL)
		polling = how;
	if (how != polling)
		worker.wait = SLEEP;
	worker.waits = true;
	pthread_cond_broadcast(&changed);
	while (worker.waits)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

static void end_sleep(void)
{
	pthread_mutex_lock(&lock);
	if (worker.waits && worker.wait == SLEEP) {
		worker.waits = false;
		pthread_cond_broadcast(&changed);
	}
	pthread_mutex_unlock(&lock);
}

static bool simulate(long number, const long *arguments)
{
	if (number == SYS_futex && !is_worker && (arguments[1] & ~128) == 1 /* FUTEX_WAKE */)
		end_sleep();
	if (!is_worker)
		return false;
	if (number == SYS_futex && (arguments[1] & ~128) == 0 /* FUTEX_WAIT */) {
		if (*(const uint32_t *)arguments[0] == (uint32_t)arguments[2])
			wait_for_test((uint32_t)arguments[2],
				      (const struct timespec *)arguments[3]);
		return true;
	}
	if (number == SYS_sched_getaffinity) {
		*(uint64_t *)arguments[2] = ((uint64_t)1 << cpus) - 1;
		return true;
	}
	if (number != SYS_getrusage)
		return false;
	pthread_mutex_lock(&lock);
	*(struct rusage *)arguments[1] = (struct rusage){ .ru_nivcsw = worker.preemptions };
	pthread_mutex_unlock(&lock);
	return true;
}

/* In place of the library's. */
long kernel_enter(long number, long a, long b, long c, long d, long e, long f)
{
	long result;

	if (number == SYS_prctl && (int)a == PR_SET_NAME) {
		is_worker = !strcmp((const char *)b, "peerpin-worker");
		workers += is_worker;
	}
	if (simulate(number, (const long[]){ a, b, c, d, e, f }))
		return number == SYS_sched_getaffinity ? 8 : 0;
	result = syscall(number, a, b, c, d, e, f);
	return result == -1 ? -errno : result;
}

/* Requires that the worker waits for `expected` next. */
static void waits(long expected)
{
	pthread_mutex_lock(&lock);
	while (!worker.waits)
		pthread_cond_wait(&changed, &lock);
	ck_assert_int_eq(worker.wait, expected);
	pthread_mutex_unlock(&lock);
}

/* End the worker's wait. */
static void go_on(void)
{
	pthread_mutex_lock(&lock);
	worker.waits = false;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static void wait_ends(long expected)
{
	waits(expected);
	go_on();
}

static void polls_end(int count)
{
	for (int i = 0; i < count; i++)
		wait_ends(POLL);
}

static uint64_t next = HOME; /* memory */

static void allocate(int count)
{
	for (int i = 0; i < count; i++, next += BLOCK)
		begin(next, BLOCK);
}

static void registered(uint64_t expected)
{
	ck_assert_uint_eq(statistics_get(registrations_background), expected);
}

static void delayed(uint64_t expected)
{
	ck_assert_uint_eq(statistics_get(background_delays), expected);
}

/* The worker sleeps. A client has registered the only allocation. */
static void set_up_worker(void)
{
	set_up();
	enable_domain();
	polls_end(1 + POLLS);
	waits(SLEEP);
	registered(0);
	delayed(0);
}

static struct registration_method method;

static int pin_and_lose_cpu(const struct pin_request *request, struct pin_result *result)
{
	pthread_mutex_lock(&lock);
	worker.preemptions += is_worker;
	pthread_mutex_unlock(&lock);
	return standin_method.pin(request, result);
}

static void lose_cpu(bool loses)
{
	method = standin_method;
	method.pin = pin_and_lose_cpu;
	registration_forced_method = loses ? &method : &standin_method;
}

CASE(rests, .set_up = set_up_worker);

TEST(rests, a_woken_worker_works_after_a_poll)
{
	allocate(2);
	waits(POLL);
	registered(0);
	polls_end(1);
	waits(POLL);
	registered(2);
	polls_end(POLLS);
	waits(SLEEP);
}

TEST(rests, after_the_loss_of_its_cpu_the_worker_rests_for_a_second)
{
	lose_cpu(true);
	allocate(3);
	for (uint64_t i = 1; i < 3; i++) {
		polls_end(1);
		waits(REST);
		registered(i);
		delayed(i);
		go_on();
	}
	lose_cpu(false);
	polls_end(1);
	waits(POLL);
	registered(3);
	delayed(2);
}

TEST(rests, a_loss_without_queued_memory_is_no_delay)
{
	lose_cpu(true);
	allocate(1);
	polls_end(1);
	waits(REST);
	delayed(0);
}

TEST(rests, requests_meanwhile_are_served_synchronously)
{
	lose_cpu(true);
	allocate(3);
	polls_end(1);
	waits(REST);
	lose_cpu(false);
	ck_assert_uint_ne(ask(0, HOME + BLOCK, BLOCK), 0);
	ck_assert_uint_eq(statistics_get(synchronous_queued), 1);
	go_on();
	polls_end(1);
	waits(POLL);
	registered(2);
	ck_assert_uint_ne(ask(1, HOME + 2 * BLOCK, BLOCK), 0);
	ck_assert_uint_eq(statistics_tallied(TALLY_hits), 1);
}

/* ---- a full queue ---- */

CASE(all, .set_up = set_up_worker, .timeout = 300);

static bool is_queued(uint64_t base)
{
	struct allocation allocation;

	ck_assert(memory_find(base, &allocation));
	return background_is_queued(&allocation);
}

/* Fewer live ones than the stand-in of the adapter has regions. */
TEST(all, memory_beyond_the_queue_is_registered_by_a_rescan)
{
	uint64_t first = next = HOME + 2000 * BLOCK;

	allocate(QUEUE + 100);
	for (; first < HOME + 2200 * BLOCK; first += BLOCK)
		end(first);
	ck_assert(is_queued(first));
	polls_end(1);
	waits(POLL);
	registered(QUEUE - 100);
	for (; first < next; first += BLOCK)
		require(!is_queued(first));
}

/* ---- the end of the worker ---- */

static void sleep_ends(void)
{
	wait_ends(SLEEP);
	while (worker_thread())
		sched_yield();
}

TEST(rests, a_worker_that_nothing_wakes_ends_and_the_next_work_starts_another)
{
	for (unsigned int i = 1; i < 4; i++) {
		sleep_ends();
		ck_assert_uint_eq(workers, i);
		allocate(2);
		polls_end(1);
		waits(POLL);
		registered(2 * i);
		ck_assert_uint_eq(workers, 1 + i);
		polls_end(POLLS);
	}
}

/* Without a job there is one rank. */
TEST(rests, where_ranks_have_all_cpus_the_worker_ends_and_none_starts)
{
	sleep_ends();
	cpus = 1;
	/* A worker starts, and finds that. */
	allocate(1);
	while (workers < 2 || worker_thread())
		sched_yield();
	allocate(2);
	registered(0);
	ck_assert_uint_eq(workers, 2);
	ck_assert_uint_gt(statistics_get(background_delays), 0);
	ck_assert_uint_ne(ask(0, next - BLOCK, BLOCK), 0);
}

TEST(rests, a_woken_worker_that_finds_no_cpu_ends)
{
	allocate(1);
	polls_end(1 + POLLS);
	waits(SLEEP);
	cpus = 1;
	allocate(1);
	while (worker_thread())
		sched_yield();
	registered(1);
}

TEST(rests, a_woken_worker_goes_on)
{
	for (unsigned int i = 1; i < 4; i++) {
		waits(SLEEP);
		allocate(1);
		polls_end(1 + POLLS);
		registered(i);
	}
	ck_assert_uint_eq(workers, 1);
}

TEST(rests, a_worker_stays_during_exit)
{
	process_begin_exit();
	cpus = 1;
	wait_ends(SLEEP);
	polls_end(POLLS);
	waits(SLEEP);
	ck_assert(worker_thread());
}

SUITE("worker rests")
