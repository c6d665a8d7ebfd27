/* SPDX-License-Identifier: BSD-3-Clause */
/* check_worker_pauses.c -- when the worker works: idle CPUs, busy CPUs, its share of them
 *
 * System calls of the worker are simulated: a test ends its waits and sets its clocks.
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
#include "registration/internal.h"
#include "registration_fixture.h"
#include "../worker_thread.h"

#define US 1000L
#define MS 1000000L

#define DOZE	   (50 * US)
#define ON_TIME	   (450 * US)
#define LATE	   (550 * US)
#define PAUSE	   (6400 * US)
#define MAX_PAUSE  (51200 * US)
#define SLEEP	   0
#define IDLE_DOZES 4
#define DOZES	   16

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct {
	bool waits;
	long wait;	 /* ns, or SLEEP */
	long now, spent; /* ns: the clock; CPU time */
	long preemptions;
} worker;
static __thread bool is_worker;
static unsigned int workers; /* so far */

/* One registration. */
static struct {
	long cpu, waits; /* ns */
	long preemptions;
	bool is_steep; /* it makes others slower */
} each;

static int pin_in_time(const struct pin_request *request, struct ibv_mr **mr)
{
	pthread_mutex_lock(&lock);
	worker.now += each.cpu + each.waits;
	worker.spent += each.cpu;
	worker.preemptions += each.preemptions;
	pthread_mutex_unlock(&lock);
	if (each.is_steep) {
		protection_domains->adapter->is_steep = true;
		protection_domains->adapter->sign_bytes = UINT64_MAX; /* no proof against it */
		background_give_up_unknown();
	}
	return standin_method.pin(request, mr);
}

static struct registration_method method;

