/* SPDX-License-Identifier: BSD-3-Clause */
/* measure.c -- pinned threads that start together, nine runs, and their median */
#include "measure.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#define RUNS	     9
#define MOST_THREADS 1024
#define LONG_ENOUGH  20e6 /* ns: a thousand times the cost of a start */
#define QUICK	     0.2e6

struct worker {
	pthread_t id;
	const struct bench_operation *operation;
	unsigned int thread;
	uint64_t count;
	atomic_uint *missing; /* threads before the barrier */
	double ns;	      /* of all its operations */
	bool right;
};

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

unsigned int measure_cpus(void)
{
	cpu_set_t allowed;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		return 1;
	return (unsigned int)CPU_COUNT(&allowed);
}

/* The CPU at the thread's index in the process's mask. */
static void pin(unsigned int thread)
{
	cpu_set_t allowed, one;
	unsigned int place = 0;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		return;
	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &allowed) && place++ == thread)
			CPU_SET(cpu, &one);
	}
	if (CPU_COUNT(&one))
		sched_setaffinity(0, sizeof(one), &one);
}

static void *work(void *argument)
{
	struct worker *worker = argument;
	const struct bench_operation *operation = worker->operation;
	uint64_t sum;
	double start;

	pin(worker->thread);
	if (operation->prepare)
		operation->prepare(operation->context, worker->thread);
	/* Spin: waking sleepers would show in the result. */
	atomic_fetch_sub(worker->missing, 1);
	while (atomic_load(worker->missing))
		;
	start = now();
	sum = operation->run(operation->context, worker->thread, worker->count);
	worker->ns = now() - start;
	worker->right = operation->check(operation->context, worker->thread, worker->count, sum);
	return NULL;
}

/* One run. Returns the mean ns of an operation; *shortest: the time of the fastest thread. */
static double run(const struct bench_operation *operation, unsigned int threads, uint64_t count,
		  double *shortest, bool *right)
{
	static struct worker workers[MOST_THREADS];
	atomic_uint missing = threads;
	double total = 0;

	bench_require(threads <= MOST_THREADS, "too many threads");
	for (unsigned int i = 0; i < threads; i++) {
		workers[i] = (struct worker){
			.operation = operation, .thread = i, .count = count, .missing = &missing
		};
		bench_require(!pthread_create(&workers[i].id, NULL, work, &workers[i]),
			      "no thread");
	}
	for (unsigned int i = 0; i < threads; i++) {
		pthread_join(workers[i].id, NULL);
		total += workers[i].ns;
		if (!i || workers[i].ns < *shortest)
			*shortest = workers[i].ns;
		if (!workers[i].right)
			*right = false;
	}
	return total / threads / (double)count;
}

/* Find the number of operations that takes long enough; warms caches and predictors. */
static uint64_t calibrate(const struct bench_operation *operation, unsigned int threads,
			  double long_enough, bool *right)
{
	uint64_t count = 100;
	double shortest, factor;
	bool enough = false;

	for (;;) {
		run(operation, threads, count, &shortest, right);
		/* Twice: the first may have been interrupted. */
		if ((shortest >= long_enough && enough) || !*right)
			return count;
		enough = shortest >= long_enough;
		if (enough)
			continue;
		/* Slightly more than needed, and at most a hundredfold. */
		factor = shortest > 0 ? 1.2 * long_enough / shortest : 100;
		if (factor > 100)
			factor = 100;
		count = (uint64_t)((double)count * factor) + 1;
	}
}

static int compare(const void *one, const void *other)
{
	double a = *(const double *)one, b = *(const double *)other;

	return (a > b) - (a < b);
}

bool measure(const struct bench_operation *ours, const struct bench_operation *peer,
	     struct bench_row *row, bool quick)
{
	double long_enough = quick ? QUICK : LONG_ENOUGH;
	double times[RUNS], peer_times[RUNS], shortest;
	uint64_t count, peer_count = 0;
	bool right = true;

	count = calibrate(ours, row->threads, long_enough, &right);
	if (peer)
		peer_count = calibrate(peer, row->threads, long_enough, &right);
	for (int i = 0; i < RUNS && right; i++) {
		times[i] = run(ours, row->threads, count, &shortest, &right);
		if (peer && right)
			peer_times[i] = run(peer, row->threads, peer_count, &shortest, &right);
	}
	if (!right)
		return false;
	qsort(times, RUNS, sizeof(times[0]), compare);
	row->ns = times[RUNS / 2];
	row->min_ns = times[0];
	row->max_ns = times[RUNS - 1];
	if (peer) {
		qsort(peer_times, RUNS, sizeof(peer_times[0]), compare);
		row->peer_ns = peer_times[RUNS / 2];
	}
	return true;
}
