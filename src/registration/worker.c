/* SPDX-License-Identifier: BSD-3-Clause */
/* worker.c -- the worker: the thread for background registration
 *
 * The process has at most one worker, started when there is work. The worker receives no signals.
 * Exit waits until the worker has left the driver and verbs, for AWAIT_NS at most: their destructors
 * follow. worker_cpus.c has its CPUs.
 *
 * Waking a thread costs the allocating thread more than the rest of its work in this library. So
 * the worker dozes after work: it polls the queue a few times, and allocations need not wake it.
 * Then it sleeps. A woken worker dozes once before it works: a request that follows the allocation
 * at once would else compete with it for the same registration.
 *
 * A worker that has slept for IDLE_NS ends: a process whose main() has called pthread_exit() ends
 * with its last thread. The allocation that starts the next worker takes 50 µs longer than one that
 * wakes it (2 CPUs at a load of 6): 1/20,000 of the time that has passed.
 *
 * The worker works while a CPU is idle, and ends where a rank of the job is bound to each.
 * Elsewhere a registration before its request gains nothing and takes a CPU from the program, so
 * the worker leaves it to the client's request. The worker's wake-ups preempt no thread: a doze
 * ends on time only where a CPU is idle. After a yield another thread would run first, also where
 * its time slice has just ended.
 *
 * A busy CPU, a preemption, and an export that waits for others in the driver make the worker
 * pause, longer each time. 16 processes on one GPU have idle CPUs while they wait in the driver,
 * and one more call there delays all. policy.h has the times, and what was measured.
 */
#include "registration/background.h"

#include <limits.h>

#include "base/atomics.h"
#include "base/job_file.h"
#include "base/kernel.h"
#include "base/log.h"
#include "base/proc_stat.h"
#include "base/process.h"
#include "base/system.h"
#include "registration/policy.h"
#include "registration/region_life.h"
#include "registration/session.h"
#include "registration/worker_cpus.h"
#include "report/errors.h"
#include "report/statistics.h"

#define IDLE_NS	  1000000000
#define CHOOSE_NS 1000000000 /* between two looks at the CPUs of the program's threads */

#define AWAIT_NS 100000000

#define TRY_EVERY 1023 /* wakes between two attempts to start the thread */

/* Futex word of the worker, which alone stores it, but for a waker's AWAKE: of a sleeping worker,
 * and of one that it starts. */
static _Atomic uint32_t rest;
enum { NONE, AWAKE, DOZING, ASLEEP };

/* Futex word: 1 while the worker may be inside the driver or verbs. */
static _Atomic uint32_t calls;

static void worker_leave_calls(void)
{
	store_seq_cst(&calls, 0);
	if (load_seq_cst(&process_page.state) & PROCESS_EXITING)
		kernel_futex_wake(&calls, INT_MAX);
}

/* False: exit has begun. Either this check finds it, or registration_await_worker() finds 1. */
static bool worker_enter_calls(void)
{
	store_seq_cst(&calls, 1);
	if (!(load_seq_cst(&process_page.state) & PROCESS_EXITING))
		return true;
	worker_leave_calls();
	return false;
}

void registration_await_worker(void)
{
	uint64_t now = kernel_time(CLOCK_MONOTONIC), end = now + AWAIT_NS;

	while (load_seq_cst(&calls) && now < end) {
		own_thread_lend_cpu();
		kernel_futex_wait(&calls, 1, (long)(end - now));
		now = kernel_time(CLOCK_MONOTONIC);
	}
}

/* The worker's own, as the next one continues with them. */
static long next_pause; /* ns */
static bool has_cpus;	/* else a rank of the job is bound to each, and the worker ends */

static void worker_pause(long nanoseconds)
{
	store_seq_cst(&rest, DOZING);
	kernel_futex_wait(&rest, DOZING, nanoseconds);
	store_seq_cst(&rest, AWAKE);
}

