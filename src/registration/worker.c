/* SPDX-License-Identifier: BSD-3-Clause */
/* worker.c -- the worker: the thread for background registration
 *
 * The process has at most one worker, started when there is work. The worker receives no signals.
 * It runs on the CPUs of the program's first thread and of the thread that starts it. Exit does not
 * wait for the worker.
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
 * The worker begins to work while a CPU is idle. On a busy CPU a registration ahead of its request
 * gains nothing, and costs switches between threads and waits for their locks: the client registers
 * on its request instead. The worker's wake-ups preempt no thread, so a doze that ends late has
 * found all CPUs busy, by 2 to 8 ms (Linux 6.1, 6.18; idle: below 0.5 ms). The worker then pauses,
 * first for PAUSE_NS, then for PAUSE_MAX_NS each. After enough pauses it registers memory queued
 * before the first of them: a request for younger memory would wait for a thread that gets no CPU.
 * The worker keeps the length of its pause, also while it sleeps, until dozes end on time.
 *
 * A CPU found idle may be busy a moment later: other threads then preempt the worker. On busy CPUs
 * the worker pauses at least SHARE times as long as its unsure registrations take of a CPU, but at
 * most 1 s for each. It pauses before them, as long as the last one requires: a program that begins
 * to use memory differently has freed it by then. So unused memory takes 1/40 of a CPU. Waits of a
 * registration, as for the adapter, do not count, nor do sure registrations (learning.c): clients
 * would register that memory.
 */
#include "base/atomics.h"
#include "registration/background.h"
#include "registration/internal.h"

#include "base/kernel.h"
#include "base/log.h"
#include "base/proc_stat.h"
#include "base/process.h"
#include "base/system.h"
#include "report/errors.h"
#include "report/statistics.h"

#define DOZE_NS	     50000 /* about a synchronous registration */
#define DOZES	     16
#define IDLE_DOZES   4
#define IDLE_NS	     1000000000
#define LATE_NS	     500000
#define PAUSE_NS     6400000
#define PAUSE_MAX_NS (8 * PAUSE_NS)
#define SHARE	     40
#define DUE_MAX_NS   1000000000

/* CPU time between two preemptions, at most, of threads that share a CPU: these are 190 to 310 per
 * second (Linux 6.18, 2 and 16 CPUs); on an idle CPU 1 to 8. */
#define SLICE_NS 25000000

#define TRY_EVERY 1023 /* wakes between two attempts to start the thread */

/* Futex word of the worker, which alone stores it, but for a waker's AWAKE: of a sleeping worker,
 * and of one that it starts. */
static _Atomic uint32_t rest;
enum { NONE, AWAKE, DOZING, ASLEEP };

/* The worker's own, in ns: its next pause; pauses that its last work still requires; pauses before
 * its work, beyond those. The next worker continues with them. */
static long next_pause, owed, paid;

