/* SPDX-License-Identifier: BSD-3-Clause */
/* worker.c -- the worker: the thread for background registration
 *
 * The process has at most one worker, started when there is work. The worker receives no signals.
 * Exit waits until the worker has left the driver and verbs, for AWAIT_NS at most: their
 * destructors follow.
 *
 * MPI libraries bind each rank to a core, and a rank polls there. So the worker runs on all CPUs of
 * the cpuset, and only where that has more CPUs than the node has ranks of the job: elsewhere a
 * registration before its request gains nothing, takes a CPU from a rank, and delays all ranks that
 * wait for the driver's locks meanwhile.
 *
 * Waking a thread costs the allocating thread more than the rest of its work in this library. So
 * the worker polls the queue for a while after work, and allocations need not wake it. Then it
 * sleeps. A worker that has slept for IDLE_NS ends: a process whose main() has called
 * pthread_exit() ends with its last thread.
 *
 * The worker's wake-ups preempt no thread. A worker that has lost its CPU to another thread while
 * it worked rests for REST_NS: the CPUs are busy, and client requests register meanwhile.
 */
#include "registration/background.h"

#include <limits.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/atomics.h"
#include "base/job_file.h"
#include "base/kernel.h"
#include "base/log.h"
#include "base/proc_stat.h"
#include "base/process.h"
#include "base/system.h"
#include "registration/lock.h"
#include "registration/policy.h"
#include "registration/region_end.h"
#include "report/errors.h"
#include "report/statistics.h"

#define IDLE_NS	 1000000000
#define REST_NS	 1000000000
#define AWAIT_NS 100000000

#define TRY_EVERY 1023 /* wakes between two attempts to start the thread */

/* CPUs that a thread may use, as the kernel counts them. */
#define CPU_WORDS 128
struct worker_cpus {
	uint64_t words[CPU_WORDS];
};
static const struct worker_cpus all_cpus = { { [0 ... CPU_WORDS - 1] = UINT64_MAX } };

/* Futex word of the worker, which alone stores it, but for a waker's AWAKE: of a sleeping worker,
 * and of one that it starts. */
static _Atomic uint32_t rest;
enum { NONE, AWAKE, POLLING, ASLEEP };

static _Atomic unsigned int cpus; /* of the cpuset; 0: no worker has counted them */

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
		kernel_futex_wait(&calls, 1, (long)(end - now));
		now = kernel_time(CLOCK_MONOTONIC);
	}
}

static void worker_wait(long nanoseconds)
{
	store_seq_cst(&rest, POLLING);
	kernel_futex_wait(&rest, POLLING, nanoseconds);
	store_seq_cst(&rest, AWAKE);
}

static bool worker_is_crowded(void)
{
	return load_relaxed(&cpus) && load_relaxed(&cpus) <= job_file_ranks();
}

/* True if another thread has taken the worker's CPU since the last call. */
static bool worker_was_preempted(void)
{
	static long last;
	struct rusage usage = { .ru_nivcsw = 0 };
	bool was;

	kernel_call(SYS_getrusage, RUSAGE_THREAD, &usage);
	was = usage.ru_nivcsw != last;
	last = usage.ru_nivcsw;
	return was;
}

/* Drops the lock after each step: a rescan of a million unregistered allocations would never drop
 * it. True: there was work. Sets *lost if the worker has lost its CPU, and returns early then. */
static bool worker_work(bool *lost)
{
	struct region *ending = NULL;
	bool worked, any = false;

	worker_was_preempted();
	*lost = false;
	if (!worker_enter_calls())
		return false;
	do {
		registration_lock();
		worked = background_step(&ending);
		registration_unlock();
		region_unpin_all(&ending);
		any |= worked;
		*lost = worked && worker_was_preempted();
	} while (worked && !*lost);
	worker_leave_calls();
	return any;
}

/* Until there has been no work for some polls. */
static void worker_run(void)
{
	int polls = 0;
	bool lost;

	while (polls++ < POLICY_POLLS) {
		worker_wait(POLICY_POLL_NS);
		if (worker_work(&lost))
			polls = 0;
		if (!lost)
			continue;
		if (background_has_more())
			statistics_count(background_delays);
		worker_wait(REST_NS);
	}
}

/* False: the worker ends, and the next waker starts another. */
static bool worker_sleep(void)
{
	uint32_t asleep = ASLEEP;

	store_seq_cst(&rest, ASLEEP);
	/* An allocation queued before that store woke no thread. Check once more: that allocation
	 * must not wait for a later one. */
	if (background_has_more()) {
		store_seq_cst(&rest, AWAKE);
		return true;
	}
	kernel_futex_wait(&rest, ASLEEP, IDLE_NS);
	/* At exit, destructors of the thread's data might come after the end of their library. */
	return process_is_exiting() || !replace_seq_cst(&rest, &asleep, NONE);
}

/* The kernel cuts a full mask to the cpuset. More ranks may have started by now. */
static void worker_count_cpus(void)
{
	struct worker_cpus own = all_cpus;
	unsigned int count = 0;

	kernel_call(SYS_sched_setaffinity, 0, sizeof(own), &own);
	own = (struct worker_cpus){ 0 };
	if (kernel_call(SYS_sched_getaffinity, 0, sizeof(own), &own) <= 0)
		return;
	for (size_t i = 0; i < CPU_WORDS; i++)
		count += (unsigned int)__builtin_popcountll(own.words[i]);
	store_relaxed(&cpus, count);
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

/* A scheduling policy that the program has chosen stays. */
static void worker_preempt_no_thread(void)
{
	struct sched_param priority = { .sched_priority = 0 };

	if (kernel_call(SYS_sched_getscheduler, 0) == SCHED_OTHER)
		kernel_call(SYS_sched_setscheduler, 0, SCHED_BATCH, &priority);
}

static void *worker_main(void *unused)
{
	kernel_call(SYS_prctl, PR_SET_NAME, "peerpin-worker");
	worker_preempt_no_thread();
	/* Waits end at their time, not up to 50 µs later. */
	kernel_call(SYS_prctl, PR_SET_TIMERSLACK, 1);
	own_thread_here = true;
	do {
		worker_count_cpus();
		if (worker_is_crowded() && !process_is_exiting()) {
			store_seq_cst(&rest, NONE);
			break;
		}
		worker_run();
	} while (worker_sleep());
	worker_end();
	return unused;
}

/* Block all signals but 32 and 33, which libc sends its threads: setuid() waits until each thread
 * has answered 33. */
static int worker_create(void)
{
	uint64_t before = kernel_block_signals(~((uint64_t)3 << 31));
	int error;

	store_relaxed(&blocked_signals, before);
	error = system_start_thread(worker_main, (const cpu_set_t *)&all_cpus, sizeof(all_cpus));
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
		crowded = worker_is_crowded();
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
