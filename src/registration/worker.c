/* SPDX-License-Identifier: BSD-3-Clause */
/* worker.c -- the eager queue and the thread that works it off
 *
 * One thread for the process, started when there is something to register for the first time. It sleeps
 * while the queue is empty, receives no signals, keeps the CPU binding of the thread that started it, and is
 * never waited for at exit.
 */
#include "registration/internal.h"

#include <errno.h>
#include <string.h>

#include "base/config.h"
#include "base/kernel.h"
#include "base/log.h"
#include "base/process.h"
#include "base/statistics.h"
#include "base/system.h"

/* First in, first out. registration_lock. */
static struct region *first, *last;

void worker_enqueue(struct region *region)
{
	region->state = REGION_QUEUED;
	region->queue_next = NULL;
	region->queue_previous = last;
	if (last)
		last->queue_next = region;
	else
		first = region;
	last = region;
	system_wake(&work_queued);
}

void worker_dequeue(struct region *region)
{
	if (region->queue_previous)
		region->queue_previous->queue_next = region->queue_next;
	else
		first = region->queue_next;
	if (region->queue_next)
		region->queue_next->queue_previous = region->queue_previous;
	else
		last = region->queue_previous;
	region->queue_previous = NULL;
	region->queue_next = NULL;
}

/* Registers the first of the queue; returns how long that took. */
static uint64_t register_first(void)
{
	struct region *region = first;
	uint64_t duration;

	worker_dequeue(region);
	region->state = REGION_REGISTERING;
	region->users++;
	duration = region_register(region);
	if (region->state == REGION_READY)
		statistics_count(registrations_eager);
	region_release_user(region);
	return duration;
}

static void *work(void *unused)
{
	kernel_name_thread("peerpin-worker");
	pthread_mutex_lock(&registration_lock);
	for (;;) {
		/* At exit the queue is left as it is: what is registered now would serve nobody. */
		while (!first || process_is_exiting())
			system_wait(&work_queued, &registration_lock);
		statistics_add(background_ns, register_first());
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

/* In sync mode the thread that allocates does the work. */
static void work_off(void)
{
	pthread_mutex_lock(&registration_lock);
	while (first)
		statistics_add(program_ns, register_first());
	pthread_mutex_unlock(&registration_lock);
}

void worker_start(void)
{
	static bool started;
	int error;

	if (config_get()->eager == EAGER_SYNC) {
		work_off();
		return;
	}
	if (__atomic_load_n(&started, __ATOMIC_RELAXED) ||
	    __atomic_exchange_n(&started, true, __ATOMIC_RELAXED))
		return;
	error = create();
	if (error)
		log_once(LOG_WARN,
			 "no thread for registering in the background: %s; memory is registered when a "
			 "client asks",
			 system_error_text(error));
}