static void worker_pause(long nanoseconds)
{
	store_seq_cst(&rest, DOZING);
	kernel_futex_wait(&rest, DOZING, nanoseconds);
	store_seq_cst(&rest, AWAKE);
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

/* True: a CPU was idle at the end. The worker has just run, so another thread of its CPU begins a
 * time slice with the doze, and lets the worker in only after it. */
static bool worker_doze(void)
{
	uint64_t start = kernel_time(CLOCK_MONOTONIC);

	worker_pause(DOZE_NS);
	return kernel_time(CLOCK_MONOTONIC) - start < DOZE_NS + LATE_NS;
}

/* On busy CPUs a doze ends on time now and then: then only several in a row show an idle one. */
static bool worker_finds_idle_cpu(bool were_busy)
{
	for (int i = 0; i < (were_busy ? IDLE_DOZES : 1); i++) {
		if (!worker_doze())
			return false;
	}
	return true;
}

/* Returns the pause for `unsure` ns of CPU time. */
static long worker_pause_for(uint64_t unsure)
{
	return unsure < DUE_MAX_NS / SHARE ? SHARE * (long)unsure : DUE_MAX_NS;
}

/* Returns the sum of pauses that precedes work on busy CPUs. */
static long worker_required_pauses(void)
{
	long due = worker_pause_for(learning_last_unsure());

	return due > PAUSE_MAX_NS && background_has_more() ? due : PAUSE_MAX_NS;
}

static void worker_lengthen_pause(void)
{
	next_pause = next_pause ? 8 * next_pause : PAUSE_NS;
	if (next_pause > PAUSE_MAX_NS)
		next_pause = PAUSE_MAX_NS;
	if (background_has_more())
		statistics_count(background_delays);
}

/* Returns the position in the queue up to which to work: all if a CPU is idle, else those from
 * before the pauses. */
static uint64_t worker_await_idle_cpu(void)
{
	uint64_t until = 0;
	bool paused = false;

	for (paid = -owed, owed = 0;;) {
		if (!paused)
			until = background_queued();
		if (next_pause)
			worker_pause(next_pause);
		paused |= next_pause;
		paid += next_pause;
		if (worker_finds_idle_cpu(next_pause)) {
			next_pause = 0;
			return BACKGROUND_ALL;
		}
		worker_lengthen_pause();
		if (paid >= worker_required_pauses() || process_is_exiting())
			return until;
	}
}

/* The worker inherits the CPUs of the thread that starts it. Add those of the program's first
 * thread: a starting thread bound to one CPU must not share that CPU with the worker. */
static void worker_bind_like_program(void)
{
	struct kernel_cpus own, program;

	if (!kernel_get_cpus(0, &own) || !kernel_get_cpus(kernel_process(), &program))
		return;
	for (size_t i = 0; i < KERNEL_CPU_WORDS; i++)
		own.words[i] |= program.words[i];
	kernel_set_cpus(&own);
}

/* Nanoseconds of CPU time. */
static long worker_time(void)
{
	return (long)kernel_time(CLOCK_THREAD_CPUTIME_ID);
}

/* Returns true if other threads have needed the CPU in `spent` ns of its time. */
static bool worker_was_in_the_way(long preemptions, long spent)
{
	/* A single preemption occurs on idle CPUs, too. */
	return (preemptions - 1) * SLICE_NS > spent ||
	       (preemptions && !worker_finds_idle_cpu(true));
}

/* Returns true if the worker must pause after `spent` ns of CPU time, with `unsure` ns of those for
 * unsure registrations. `until`: see worker_work(). */
static bool worker_must_pause(uint64_t until, long preemptions, long spent, uint64_t unsure)
{
	/* On busy CPUs the pauses must suffice for one more like the last. */
	if (until != BACKGROUND_ALL)
		return worker_pause_for(unsure) + worker_pause_for(learning_last_unsure()) > paid;
	return preemptions && SHARE * spent > PAUSE_NS;
}

/* After work on busy CPUs. Where a CPU was found idle, the whole pause is next: the next idle one
 * would mislead, too. */
static void worker_owe(uint64_t until, uint64_t unsure)
{
	long due = worker_pause_for(unsure) - paid;

	owed = due < 0 ? 0 : due < DUE_MAX_NS ? due : DUE_MAX_NS;
	if (!next_pause)
		next_pause = PAUSE_NS;
	if (until == BACKGROUND_ALL && owed > next_pause)
		next_pause = owed;
	if (background_has_more())
		statistics_count(background_delays);
}

/* Drops the lock after each step: a rescan of a million unregistered allocations would never drop
 * it. Works up to position `until`; returns early on busy CPUs. True: there was work. */
static bool worker_work(uint64_t until)
{
	uint64_t before = background_unsure(), unsure;
	long start = worker_time(), preemptions_before = kernel_preemptions(), preemptions, spent;
	bool worked, any = false;

	do {
		pthread_mutex_lock(&registration_lock);
		worked = background_step(until);
		pthread_mutex_unlock(&registration_lock);
		any |= worked;
		preemptions = kernel_preemptions() - preemptions_before;
		spent = worker_time() - start;
		unsure = background_unsure() - before;
	} while (worked && !worker_must_pause(until, preemptions, spent, unsure));
	if (any && (until != BACKGROUND_ALL || worker_was_in_the_way(preemptions, spent)))
		worker_owe(until, unsure);
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
	uint64_t until;

	kernel_name_thread("peerpin-worker");
	worker_bind_like_program();
	kernel_preempt_no_thread();
	kernel_wake_on_time();
	for (int dozes = 0;; dozes++) {
		until = worker_await_idle_cpu();
		/* Without the lock: requests at the same time take it. */
		if (worker_work(until))
			dozes = 0;
		if (dozes >= DOZES && !background_has_more()) {
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
	int error;

	store_relaxed(&blocked_signals, before);
	error = system_start_thread(worker_main);
	kernel_block_signals(before);
	return error;
}

/* Call only after setting `rest` from NONE to AWAKE. A failure for lack of threads may be
 * temporary: skip some wakes before the next attempt, twice as many each time, up to TRY_EVERY. */
static __attribute__((noinline)) void worker_start(void)
{
	static unsigned int distance, left;
	int error = 0;

	if (!left) {
		error = worker_create();
		if (!error)
			return;
		distance = distance < TRY_EVERY ? distance * 2 + 1 : TRY_EVERY;
		left = distance;
	} else {
		left--;
	}
	store_seq_cst(&rest, NONE);
	if (error)
		log_once(LOG_WARN,
			 "the thread for background registration cannot start: %s. Until it "
			 "starts, memory is registered synchronously. %s",
			 errors_cause(ERRORS_THREAD, error), errors_fix(ERRORS_THREAD, error));
}

void worker_wake(void)
{
	uint32_t seen = load_seq_cst(&rest);

	/* The worker stores ASLEEP, then checks the queue. So the worker finds the new entry, or
	 * this load finds it asleep. */
	if (seen == ASLEEP && replace_seq_cst(&rest, &seen, AWAKE))
		kernel_futex_wake(&rest);
	else if (seen == NONE && replace_seq_cst(&rest, &seen, AWAKE))
		worker_start();
}
