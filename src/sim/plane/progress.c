/* SPDX-License-Identifier: BSD-3-Clause */
/* progress.c -- runs the data plane: in threads that poll, and in the adapter's thread where none
 * does
 *
 * A thread alone would cost two context switches for each message. So ibv_poll_cq makes progress,
 * and the thread sleeps while other processes see that this one polls (segment_process.polled). A
 * process that publishes a packet wakes the thread unless the last poll is recent; one that polled
 * a moment ago and stopped leaves the packet to the next nudge of its sender, or to the thread's
 * timer.
 *
 * The thread alone touches device memory: a call into the driver takes long, and a client may be
 * inside the driver when it polls.
 */
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sim/plane/pair.h"

#define BATCH	      32  /* packets of a ring in one go: other links wait meanwhile */
#define ROUNDS	      128 /* batches of packets that a ring may hold */
#define POLL_RECORD   ((uint64_t)10000)	  /* ns between updates of `polled` */
#define NUDGE	      64		  /* polls between looks at packets that are not consumed */
#define SLEEP_POLLED  ((uint64_t)5000000) /* ns; threads poll */
#define SLEEP_BLOCKED ((uint64_t)100000)  /* ns; a ring is full: its consumer wakes no thread */
#define CHECK	      ((uint64_t)100000000) /* ns between looks for processes that have ended */

static bool started, handles_forks;
static uint64_t polled; /* last value of segment_process.polled; atomic */
static uint32_t polls;	/* atomic; approximate */
/* The thread is about to take plane_lock. A mutex is not fair: threads that poll would take it
 * again and again before the thread runs. Atomic. */
static bool thread_waits;
/* The thread sleeps for longer than while threads poll, or is about to. Atomic. */
static bool sleeps_long;

/* ---- rings ---- */

/* True: a packet was handled. `*blocked`: one is left. */
static bool progress_ring(struct link *link, struct ring *ring,
			  bool (*handle)(struct link *link, const struct packet *packet,
					 bool in_thread),
			  bool in_thread, bool *blocked)
{
	const struct packet *packet;
	int count = 0;

	while (count < BATCH && link->consumes && (packet = ring_peek(ring))) {
		if (!handle(link, packet, in_thread)) {
			*blocked = true;
			break;
		}
		ring_consume(ring);
		count++;
	}
	return count > 0;
}

static bool progress_link(struct link *link, bool in_thread, bool *blocked)
{
	bool moved;

	if (!link->consumes || link->taken)
		return false;
	moved = progress_ring(link, &link->their_responses, response_handle, in_thread, blocked);
	if (progress_ring(link, &link->their_requests, respond_request, in_thread, blocked))
		moved = true;
	if (link->owed) {
		respond_acknowledge(link);
		*blocked |= link->owed != NULL;
	}
	return moved;
}

/* The caller holds plane_lock, which the thread releases during copies. True: something moved. */
static bool progress_run(bool in_thread, bool *blocked)
{
	bool moved = false;

	link_accept();
	for (struct link *link = link_first; link; link = link->next)
		moved |= progress_link(link, in_thread, blocked);
	request_run_all(in_thread);
	*blocked |= request_is_held();
	return moved;
}

void progress_settle(void)
{
	bool blocked = false;

	for (int i = 0; i < ROUNDS && progress_run(false, &blocked); i++)
		;
}

/* A packet was published while its consumer polled, and then the consumer stopped. */
static void progress_nudge(void)
{
	for (struct link *link = link_first; link; link = link->next) {
		if (link->produces && !link->taken &&
		    (!ring_is_consumed(&link->requests) || !ring_is_consumed(&link->responses)))
			link_nudge(link);
	}
}

/* ---- threads that poll ---- */

static void progress_record_poll(void)
{
	uint64_t now = segment_now();

	if (now - __atomic_load_n(&polled, __ATOMIC_RELAXED) < POLL_RECORD)
		return;
	__atomic_store_n(&polled, now, __ATOMIC_RELAXED);
	__atomic_store_n(&segment_process(segment_self())->polled, now, __ATOMIC_RELAXED);
	/* From now on senders wake no thread. Pairs with the fence of progress_thread(): either it
	 * sees this poll, or is woken. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&sleeps_long, __ATOMIC_RELAXED))
		progress_leave();
}

void progress_poll(bool goes_on)
{
	uint32_t count = __atomic_add_fetch(&polls, 1, __ATOMIC_RELAXED);
	bool blocked = false;

	if (!segment_joined())
		return;
	if (goes_on)
		progress_record_poll();
	if (__atomic_load_n(&thread_waits, __ATOMIC_RELAXED)) {
		/* The processor may be the one that the thread waits for. */
		sched_yield();
		return;
	}
	if (pthread_mutex_trylock(&plane_lock))
		return;
	progress_run(false, &blocked);
	if (count % NUDGE == 0)
		progress_nudge();
	pthread_mutex_unlock(&plane_lock);
}

