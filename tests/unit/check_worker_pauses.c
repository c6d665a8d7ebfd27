/* SPDX-License-Identifier: BSD-3-Clause */
/* check_worker_pauses.c -- when the worker works: on idle CPUs, with pauses on busy ones
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
#include "base/own_thread.h"
#include "base/process.h"
#include "registration/background.h"
#include "registration/region.h"
#include "registration/worker_cpus.h"
#include "registration_fixture.h"
#include "../worker_thread.h"

#define US 1000L
#define MS 1000000L

#define DOZE	  (50 * US)
#define ON_TIME	  (199 * US)
#define LATE	  (200 * US)
#define PAUSE	  (1 * MS)
#define MAX_PAUSE (64 * MS)
#define SLEEP	  0
#define DOZES	  16
#define QUEUE	  4096

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
	long exporting, export_cpu; /* ns: duration; CPU time */
	long preemptions;
} each;

static void export_in_time(struct pin_request *request)
{
	(void)request;
	pthread_mutex_lock(&lock);
	worker.now += each.exporting;
	worker.spent += each.export_cpu;
	pthread_mutex_unlock(&lock);
}

static bool accept_all(const struct pin_request *request)
{
	return request->length;
}

static int pin_in_time(const struct pin_request *request, struct pin_result *result)
{
	pthread_mutex_lock(&lock);
	worker.preemptions += each.preemptions;
	pthread_mutex_unlock(&lock);
	return standin_method.pin(request, result);
}

static struct registration_method method;

/* In place of the library's: the CPUs near the GPU, or all. */
static struct {
	bool exist;	       /* two choices */
	unsigned int switches; /* so far */
	unsigned int chosen;   /* so often */
	unsigned int workers;  /* that have begun */
	int near;	       /* the GPU */
	bool none;	       /* no CPU is left */
} choices;

bool worker_cpus_to_start(struct kernel_cpus *cpus)
{
	(void)cpus;
	choices.workers++;
	return false;
}

bool worker_cpus_are_left(void)
{
	return !choices.none;
}

bool worker_cpus_choose(int device)
{
	ck_assert(!load_relaxed(&own_thread));
	ck_assert_uint_eq(choices.workers, workers);
	choices.chosen++;
	choices.near = device;
	return !choices.none;
}

bool worker_cpus_switch(void)
{
	choices.switches += choices.exist;
	return choices.exist;
}

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

static _Atomic unsigned int loans; /* of CPUs of other threads to the worker */

static long clock_ns; /* that a read of the clock takes */

static void read_clock(long ns, struct timespec *to)
{
	*to = (struct timespec){ ns / (1000 * MS), ns % (1000 * MS) };
}

