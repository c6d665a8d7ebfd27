/* SPDX-License-Identifier: BSD-3-Clause */
/* check_hit_races.c -- hits beside evictions, frees and closing protection domains, and threads
 * that stop or leave at any instruction */
#include "suite.h"

#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hits_fixture.h"

#define SIGNALS 300u
#define HELD_UP 150000 /* ns: longer than an eviction or a free takes on another thread */

static _Atomic bool over;
static _Atomic unsigned int wrong, signals;

/* A thread stops between two instructions, also between steps that are 10 ns apart. */
static void hold_up(int signal)
{
	struct timespec start, now;

	(void)signal;
	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		sched_yield(); /* Valgrind runs one thread at a time */
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((now.tv_sec - start.tv_sec) * 1000000000 + now.tv_nsec - start.tv_nsec < HELD_UP);
	signals++;
}

/* Buffer 0, which threads share. */
static void *hit_held_memory(void *line)
{
	unsigned int turns = 0;
	uint32_t key;

	while (!over) {
		key = get(AT((uintptr_t)line), 0);
		if (!key)
			continue; /* forwarded: evicted while it waited, a few times */
		wrong += !standin_covers(key, buffer(0));
		wrong += !registration_drop(AT((uintptr_t)line));
		/* Preempted threads hold it mostly: without a pause, one eviction takes a second. */
		if (++turns % 8 == 0)
			sched_yield();
	}
	return NULL;
}

/* The only thread with late deregistrations: a key that does not reach the memory is wrong, unless
 * the client MR is revoked. */
static void *hit_freed_memory(void *line)
{
	uint64_t late;
	uint32_t key;
	bool covers;

	while (!over) {
		late = statistics_get(late_deregistrations);
		key = get(AT((uintptr_t)line), 1);
		if (!key)
			continue;
		covers = standin_covers(key, buffer(1));
		wrong += !registration_drop(AT((uintptr_t)line));
		wrong += !covers && statistics_get(late_deregistrations) == late;
	}
	return NULL;
}

/* Another allocation gets the record's slot meanwhile, and clients. */
static void *free_memory(void *line)
{
	while (!over) {
		end(buffer(1));
		begin(buffer(20), BLOCK);
		for (unsigned int i = 0; i < 2; i++) {
			if (get(AT((uintptr_t)line), 20))
				registration_drop(AT((uintptr_t)line));
		}
		end(buffer(20));
		begin(buffer(1), BLOCK);
		sched_yield();
	}
	return NULL;
}

static void *evict(void *unused)
{
	while (!over) {
		registration_evict(DEVICE, 1);
	}
	return unused;
}

/* A protection domain is busy while a client MR is held. */
static void *close_domains(void *line)
{
	struct ibv_pd own = { .context = DEVICE, .handle = 2 };
	uint32_t key;

	while (!over) {
		registration_pd_opened(&own, false);
		for (unsigned int i = 0; i < 3; i++) {
			key = get_in(&own, AT((uintptr_t)line), buffer(0), BLOCK);
			if (!key)
				continue;
			wrong += registration_pd_closing(&own);
			wrong += !standin_covers(key, buffer(0));
			wrong += !registration_drop(AT((uintptr_t)line));
		}
		wrong += !registration_pd_closing(&own);
		registration_pd_closed(&own, true);
	}
	return NULL;
}

static void interrupt(pthread_t thread)
{
	unsigned int before = signals;

	ck_assert(!pthread_kill(thread, SIGUSR1));
	while (signals == before)
		sched_yield();
}

#define THREADS 4u

/* Few threads each, so that all parts of a hit are interrupted often. */
static void *(*const variants[][THREADS])(void *) = {
	{ hit_held_memory, hit_held_memory, evict, NULL },
	{ hit_freed_memory, free_memory, NULL, NULL },
	{ hit_held_memory, hit_freed_memory, free_memory, close_domains },
};

START_TEST(a_held_region_stays_and_a_freed_one_is_revoked_wherever_threads_are_interrupted)
{
	struct sigaction action = { .sa_handler = hold_up, .sa_flags = SA_RESTART };
	pthread_t threads[THREADS];
	unsigned int count = 0;

	ck_assert(!sigaction(SIGUSR1, &action, NULL));
	while (count < THREADS && variants[_i][count]) {
		ck_assert(!pthread_create(&threads[count], NULL, variants[_i][count],
					  (void *)(uintptr_t)count));
		count++;
	}
	for (unsigned int i = 0; i < SIGNALS && !wrong; i++)
		interrupt(threads[i % count]);
	while (!wrong && (statistics_tallied(TALLY_hits) < SIGNALS ||
			  (_i ? statistics_get(revoked) : statistics_get(evictions)) < 10))
		sched_yield();
	over = true;
	while (count)
		ck_assert(!pthread_join(threads[--count], NULL));
	ck_assert_uint_eq(wrong, 0);
	/* Where nothing is freed no client MR is revoked. */
	ck_assert(_i || !statistics_get(late_deregistrations));
	evict_all();
	ck_assert_uint_eq(standin_registered(), 0);
}
END_TEST

#define LEFT 200u /* hits */

static sigjmp_buf away;

static void leave(int signal)
{
	(void)signal;
	siglongjmp(away, 1);
}

/* Each try has a struct of its own: the program lost the ones before. */
static void *leave_hits(void *unused)
{
	const void *at = AT(0);

	prime(0);
	sigsetjmp(away, 1);
	at = AT(signals % LEFT);
	signals++;
	while (signals <= LEFT) {
		if (hit(at, 0))
			registration_drop(at);
	}
	return unused;
}

START_TEST(a_thread_that_leaves_a_hit_by_siglongjmp_costs_at_most_its_hold)
{
	struct sigaction action = { .sa_handler = leave };
	pthread_t thread;

	ck_assert(!sigaction(SIGUSR1, &action, NULL));
	ck_assert(!pthread_create(&thread, NULL, leave_hits, NULL));
	while (!signals)
		sched_yield();
	for (unsigned int i = 0; i < LEFT; i++)
		interrupt(thread);
	ck_assert(!pthread_join(thread, NULL));
	for (unsigned int i = 0; i < LEFT; i++)
		registration_drop(AT(i));
	evict_all();
	end(buffer(0));
	begin(buffer(0), BLOCK);
	ck_assert(!hit(AT(201), 0));
	prime(0);
	ck_assert(hit(AT(201), 0));
	ck_assert(registration_drop(AT(201)));
	ck_assert(evict_all());
	ck_assert_uint_eq(standin_registered(), 0);
}
END_TEST

int main(void)
{
	Suite *suite;
	TCase *races;

	/* Valgrind runs one thread at a time: it would take minutes, and interrupt none in a hit.
	 */
	if (suite_is_under_valgrind()) {
		puts("0 passed, 0 failed, 1 skipped");
		return 0;
	}
	suite = suite_create("hit races");
	races = tcase_create("races");
	tcase_set_timeout(races, 600);
	tcase_add_checked_fixture(races, set_up_with_pin_limit, NULL);
	tcase_add_loop_test(
		races,
		a_held_region_stays_and_a_freed_one_is_revoked_wherever_threads_are_interrupted, 0,
		sizeof(variants) / sizeof(variants[0]));
	tcase_add_test(races, a_thread_that_leaves_a_hit_by_siglongjmp_costs_at_most_its_hold);
	suite_add_tcase(suite, races);
	return suite_run(suite);
}