void progress_wait(void)
{
	bool blocked = false;

	if (!segment_joined())
		return;
	__atomic_store_n(&polled, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&segment_process(segment_self())->polled, 0, __ATOMIC_RELAXED);
	/* Pairs with the fence of link_publish(): either the packet is seen here, or the doorbell
	 * rings. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	pthread_mutex_lock(&plane_lock);
	progress_run(false, &blocked);
	progress_nudge();
	blocked |= request_next_retry() != UINT64_MAX;
	pthread_mutex_unlock(&plane_lock);
	if (blocked)
		progress_leave();
}

void progress_go_on(void)
{
	if (request_is_held() && !segment_polls(segment_process(segment_self()), segment_now()))
		progress_leave();
}

void progress_leave(void)
{
	segment_ring(segment_self());
}

/* ---- the adapter's thread ---- */

void progress_lock(void)
{
	__atomic_store_n(&thread_waits, true, __ATOMIC_RELAXED);
	pthread_mutex_lock(&plane_lock);
	__atomic_store_n(&thread_waits, false, __ATOMIC_RELAXED);
}

static void progress_check_pair(struct pair *pair, void *argument)
{
	(void)argument;
	request_check_peer(pair);
}

static void progress_mark_awaited(struct pair *pair, void *argument)
{
	(void)argument;
	if (pair->link && pair->done != pair->posted)
		pair->link->awaited = true;
}

/* A process that ended may have answered just before. */
static void progress_drain(struct link *link)
{
	bool blocked;

	do {
		blocked = false;
	} while (progress_link(link, true, &blocked));
}

/* Of processes that nothing is awaited from, the end does not matter. */
static void progress_check_peers(void)
{
	struct link *next;
	bool ended;

	pair_for_each(progress_mark_awaited, NULL);
	for (struct link *link = link_first; link; link = next) {
		ended = link->produces && !link->taken &&
			(link->awaited || !ring_is_consumed(&link->requests)) &&
			!segment_is_alive(link->place, link->incarnation);
		if (ended)
			progress_drain(link);
		link->awaited = false;
		next = link->next; /* after the drain, which may release plane_lock */
		if (ended)
			link_close(link);
	}
	pair_for_each(progress_check_pair, NULL);
}

static bool progress_has_packets(void)
{
	for (const struct link *link = link_first; link; link = link->next) {
		if (link->consumes && (ring_has_packet(&link->their_responses) ||
				       ring_has_packet(&link->their_requests)))
			return true;
	}
	return false;
}

/* Time to sleep, in ns; 0: packets are there. The caller holds plane_lock. */
static uint64_t progress_sleep_time(bool blocked)
{
	const struct segment_process *process = segment_process(segment_self());
	uint64_t now = segment_now(), retry = request_next_retry(), most = CHECK;

	if (segment_polls(process, now))
		most = SLEEP_POLLED;
	else if (blocked)
		most = SLEEP_BLOCKED;
	else if (progress_has_packets())
		return 0;
	if (retry <= now)
		return SLEEP_BLOCKED;
	return retry - now < most ? retry - now : most;
}

static void progress_sleep(uint32_t doorbell, uint64_t ns)
{
	struct segment_process *process = segment_process(segment_self());
	struct timespec time = { .tv_sec = (time_t)(ns / 1000000000),
				 .tv_nsec = (long)(ns % 1000000000) };

	syscall(SYS_futex, &process->doorbell, FUTEX_WAIT, doorbell, &time, NULL, 0);
	__atomic_store_n(&process->sleeping, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&sleeps_long, false, __ATOMIC_RELAXED);
}

static void *progress_thread(void *argument)
{
	struct segment_process *process = segment_process(segment_self());
	uint64_t checked = segment_now(), sleep;
	uint32_t doorbell;
	bool blocked;

	(void)argument;
	for (;;) {
		doorbell = __atomic_load_n(&process->doorbell, __ATOMIC_ACQUIRE);
		progress_lock();
		do {
			blocked = false;
		} while (progress_run(true, &blocked));
		if (segment_now() - checked > CHECK) {
			progress_check_peers();
			checked = segment_now();
		}
		progress_nudge();
		/* Pairs with the fence of link_publish(). */
		__atomic_store_n(&process->sleeping, 1, __ATOMIC_RELAXED);
		__atomic_store_n(&sleeps_long, true, __ATOMIC_RELAXED);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		sleep = progress_sleep_time(blocked);
		if (sleep <= SLEEP_POLLED)
			__atomic_store_n(&sleeps_long, false, __ATOMIC_RELAXED);
		pthread_mutex_unlock(&plane_lock);
		if (sleep)
			progress_sleep(doorbell, sleep);
		else
			__atomic_store_n(&process->sleeping, 0, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* An adapter is no part of the program: its thread takes no signals, and runs on each CPU that the
 * process may use. */
static int progress_create_thread(void)
{
	sigset_t all, before;
	pthread_t thread;
	cpu_set_t cpus;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&thread, NULL, progress_thread, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error)
		return error;
	memset(&cpus, 0xff, sizeof(cpus));
	pthread_setaffinity_np(thread, sizeof(cpus), &cpus);
	pthread_setname_np(thread, "sim-adapter");
	pthread_detach(thread);
	return 0;
}

/* ---- start ---- */

static void progress_before_fork(void)
{
	pthread_mutex_lock(&plane_lock);
}

static void progress_after_fork(void)
{
	pthread_mutex_unlock(&plane_lock);
}

int progress_start(void)
{
	int error = 0;

	/* Registered after adapter_lock's: its handler runs before, in lock order. */
	if (!handles_forks) {
		pthread_atfork(progress_before_fork, progress_after_fork, progress_after_fork);
		handles_forks = true;
	}
	if (!started) {
		error = progress_create_thread();
		started = !error;
	}
	return error;
}

void progress_forget(void)
{
	started = false;
	thread_waits = sleeps_long = false;
	polled = 0;
}
