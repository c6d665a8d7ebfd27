/* SPDX-License-Identifier: BSD-3-Clause */
/* threads.c -- a pattern with several threads that allocate, send, receive and free at once */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "patterns.h"

#define THREADS 4

static pthread_barrier_t barrier; /* of all threads and the measuring one */

static void meet(void)
{
	int status = pthread_barrier_wait(&barrier);

	if (status && status != PTHREAD_BARRIER_SERIAL_THREAD)
		fail("pthread_barrier_wait", strerror(status));
}

/* Each round's buffers are new, possibly at addresses that other threads free. */
static void *exchange(void *argument)
{
	int number = *(int *)argument;
	struct channel channel = pair_channel(job.bytes, number);

	use_gpu();
	for (int round = 0; round <= job.rounds; round++) {
		allocate_channels(&channel, 1);
		prepare_channels(&channel, 1, round);
		meet();
		meet();
		use_channels(&channel, 1);
		meet();
		check_channels(&channel, 1, round);
		release_channels(&channel, 1);
	}
	return NULL;
}

static void check_started(int status, const char *call)
{
	if (status)
		fail(call, strerror(status));
}

int run_threads(void)
{
	pthread_t threads[THREADS];
	int numbers[THREADS], provided;

	MPI(MPI_Query_thread(&provided));
	if (provided != MPI_THREAD_MULTIPLE) {
		if (job.rank == 0)
			printf("patterns: threads: skipped, this MPI library gives no "
			       "MPI_THREAD_MULTIPLE\n");
		return STATUS_SKIPPED;
	}
	check_started(pthread_barrier_init(&barrier, NULL, THREADS + 1), "pthread_barrier_init");
	for (int i = 0; i < THREADS; i++) {
		numbers[i] = i;
		check_started(pthread_create(&threads[i], NULL, exchange, &numbers[i]),
			      "pthread_create");
	}
	for (int round = 0; round <= job.rounds; round++) {
		meet(); /* all have prepared */
		begin_round(round);
		begin_sending();
		meet(); /* all ranks are here */
		meet(); /* all have sent and received */
		end_sending();
	}
	for (int i = 0; i < THREADS; i++)
		check_started(pthread_join(threads[i], NULL), "pthread_join");
	pthread_barrier_destroy(&barrier);
	return 0;
}