static void worker_choose_cpus_now(void)
{
	if (!worker_enter_calls())
		return;
	has_cpus = worker_cpus_choose(background_device());
	worker_leave_calls();
}

static void worker_choose_cpus(void)
{
	static uint64_t chosen, last_joined;
	uint64_t now = kernel_time(CLOCK_MONOTONIC), joined;

	if (process_is_exiting())
		return;
	joined = job_file_changed();
	if (chosen && now - chosen < CHOOSE_NS && joined == last_joined)
		return;
	chosen = now;
	last_joined = joined;
	worker_choose_cpus_now();
}

/* False: the worker ends, and the next waker starts another. */
static bool worker_sleep(void)
{
	uint64_t start = kernel_time(CLOCK_MONOTONIC);
	uint32_t asleep = ASLEEP;
	bool ends;

	store_seq_cst(&rest, ASLEEP);
	/* An allocation queued before that store woke no thread. Check once more: that allocation
	 * must not wait for a later one. */
	if (has_cpus && background_has_more()) {
		store_seq_cst(&rest, AWAKE);
		return true;
	}
	own_thread_end();
	worker_choose_cpus();
	/* The worker may have had no CPU before. */
	if (has_cpus && background_has_more()) {
		own_thread_begin();
		store_seq_cst(&rest, AWAKE);
		return true;
	}
	if (has_cpus || process_is_exiting())
		kernel_futex_wait(&rest, ASLEEP, IDLE_NS);
	if (kernel_time(CLOCK_MONOTONIC) - start > POLICY_PAUSE_MAX_NS)
		next_pause = 0;
	/* At exit, destructors of the thread's data might come after the end of their library. */
	ends = !process_is_exiting() && replace_seq_cst(&rest, &asleep, NONE);
	if (!ends)
		own_thread_begin();
	return !ends;
}

/* True: a CPU was idle at the end. The worker has just run, so another thread of its CPU begins a
 * time slice with the doze, and lets the worker in only after it. */
static bool worker_doze(void)
{
	uint64_t start = kernel_time(CLOCK_MONOTONIC);

	worker_pause(POLICY_DOZE_NS);
	kernel_yield();
	return kernel_time(CLOCK_MONOTONIC) - start < POLICY_DOZE_NS + POLICY_LATE_NS;
}

static bool worker_finds_idle_cpu(void)
{
	return worker_doze() || (worker_cpus_switch() && worker_doze());
}

static void worker_lengthen_pause(void)
{
	next_pause = next_pause ? 2 * next_pause : POLICY_PAUSE_NS;
	if (next_pause > POLICY_PAUSE_MAX_NS)
		next_pause = POLICY_PAUSE_MAX_NS;
}

/* More ranks may have been bound by now. */
static void worker_look_for_ranks(void)
{
	own_thread_end();
	worker_choose_cpus();
	own_thread_begin();
}

static void worker_find_busy_cpu(void)
{
	worker_lengthen_pause();
	worker_look_for_ranks();
	if (background_has_more())
		statistics_count(background_delays);
}

static void worker_find_busy_driver(void)
{
	worker_lengthen_pause();
	worker_look_for_ranks();
	statistics_count(driver_delays);
}

static void worker_await_idle_cpu(void)
{
	do {
		if (next_pause && background_has_more())
			worker_pause(next_pause);
		if (worker_finds_idle_cpu())
			return;
		worker_find_busy_cpu();
	} while (has_cpus && background_has_more());
}

/* True if another thread has taken the worker's CPU since the last call. The end of a loan is no
 * such evidence: it moves the worker. */
static bool worker_was_preempted(void)
{
	static unsigned int last_loans;
	static long last;
	long preemptions = kernel_preemptions();
	unsigned int loans = own_thread_loans();
	bool was = preemptions != last && loans == last_loans;

	last = preemptions;
	last_loans = loans;
	return was;
}

/* Drops the lock after each step: a rescan of a million unregistered allocations would never drop
 * it. Returns early if another thread has needed the CPU or the driver. True: there was work. */
