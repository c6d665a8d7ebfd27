/* SPDX-License-Identifier: BSD-3-Clause */
/* program.c -- random programs, thread by thread, and their counters */
#include "random/program.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "report/statistics.h"
#include "random/calls.h"
#include "random/steps.h"

#define PATIENCE    300 /* seconds without an operation: a thread hangs */
#define FORK_ONE_IN 2048

struct thread {
	struct client client;
	const struct program *program;
	pthread_t thread;
	_Atomic uint64_t done;
};

static struct thread threads[WORLD_THREADS];
static pthread_barrier_t all_are_here;
static struct model_pd shared_pds[SHARED_PDS];

static void *work(void *argument)
{
	struct thread *thread = argument;
	const struct program *program = thread->program;
	struct client *client = &thread->client;
	uint64_t operations = program->operations / program->threads;

	world_thread = client->number;
	world_is_client = true;
	if (!program->bytes)
		pthread_barrier_wait(&all_are_here);
	steps_begin(client);
	for (uint64_t i = 0; i < operations && !source_is_over(&client->source); i++) {
		world_operation = i;
		steps_take_one(client);
		if (program->forks && one_in(&client->source, FORK_ONE_IN))
			call_fork(client);
		client->totals.operations++;
		atomic_store_explicit(&thread->done, i, memory_order_relaxed);
	}
	steps_finish(client);
	return NULL;
}

/* A hung thread makes no progress. */
static void join(struct thread *thread)
{
	struct timespec deadline;
	uint64_t done;
	int error;

	do {
		done = atomic_load_explicit(&thread->done, memory_order_relaxed);
		clock_gettime(CLOCK_REALTIME, &deadline);
		deadline.tv_sec += PATIENCE;
		error = pthread_timedjoin_np(thread->thread, NULL, &deadline);
		if (error == ETIMEDOUT &&
		    done == atomic_load_explicit(&thread->done, memory_order_relaxed))
			broken("thread %u waits for ever, after its operation %llu",
			       thread->client.number, (unsigned long long)done);
	} while (error == ETIMEDOUT);
}

static void must_count(const char *name, uint64_t at_least, uint64_t at_most)
{
	uint64_t value;

	if (statistics_find(name, &value))
		broken("there is no counter %s", name);
	if (value < at_least || value > at_most)
		broken("the counter %s is %llu, and the model says %llu to %llu", name,
		       (unsigned long long)value, (unsigned long long)at_least,
		       (unsigned long long)at_most);
}

static void check_counters(const struct model_totals *totals)
{
	static const char *const ways[] = { "hits", "waited", "synchronous_queued", "synchronous" };
	static const char *const never[] = { "missed_frees",	     "untracked",
					     "verify_disagreements", "deregistrations_failed",
					     "internal_errors",	     "pinned_bytes",
					     "kept_bytes",	     "kept_host_bytes" };
	uint64_t forwarded = totals->forwarded, served = 0, value = 0;

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		statistics_find(ways[i], &value);
		served += value;
	}
	if (served != totals->served)
		broken("%llu requests were served, and %llu are counted",
		       (unsigned long long)totals->served, (unsigned long long)served);
	for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
		must_count(never[i], 0, 0);
	must_count("allocations", totals->allocations, totals->allocations);
	must_count("frees", totals->frees, totals->frees);
	must_count("host_allocations", totals->host_allocations, totals->host_allocations);
	must_count("host_frees", totals->host_frees, totals->host_frees);
	must_count("untracked_frees", totals->untracked_frees, totals->untracked_frees);
	must_count("kept", totals->kept, totals->kept);
	must_count("reused", totals->reused, totals->reused);
	must_count("kept_released", world_released, world_released);
	must_count("requests", totals->requests, totals->requests);
	must_count("forwarded", forwarded, forwarded);
	must_count("forwarded_range", totals->range, forwarded);
	must_count("forwarded_flags", totals->flags, forwarded);
	must_count("forwarded_address", totals->address, forwarded);
	must_count("forwarded_capability", totals->capability, forwarded);
	must_count("forwarded_domain", totals->domain, forwarded);
	must_count("forwarded_freed", totals->ended, forwarded);
	/* Another thread's memory may end within the check. */
	must_count("forwarded_verify", 0, world_threads == 1 ? 0 : forwarded);
	must_count("revoked", totals->revoked, totals->revoked + totals->perhaps);
	must_count("late_deregistrations", totals->late, totals->late + totals->perhaps);
	/* After a failure for lack of room, retry. */
	must_count("registrations_failed", 0, world_counts().failures);
}

void program_run(const struct program *program, struct model_totals *totals)
{
	world_begin(program->seed, program->threads);
	world_thread = 0;
	for (unsigned int i = 0; i < SHARED_PDS; i++) {
		world_pd_open(SHARED_DEVICE, &shared_pds[i].pd);
		shared_pds[i].parent = shared_pds[i].pd;
		shared_pds[i].open = true;
		registration_pd_opened(&shared_pds[i].pd, false);
	}
	pthread_barrier_init(&all_are_here, NULL, program->threads);
	for (unsigned int i = 0; i < program->threads; i++) {
		model_begin(&threads[i].client, i,
			    program->bytes ? source_of_bytes(program->bytes, program->size)
					   : source_of_seed(program->seed, i),
			    shared_pds);
		threads[i].program = program;
		if (program->bytes)
			work(&threads[i]);
		else if (pthread_create(&threads[i].thread, NULL, work, &threads[i]))
			broken("the test cannot begin a thread");
	}
	for (unsigned int i = 0; i < program->threads; i++) {
		if (!program->bytes)
			join(&threads[i]);
		model_add(totals, &threads[i].client.totals);
	}
	pthread_barrier_destroy(&all_are_here);
	world_keep_begin();
	keep_release_context(NULL);
	world_keep_end();
	world_must_keep_nothing(NULL);
	for (unsigned int i = 0; i < SHARED_PDS; i++) {
		if (!registration_pd_closing(&shared_pds[i].pd))
			broken("a protection domain cannot be closed after all has ended");
		world_pd_end(&shared_pds[i].pd);
		registration_pd_closed(&shared_pds[i].pd, true);
	}
	world_must_be_empty();
	check_counters(totals);
}