/* `how` is the value that the worker waits with: one for dozes and pauses, one for sleep. */
static void wait_for_test(uint32_t how, const struct timespec *time)
{
	static uint32_t dozing;

	pthread_mutex_lock(&lock);
	worker.wait = time->tv_sec * 1000 * MS + time->tv_nsec;
	if (!dozing && worker.wait == DOZE)
		dozing = how;
	if (how != dozing)
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

static void read_clock(long ns, struct timespec *to)
{
	*to = (struct timespec){ ns / (1000 * MS), ns % (1000 * MS) };
}

static bool simulate(long number, const long *arguments)
{
	bool simulated = true;

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
	pthread_mutex_lock(&lock);
	if (number == SYS_clock_gettime && arguments[0] == CLOCK_MONOTONIC)
		read_clock(worker.now, (struct timespec *)arguments[1]);
	else if (number == SYS_clock_gettime && arguments[0] == CLOCK_THREAD_CPUTIME_ID)
		read_clock(worker.spent, (struct timespec *)arguments[1]);
	else if (number == SYS_getrusage)
		*(struct rusage *)arguments[1] = (struct rusage){ .ru_nivcsw = worker.preemptions };
	else
		simulated = false;
	pthread_mutex_unlock(&lock);
	return simulated;
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
		return 0;
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

/* End the worker's wait, `late` ns after its time. */
static void go_on(long late)
{
	pthread_mutex_lock(&lock);
	worker.now += worker.wait + late;
	worker.waits = false;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static bool sleeps(void)
{
	bool asleep;

	pthread_mutex_lock(&lock);
	while (!worker.waits)
		pthread_cond_wait(&changed, &lock);
	asleep = worker.wait == SLEEP;
	pthread_mutex_unlock(&lock);
	return asleep;
}

static void wait_ends(long expected, long late)
{
	waits(expected);
	go_on(late);
}

static void dozes_end_on_time(int count)
{
	for (int i = 0; i < count; i++)
		wait_ends(DOZE, ON_TIME);
}

/* Of a size that no client has requested, or of the requested one. */
static uint64_t size = 3 * BLOCK;

static void allocate(int count)
{
	static uint64_t next = HOME;

	for (int i = 0; i < count; i++, next += 4 * BLOCK)
		begin(next, size);
}

static void registered(uint64_t expected)
{
	ck_assert_uint_eq(statistics_get(registrations_background), expected);
}

/* The worker sleeps. A client has registered the only allocation. */
static void set_up_worker(void)
{
	set_up();
	method = standin_method;
	method.pin = pin_in_time;
	registration_forced_method = &method;
	activate();
	dozes_end_on_time(1 + DOZES);
	waits(SLEEP);
	registered(0);
}

/* The worker has found an idle CPU for so many new allocations. */
static void begin_work(long cpu, long preemptions, int allocations)
{
	each.cpu = cpu;
	each.preemptions = preemptions;
	allocate(allocations);
	dozes_end_on_time(1);
}

static void reach_longest_pause(void)
{
	wait_ends(DOZE, LATE);
	wait_ends(PAUSE, 0);
	wait_ends(DOZE, LATE);
	waits(MAX_PAUSE);
}

CASE(pauses, .set_up = set_up_worker);

TEST(pauses, a_woken_worker_works_when_a_doze_ends_on_time)
{
	allocate(2);
	waits(DOZE);
	registered(0);
	dozes_end_on_time(1);
	waits(DOZE);
	registered(2);
	dozes_end_on_time(DOZES);
	waits(SLEEP);
}

TEST(pauses, dozes_that_end_late_make_longer_pauses_and_then_old_memory_is_registered)
{
	allocate(1);
	reach_longest_pause();
	registered(0);
	allocate(1); /* younger than the pause */
	background_queue_all();
	go_on(0);
	wait_ends(DOZE, LATE);
	wait_ends(MAX_PAUSE, 0);
	registered(1);
	wait_ends(DOZE, LATE);
	waits(MAX_PAUSE);
	registered(2);
	/* Three late dozes with queued memory, a pause with some left, and one more late doze. */
	ck_assert_uint_eq(statistics_get(background_delays), 5);
}

TEST(pauses, after_one_several_dozes_must_end_on_time)
{
	allocate(1);
	wait_ends(DOZE, LATE);
	wait_ends(PAUSE, 0);
	dozes_end_on_time(IDLE_DOZES - 1);
	wait_ends(DOZE, LATE);
	waits(MAX_PAUSE);
	registered(0);
	allocate(1); /* younger than the pause */
	go_on(0);
	dozes_end_on_time(IDLE_DOZES);
	waits(DOZE);
	registered(2);
}

TEST(pauses, a_sleeping_worker_keeps_its_pause)
{
	allocate(1);
	wait_ends(DOZE, LATE);
	wait_ends(PAUSE, 0);
	end(HOME);
	for (int i = 0; i < DOZES + 1; i++) {
		wait_ends(DOZE, LATE);
		wait_ends(MAX_PAUSE, 0);
	}
	wait_ends(DOZE, LATE);
	waits(SLEEP);
	allocate(1);
	waits(MAX_PAUSE);
}

TEST(pauses, preempted_work_makes_a_pause_40_times_as_long)
{
	each.waits = 30 * MS;
	begin_work(10 * MS, 2, 2);
	wait_ends(400 * MS, 0);
	registered(1);
	ck_assert_uint_eq(statistics_get(background_delays), 1);
	each.preemptions = 0;
	dozes_end_on_time(IDLE_DOZES);
	waits(DOZE);
	registered(2);
}

TEST(pauses, after_long_work_the_pause_is_1_s)
{
	begin_work(100 * MS, 20, 2);
	waits(1000 * MS);
	registered(1);
}

/* The longest pause of late dozes is not 8 times as long as this one. */
TEST(pauses, after_a_late_doze_no_pause_is_longer_than_the_longest)
{
	begin_work(500 * US, 2, 1);
	wait_ends(20 * MS, 0);
	wait_ends(DOZE, LATE);
	waits(MAX_PAUSE);
}

TEST(pauses, short_registrations_that_are_preempted_share_one)
{
	begin_work(50 * US, 1, 3);
	waits(PAUSE);
	registered(3);
}

TEST(pauses, after_one_preemption_dozes_show_an_idle_cpu)
{
	begin_work(26 * MS, 1, 2);
	waits(DOZE);
	registered(1);
	dozes_end_on_time(IDLE_DOZES + 1);
	waits(DOZE);
	registered(2);
}

TEST(pauses, after_one_preemption_dozes_show_a_busy_cpu)
{
	begin_work(10 * MS, 1, 2);
	dozes_end_on_time(IDLE_DOZES - 1);
	wait_ends(DOZE, LATE);
	waits(400 * MS);
	registered(1);
}

TEST(pauses, preemptions_at_each_time_slice_show_a_busy_cpu)
{
	begin_work(24 * MS, 2, 3);
	waits(960 * MS);
	registered(1);
}

static void longest_pauses_end(int count)
{
	for (int i = 0; i < count; i++) {
		wait_ends(MAX_PAUSE, 0);
		wait_ends(DOZE, LATE);
	}
}

/* Late dozes end the first pauses, of `all` ns in sum. */
static void first_pauses_end(long all)
{
	reach_longest_pause();
	longest_pauses_end((int)((all - PAUSE + MAX_PAUSE - 1) / MAX_PAUSE));
}

TEST(pauses, old_memory_is_registered_for_a_40th_of_the_time)
{
	each.cpu = 500 * US;
	allocate(5);
	first_pauses_end(MAX_PAUSE);
	wait_ends(MAX_PAUSE, 0);
	registered(2);
	wait_ends(DOZE, LATE);
	wait_ends(MAX_PAUSE, 0);
	registered(4);
	wait_ends(DOZE, LATE);
	waits(MAX_PAUSE);
	registered(5);
}

/* The first was not paid for: 942 ms more. */
TEST(pauses, old_memory_that_takes_long_is_registered_each_1_s)
{
	each.cpu = 100 * MS;
	allocate(3);
	first_pauses_end(MAX_PAUSE);
	longest_pauses_end(37);
	waits(MAX_PAUSE);
	registered(1);
	longest_pauses_end(1 + 19);
	waits(MAX_PAUSE);
	registered(2);
	longest_pauses_end(1);
	waits(MAX_PAUSE);
	registered(3);
}

TEST(pauses, freed_memory_takes_no_pauses_from_others)
{
	begin_work(30 * MS, 0, 1);
	waits(DOZE);
	allocate(3);
	end(HOME + 4 * BLOCK);
	end(HOME + 8 * BLOCK);
	first_pauses_end(1000 * MS);
	waits(MAX_PAUSE);
	registered(2);
}

TEST(pauses, on_busy_cpus_a_pause_for_the_next_registration_comes_first)
{
	begin_work(10 * MS, 0, 1);
	waits(DOZE);
	registered(1);
	allocate(2);
	first_pauses_end(400 * MS);
	waits(MAX_PAUSE);
	registered(2);
	longest_pauses_end(7);
	waits(MAX_PAUSE);
	registered(2);
	longest_pauses_end(1);
	waits(MAX_PAUSE);
	registered(3);
}

TEST(pauses, a_long_wait_for_busy_cpus_ends_when_one_is_idle)
{
	begin_work(10 * MS, 0, 1);
	waits(DOZE);
	allocate(2);
	first_pauses_end(2 * MAX_PAUSE);
	wait_ends(MAX_PAUSE, 0);
	registered(1);
	dozes_end_on_time(IDLE_DOZES);
	waits(DOZE);
	registered(3);
}

TEST(pauses, old_memory_is_registered_at_once_in_a_domain_whose_clients_request_all)
{
	size = BLOCK;
	begin_work(10 * MS, 0, 1);
	waits(DOZE);
	ck_assert_uint_ne(ask(1, HOME, BLOCK), 0);
	allocate(4);
	first_pauses_end(MAX_PAUSE);
	waits(MAX_PAUSE);
	registered(5);
}

TEST(pauses, unknown_sizes_end_on_a_steep_adapter_before_the_pause)
{
	each.is_steep = true;
	begin_work(10 * MS, 2, 1);
	waits(400 * MS);
	registered(1);
	ck_assert_uint_eq(statistics_get(evictions), 1);
	ck_assert_uint_eq(standin_registered(), 1);
}

/* ---- the end of the worker ---- */

static void sleep_ends(void)
{
	wait_ends(SLEEP, 0);
	while (worker_thread())
		sched_yield();
}

TEST(pauses, a_worker_that_nothing_wakes_ends_and_the_next_work_starts_another)
{
	for (unsigned int i = 1; i < 4; i++) {
		sleep_ends();
		ck_assert_uint_eq(workers, i);
		allocate(2);
		dozes_end_on_time(1);
		waits(DOZE);
		registered(2 * i);
		ck_assert_uint_eq(workers, 1 + i);
		dozes_end_on_time(DOZES);
	}
}

TEST(pauses, a_woken_worker_goes_on)
{
	for (unsigned int i = 1; i < 4; i++) {
		waits(SLEEP);
		allocate(1);
		dozes_end_on_time(1 + DOZES);
		registered(i);
	}
	ck_assert_uint_eq(workers, 1);
}

TEST(pauses, a_worker_stays_during_exit)
{
	process_begin_exit();
	wait_ends(SLEEP, 0);
	dozes_end_on_time(DOZES);
	waits(SLEEP);
	ck_assert(worker_thread());
}

TEST(pauses, the_next_worker_continues_with_the_pauses_of_the_last)
{
	allocate(1);
	while (!sleeps())
		go_on(worker.wait == DOZE ? LATE : 0);
	registered(1);
	sleep_ends();
	allocate(1);
	waits(MAX_PAUSE);
	ck_assert_uint_eq(workers, 2);
}

SUITE("worker pauses")