static bool worker_work(void)
{
	bool worked, any = false, busy_cpu = false, busy_driver = false;

	worker_was_preempted();
	if (!worker_enter_calls())
		return false;
	do {
		session_begin();
		worked = background_step();
		session_end();
		any |= worked;
		if (worked) {
			busy_driver = region_was_held_up();
			busy_cpu = worker_was_preempted();
		}
	} while (worked && !busy_driver && !busy_cpu);
	worker_leave_calls();
	if (busy_driver)
		worker_find_busy_driver();
	else if (busy_cpu)
		worker_find_busy_cpu();
	else if (any)
		next_pause = next_pause > POLICY_PAUSE_NS ? next_pause / 2 : 0;
	return any;
}

/* Signals that the thread that started the worker blocks. */
static _Atomic uint64_t blocked_signals;

/* The last thread of a process runs its exit handlers. They, and programs that they start, need the
 * signals. Before, one of these might be pending because each thread of the program blocks it. */
static void worker_end(void)
{
	if (proc_stat_is_last_thread())
		kernel_block_signals(load_relaxed(&blocked_signals));
}

static void *worker_main(void *unused)
{
	kernel_name_thread("peerpin-worker");
	kernel_preempt_no_thread();
	kernel_wake_on_time();
	own_thread_here = true;
	worker_choose_cpus_now();
	own_thread_begin();
	for (int dozes = 0;; dozes++) {
		if (has_cpus)
			worker_await_idle_cpu();
		/* Without the lock: requests at the same time take it. */
		if (has_cpus && worker_work())
			dozes = 0;
		if (!has_cpus || (dozes >= POLICY_DOZES && !background_has_more())) {
			if (!worker_sleep())
				break;
			dozes = 0;
		}
	}
	worker_end();
	return unused;
}

/* Block all signals but 32 and 33, which libc sends its threads: setuid() waits until each thread
 * has answered 33. */
static int worker_create(void)
{
	uint64_t before = kernel_block_signals(~((uint64_t)3 << 31));
	struct kernel_cpus cpus;
	int error;

	store_relaxed(&blocked_signals, before);
	error = system_start_thread(worker_main, worker_cpus_to_start(&cpus) ? &cpus : NULL);
	kernel_block_signals(before);
	return error;
}

/* Call only after setting `rest` from NONE to AWAKE. A failure for lack of threads, or of CPUs, may
 * be temporary: skip some wakes before the next attempt, twice as many each time, up to TRY_EVERY.
 */
static __attribute__((noinline)) void worker_start(void)
{
	static unsigned int distance, left;
	static bool crowded;
	struct errors_text failure;
	char description[256];
	int error = 0;

	if (!left) {
		crowded = !worker_cpus_are_left();
		if (!crowded)
			error = worker_create();
		if (!crowded && !error)
			return;
		distance = distance < TRY_EVERY ? distance * 2 + 1 : TRY_EVERY;
		left = distance;
	} else {
		left--;
	}
	if (crowded)
		statistics_count(background_delays);
	store_seq_cst(&rest, NONE);
	if (!error)
		return;
	failure = errors_look_up(ERRORS_THREAD, error);
	errors_describe(&failure, description, sizeof(description));
	log_once(LOG_WARN,
		 "the thread for background registration cannot start: %s. Until it starts, memory "
		 "is registered synchronously. %s",
		 description, failure.fix);
}

void worker_wake(void)
{
	uint32_t seen = load_seq_cst(&rest);

	/* The worker stores ASLEEP, then checks the queue. So the worker finds the new entry, or
	 * this load finds it asleep. */
	if (seen == ASLEEP && replace_seq_cst(&rest, &seen, AWAKE))
		kernel_futex_wake(&rest, 1);
	else if (seen == NONE && replace_seq_cst(&rest, &seen, AWAKE))
		worker_start();
}
