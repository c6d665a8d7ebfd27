/* SPDX-License-Identifier: BSD-3-Clause */
/* check_worker_pauses.c -- when the worker works: idle CPUs, busy CPUs, its share of them
 *
 * The worker's waits and clocks are system calls. Here they are the test's: a wait lasts until the
 * test ends it, and time passes as the test says.
 */
#include "suite.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "registration/internal.h"
#include "registration_fixture.h"

#define US 1000L
#define MS 1000000L

#define DOZE	  (50 * US)
#define LATE	  (2 * MS)
#define PAUSE	  (6400 * US)
#define MAX_PAUSE (51200 * US)
#define SLEEP	  0
#define SURE	  4
#define DOZES	  16

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct {
	bool waits;
	long wait;	 /* ns; SLEEP: no limit */
	long now, spent; /* ns: the clock; on a CPU */
	long preemptions;
} worker;
static __thread bool is_worker;

/* What a registration takes of a CPU, and how often another thread preempts it. */
static _Atomic long takes;
static _Atomic bool preempted;

static void take_time(void)
{
	pthread_mutex_lock(&lock);
	worker.now += takes;
	worker.spent += takes;
	worker.preemptions += preempted;
	pthread_mutex_unlock(&lock);
}

static int pin_in_time(const struct pin_request *request, struct ibv_mr **mr)
{
	take_time();
	return standin_method.pin(request, mr);
}

static const struct registration_method method = { .name = "timed", .pin = pin_in_time };

static void wait_for_test(const struct timespec *time)
{
	pthread_mutex_lock(&lock);
	worker.wait = time ? time->tv_sec * 1000 * MS + time->tv_nsec : SLEEP;
	worker.waits = true;
	pthread_cond_broadcast(&changed);
	while (worker.waits)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

static void read_clock(clockid_t clock, struct timespec *to)
{
	long ns;

	pthread_mutex_lock(&lock);
	ns = clock == CLOCK_MONOTONIC ? worker.now : worker.spent;
	pthread_mutex_unlock(&lock);
	*to = (struct timespec){ ns / (1000 * MS), ns % (1000 * MS) };
}

static void read_usage(struct rusage *to)
{
	pthread_mutex_lock(&lock);
	*to = (struct rusage){ .ru_nivcsw = worker.preemptions };
	pthread_mutex_unlock(&lock);
}

/* Overrides libc's. */
long syscall(long number, ...)
{
	__typeof__(syscall) *next = (__typeof__(next))dlsym(RTLD_NEXT, "syscall");
	long arguments[6];
	va_list list;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		arguments[i] = va_arg(list, long);
	va_end(list);
	if (number == SYS_prctl && arguments[0] == PR_SET_NAME)
		is_worker = !strcmp((const char *)arguments[1], "peerpin-worker");
	if (is_worker && number == SYS_futex)
		wait_for_test((const struct timespec *)arguments[3]);
	else if (is_worker && number == SYS_clock_gettime)
		read_clock((clockid_t)arguments[0], (struct timespec *)arguments[1]);
	else if (is_worker && number == SYS_getrusage)
		read_usage((struct rusage *)arguments[1]);
	else
		return next(number, arguments[0], arguments[1], arguments[2], arguments[3],
			    arguments[4], arguments[5]);
	return 0;
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

/* Its wait ends, `late` ns after its time. */
static void go_on(long late)
{
	pthread_mutex_lock(&lock);
	worker.now += worker.wait + late;
	worker.waits = false;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static void wait_ends(long expected, long late)
{
	waits(expected);
	go_on(late);
}

static void dozes_end_on_time(int count)
{
	for (int i = 0; i < count; i++)
		wait_ends(DOZE, 0);
}

static void allocate(int count)
{
	static uint64_t next = HOME;

	for (int i = 0; i < count; i++, next += BLOCK)
		begin(next, BLOCK);
}

static void registered(uint64_t expected)
{
	ck_assert_uint_eq(statistics_get(registrations_background), expected);
}

/* The worker sleeps. A client has registered an allocation, of which nothing is left to do. */
static void set_up_worker(void)
{
	set_up_all();
	registration_forced_method = &method;
	activate();
	dozes_end_on_time(1 + DOZES);
	waits(SLEEP);
	registered(0);
}

static void wake_worker_for(int allocations)
{
	allocate(allocations);
	wait_ends(SLEEP, 0);
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
	wake_worker_for(2);
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
	wake_worker_for(1);
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
	ck_assert_uint_eq(statistics_get(background_delays), 4);
}

TEST(pauses, after_one_several_dozes_must_end_on_time)
{
	wake_worker_for(1);
	wait_ends(DOZE, LATE);
	wait_ends(PAUSE, 0);
	dozes_end_on_time(SURE - 1);
	wait_ends(DOZE, LATE);
	waits(MAX_PAUSE);
	registered(0);
	allocate(1); /* younger than the pause */
	go_on(0);
	dozes_end_on_time(SURE);
	waits(DOZE);
	registered(2);
}

TEST(pauses, a_long_registration_that_is_preempted_makes_a_pause_as_long_as_twenty)
{
	takes = 10 * MS;
	preempted = true;
	wake_worker_for(2);
	dozes_end_on_time(1);
	wait_ends(200 * MS, 0);
	registered(1);
	dozes_end_on_time(SURE);
	waits(200 * MS);
	registered(2);
}

TEST(pauses, short_registrations_that_are_preempted_share_one)
{
	takes = 50 * US;
	preempted = true;
	wake_worker_for(3);
	dozes_end_on_time(1);
	waits(PAUSE);
	registered(3);
}

TEST(pauses, a_preemption_in_a_long_time_shows_no_busy_cpu)
{
	takes = 20 * MS;
	preempted = true;
	wake_worker_for(3);
	dozes_end_on_time(1);
	waits(DOZE);
	registered(3);
}

TEST(pauses, old_memory_is_registered_for_a_20th_of_the_time)
{
	takes = 1 * MS;
	wake_worker_for(5);
	reach_longest_pause();
	go_on(0);
	wait_ends(DOZE, LATE);
	wait_ends(60 * MS, 0);
	registered(3);
	wait_ends(DOZE, LATE);
	waits(MAX_PAUSE);
	registered(5);
}

SUITE("worker pauses")
