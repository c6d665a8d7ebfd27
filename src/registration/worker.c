/* SPDX-License-Identifier: BSD-3-Clause */
/* worker.c -- the thread that registers in the background
 *
 * One for the process, started when there is something to register for the first time. It receives no signals, runs on
 * the CPUs that the program's first thread and the one that starts it are bound to, and is never waited for at exit.
 *
 * Waking a thread costs the waker more than all else that an allocation does here. So the worker, out of work, first dozes: for
 * a second it looks again by itself, at first more often, and allocations say nothing. Then it sleeps until somebody wakes it.
 */
#include "registration/internal.h"

#include <stdatomic.h>

#include "base/errors.h"
#include "base/kernel.h"
#include "base/log.h"
#include "base/near.h"
#include "base/process.h"
#include "base/statistics.h"
#include "base/system.h"

#define DOZE_NS	  100000 /* what a client that asks meanwhile does itself takes longer */
#define DOZES	  100
#define DEEPER_NS 500000
#define ALL_DOZES 2000
#define SLEEP	  (-1)

#define TRY_EVERY 1023 /* wakes, between two tries at starting it */

/* The word that the worker waits on; stored with registration_lock held, read by wakers without. */
static _Atomic uint32_t rest;
enum { AWAKE, DOZING, ASLEEP };

static void wait_as(uint32_t how, long nanoseconds)
{
	atomic_store(&rest, how);
	/* What was queued since the last look was not told, and from now on is: it must not wait for the next allocation. */
	if (how == ASLEEP && background_has_more()) {
		atomic_store(&rest, AWAKE);
		return;
	}
	pthread_mutex_unlock(&registration_lock);
	kernel_futex_wait(&rest, how, nanoseconds);
	pthread_mutex_lock(&registration_lock);
	atomic_store(&rest, AWAKE);
}

/* What the program may run on is the launcher's choice or its own; a thread that is bound to one CPU of it must not have the
 * worker there for company. */
static void bind_like_program(void)
{
	struct kernel_cpus own, program;

	if (!kernel_get_cpus(0, &own) || !kernel_get_cpus(kernel_process(), &program))
		return;
	for (size_t i = 0; i < KERNEL_CPU_WORDS; i++)
		own.words[i] |= program.words[i];
	kernel_set_cpus(&own);
}

static void *work(void *unused)
{
	int dozes = 0;

	kernel_name_thread("peerpin-worker");
	bind_like_program();
	pthread_mutex_lock(&registration_lock);
	for (;;) {
		if (background_step()) {
			dozes = 0;
			/* What is looked at and not registered never drops it, and there may be a million of that. */
			pthread_mutex_unlock(&registration_lock);
			pthread_mutex_lock(&registration_lock);
		} else if (dozes++ < ALL_DOZES && !process_is_exiting())
			wait_as(DOZING, dozes <= DOZES ? DOZE_NS : DEEPER_NS);
		else
			wait_as(ASLEEP, SLEEP);
	}
	return unused;
}

/* It receives no signals but the two that libc sends its threads itself, 32 and 33: setuid() waits until each thread has
 * answered the second one. */
static int create(void)
{
	uint64_t before = kernel_block_signals(~((uint64_t)3 << 31));
	int error = system_start_thread(work);

	kernel_block_signals(before);
	return error;
}

NEAR void worker_expect(void)
{
	near_fetch_read(&rest);
}

static _Atomic bool started; /* or somebody is at it */

/* For whoever has set `started`. What fails for want of threads may go well later: so many wakes are let pass before it is
 * tried again, each time twice as many, up to a limit. */
static __attribute__((noinline)) void start(void)
{
	static unsigned int distance, left;
	int error = 0;

	if (!left) {
		error = create();
		if (!error)
			return;
		distance = distance < TRY_EVERY ? distance * 2 + 1 : TRY_EVERY;
		left = distance;
	} else {
		left--;
	}
	atomic_store(&started, false);
	if (error)
		log_once(LOG_WARN,
			 "no thread for registering in the background: %s. Until there is one, memory is "
			 "registered when a client asks. %s",
			 errors_cause(ERRORS_THREAD, error), errors_cure(ERRORS_THREAD, error));
}

NEAR void worker_wake(void)
{
	uint32_t asleep = ASLEEP;

	if (!atomic_load_explicit(&started, memory_order_relaxed) && !atomic_exchange(&started, true))
		start();
	/* Whoever stores ASLEEP looks at the queue afterwards: it sees what was queued, or this sees it asleep. */
	else if (atomic_load(&rest) == ASLEEP && atomic_compare_exchange_strong(&rest, &asleep, AWAKE))
		kernel_futex_wake(&rest);
}