static bool simulate(long number, const long *arguments)
{
	bool simulated = true;

	if (number == SYS_futex && !is_worker && (arguments[1] & ~128) == 1 /* FUTEX_WAKE */)
		end_sleep();
	if (number == SYS_sched_setaffinity && arguments[0])
		loans++;
	if (!is_worker)
		return false;
	if (number == SYS_futex && (arguments[1] & ~128) == 0 /* FUTEX_WAIT */) {
		if (*(const uint32_t *)arguments[0] == (uint32_t)arguments[2])
			wait_for_test((uint32_t)arguments[2],
				      (const struct timespec *)arguments[3]);
		return true;
	}
	pthread_mutex_lock(&lock);
	if (number == SYS_clock_gettime && arguments[0] == CLOCK_MONOTONIC) {
		worker.now += clock_ns;
		worker.spent += clock_ns;
		read_clock(worker.now, (struct timespec *)arguments[1]);
	} else if (number == SYS_clock_gettime && arguments[0] == CLOCK_THREAD_CPUTIME_ID)
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

/* The worker sleeps meanwhile. */
static void pass(long ns)
{
	pthread_mutex_lock(&lock);
	worker.now += ns;
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
		wait_ends(DOZE, ON_TIME);
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
	method = standin_method;
	method.pin = pin_in_time;
	method.prepare = export_in_time;
	method.accepts = accept_all;
	registration_forced_method = &method;
	activate();
	dozes_end_on_time(1 + DOZES);
	waits(SLEEP);
	registered(0);
	delayed(0);
}

static void set_up_worker_all(void)
{
	setenv("PEERPIN_PREREGISTER", "all", 1);
	set_up_worker();
}

/* The worker waits before its next doze, after dozes that ended late. */
static void reach_longest_pause(void)
{
	for (long pause = PAUSE; pause < MAX_PAUSE; pause *= 2) {
		wait_ends(DOZE, LATE);
		wait_ends(pause, 0);
	}
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

TEST(pauses, late_dozes_make_pauses_of_1_to_64_ms_and_nothing_is_registered)
{
	allocate(2);
	reach_longest_pause();
	delayed(7);
	for (uint64_t i = 8; i < 12; i++) {
		wait_ends(MAX_PAUSE, 0);
		wait_ends(DOZE, LATE);
		waits(MAX_PAUSE);
		delayed(i);
	}
	registered(0);
	go_on(0);
	dozes_end_on_time(1);
	waits(DOZE);
	registered(2);
	delayed(11);
}

TEST(pauses, a_late_doze_without_queued_memory_is_no_delay)
{
	allocate(1);
	dozes_end_on_time(1);
	wait_ends(DOZE, LATE);
	wait_ends(DOZE, LATE);
	waits(DOZE);
	delayed(0);
}

/* To a half after the first work, to a quarter after the second. */
TEST(pauses, each_work_that_is_not_held_up_halves_the_pause)
{
	allocate(1);
	reach_longest_pause();
	go_on(0);
	dozes_end_on_time(1);
	waits(DOZE);
	allocate(1);
	dozes_end_on_time(1);
	waits(DOZE);
	registered(2);
	allocate(1);
	wait_ends(DOZE, LATE);
	waits(MAX_PAUSE / 2);
}

TEST(pauses, work_that_is_not_held_up_ends_the_shortest_pause)
{
	allocate(1);
	wait_ends(DOZE, LATE);
	wait_ends(PAUSE, 0);
	dozes_end_on_time(1);
	waits(DOZE);
	registered(1);
	allocate(1);
	wait_ends(DOZE, LATE);
	waits(PAUSE);
}

TEST(pauses, requests_meanwhile_are_served_synchronously)
{
	allocate(2);
	wait_ends(DOZE, LATE);
	waits(PAUSE);
	ck_assert_uint_ne(ask(0, HOME, BLOCK), 0);
	ck_assert_uint_eq(statistics_get(synchronous_queued), 1);
	ck_assert_uint_eq(standin_registrations(), 2);
	go_on(0);
	dozes_end_on_time(1);
	waits(DOZE);
	registered(1);
	ck_assert_uint_ne(ask(1, HOME + BLOCK, BLOCK), 0);
	ck_assert_uint_eq(statistics_tallied(TALLY_hits), 1);
}

TEST(pauses, after_a_preemption_the_worker_pauses)
{
	each.preemptions = 1;
	allocate(3);
	dozes_end_on_time(1);
	wait_ends(PAUSE, 0);
	registered(1);
	dozes_end_on_time(1);
	waits(2 * PAUSE);
	registered(2);
	delayed(2);
	each.preemptions = 0;
	go_on(0);
	dozes_end_on_time(1);
	waits(DOZE);
	registered(3);
	delayed(2);
}

TEST(pauses, after_an_export_that_was_held_up_the_worker_pauses)
{
	each.exporting = 401 * US;
	each.export_cpu = 100 * US;
	allocate(3);
	dozes_end_on_time(1);
	waits(PAUSE);
	registered(1);
	ck_assert_uint_eq(statistics_get(driver_delays), 1);
	each.exporting = 400 * US;
	go_on(0);
	dozes_end_on_time(1);
	waits(DOZE);
	registered(3);
	ck_assert_uint_eq(statistics_get(driver_delays), 1);
	delayed(0);
}

TEST(pauses, a_work_without_an_export_is_not_held_up)
{
	each.exporting = 401 * US;
	each.export_cpu = 100 * US;
	allocate(1);
	dozes_end_on_time(1);
	waits(DOZE);
	registered(1);
	allocate(1);
	end(HOME + BLOCK);
	allocate(1);
	dozes_end_on_time(1);
	waits(DOZE);
	registered(2);
}

/* As on a host without TSC. */
TEST(pauses, a_slow_clock_holds_up_no_work)
{
	clock_ns = 3 * US;
	method.prepare = NULL;
	allocate(1);
	wait_ends(DOZE, 0);
	waits(DOZE);
	allocate(1);
	wait_ends(DOZE, LATE);
	waits(PAUSE);
	registered(1);
}

/* The worker dozes on the other CPUs at once. */
TEST(pauses, where_no_near_cpu_is_idle_the_worker_tries_the_others)
{
	choices.exist = true;
	allocate(1);
	wait_ends(DOZE, LATE);
	waits(DOZE);
	registered(0);
	ck_assert_uint_eq(choices.switches, 1);
	dozes_end_on_time(1);
	waits(DOZE);
	registered(1);
	delayed(0);
	allocate(1);
	wait_ends(DOZE, LATE);
	wait_ends(DOZE, LATE);
	waits(PAUSE);
	registered(1);
	delayed(1);
	ck_assert_uint_eq(choices.switches, 2);
}

/* The worker sleeps in between. */
static void work_in(long ns)
{
	pass(ns);
	allocate(1);
	dozes_end_on_time(1 + DOZES);
	waits(SLEEP);
}

TEST(pauses, the_worker_chooses_its_cpus_again_after_1_s)
{
	work_in(1000 * MS);
	ck_assert_uint_eq(choices.chosen, 3);
	ck_assert_int_eq(choices.near, 0);
	work_in(900 * MS);
	ck_assert_uint_eq(choices.chosen, 3);
	work_in(100 * MS);
	ck_assert_uint_eq(choices.chosen, 4);
}

/* ---- a full queue ---- */

CASE(all, .set_up = set_up_worker_all, .timeout = 300);

static bool is_queued(uint64_t base)
{
	struct allocation allocation;

	ck_assert(memory_find(base, &allocation));
	return region_is_queued(&allocation);
}

/* Fewer live ones than the stand-in of the adapter has regions. */
TEST(all, memory_beyond_the_queue_is_registered_by_a_rescan)
{
	uint64_t first = next = HOME + 2000 * BLOCK;

	allocate(QUEUE + 100);
	for (; first < HOME + 2200 * BLOCK; first += BLOCK)
		end(first);
	ck_assert_uint_eq(statistics_get(cancelled), 200);
	ck_assert(is_queued(first));
	dozes_end_on_time(1);
	waits(DOZE);
	registered(QUEUE - 100);
	for (; first < next; first += BLOCK)
		require(!is_queued(first));
}

/* A client's dma-buf has shown that it can be registered. */
TEST(all, so_is_queued_memory_that_adapters_do_not_reach_by_address)
{
	struct allocation allocation;

	standin_allocate(HOME, BLOCK, NULL, false);
	memory_allocated(ALLOCATION_DEVICE, HOME, BLOCK);
	ck_assert(memory_find(HOME, &allocation) && !memory_is_registrable(&allocation));
	ck_assert(background_queue_requested(&allocation));
	next = HOME + 2000 * BLOCK;
	allocate(QUEUE);
	for (uint64_t at = HOME + 2000 * BLOCK; at < next; at += BLOCK)
		end(at);
	ck_assert(is_queued(HOME));
	dozes_end_on_time(1);
	waits(DOZE);
	ck_assert(!is_queued(HOME));
}

/* ---- waits for the worker ---- */

static void *ask_on_thread(void *unused)
{
	ck_assert_uint_ne(ask(0, HOME, BLOCK), 0);
	return unused;
}

/* The worker may have lost its CPU. */
TEST(pauses, a_client_lends_its_cpu_while_it_waits_for_the_region_in_flight)
{
	pthread_t thread;

	/* The moves by the loan and back count as preemptions. */
	each.preemptions = 2;
	standin_block(true);
	allocate(2);
	dozes_end_on_time(1);
	standin_await_blocked(1);
	each.preemptions = 0; /* of the second registration */
	ck_assert_uint_eq(loans, 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, ask_on_thread, NULL), 0);
	while (!own_thread_lent)
		sched_yield();
	standin_block(false);
	pthread_join(thread, NULL);
	waits(DOZE);
	delayed(0);
	ck_assert_uint_eq(statistics_get(waited) + statistics_tallied(TALLY_hits), 1);
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

/* A rank of the job has been bound to each CPU meanwhile. */
TEST(pauses, where_no_cpu_is_left_the_worker_ends_and_none_starts)
{
	choices.none = true;
	pass(1000 * MS);
	allocate(1);
	wait_ends(DOZE, LATE);
	while (worker_thread())
		sched_yield();
	delayed(1);
	allocate(2);
	registered(0);
	delayed(3);
	ck_assert_uint_eq(workers, 1);
	ck_assert_uint_ne(ask(0, next - BLOCK, BLOCK), 0);
	choices.none = false;
	allocate(4);
	wait_ends(PAUSE, 0);
	dozes_end_on_time(1);
	waits(DOZE);
	ck_assert_uint_eq(workers, 2);
	ck_assert_uint_ge(statistics_get(registrations_background), 4);
}

TEST(pauses, and_so_does_a_worker_that_finds_none_when_it_starts)
{
	sleep_ends();
	choices.none = true;
	pass(1000 * MS);
	allocate(1);
	registered(0);
	delayed(1);
	ck_assert_uint_eq(workers, 1);
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
	unsigned int chosen = choices.chosen;

	process_begin_exit();
	pass(1000 * MS);
	wait_ends(SLEEP, 0);
	dozes_end_on_time(DOZES);
	waits(SLEEP);
	ck_assert(worker_thread());
	/* Choosing calls the driver. */
	ck_assert_uint_eq(choices.chosen, chosen);
}

/* Dozes before a sleep have no memory to register. */
static void sleep_after_late_dozes(void)
{
	allocate(1);
	dozes_end_on_time(1);
	for (int i = 0; i < DOZES; i++)
		wait_ends(DOZE, LATE);
	waits(SLEEP);
	registered(1);
}

TEST(pauses, a_worker_that_sleeps_for_a_moment_keeps_its_pause)
{
	sleep_after_late_dozes();
	allocate(1);
	waits(MAX_PAUSE);
	ck_assert_uint_eq(workers, 1);
}

TEST(pauses, a_sleep_longer_than_the_longest_pause_ends_the_pauses)
{
	sleep_after_late_dozes();
	pass(MAX_PAUSE + 1 * MS);
	allocate(1);
	dozes_end_on_time(1);
	waits(DOZE);
	registered(2);
}

SUITE("worker pauses")
