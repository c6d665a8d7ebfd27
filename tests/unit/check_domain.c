/* SPDX-License-Identifier: BSD-3-Clause */
/* check_domain.c -- protection domains: access flags without one, closing, forks,
 * many domains
 */
#include "suite.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "registration/lock.h"
#include "registration/methods.h"
#include "registration_fixture.h"

CASE(sync, .set_up = set_up_eager);

/* The rescan comes between the record and the event. */
TEST(sync, an_allocation_during_a_rescan_is_registered_before_it_returns)
{
	struct allocation allocation;

	enable_domain();
	await_rescans();
	count_own_pins();
	registration_lock();
	ck_assert(background_queue_domain(domain_after(NULL, 0)));
	registration_unlock();
	standin_with_registration = false;
	begin(HOME, BLOCK);
	standin_with_registration = true;
	worker_wake();
	await_rescans();
	ck_assert(memory_find(HOME, &allocation));
	registration_allocated(&allocation);
	ck_assert_uint_eq(own_pins, 1);
}

CASE(off, .set_up = set_up_off, .timeout = 300);

/* ---- fork ---- */

static void fork_in_handler(int unused)
{
	int status = -1;
	pid_t child = fork();

	(void)unused;
	if (!child)
		return;
	if (waitpid(child, &status, 0) != child || status)
		_exit(1);
}

/* Crash reporters fork in signal handlers. */
TEST(off, a_fork_in_a_handler_that_interrupts_who_has_the_lock_does_not_hang)
{
	struct sigaction action = { .sa_handler = fork_in_handler };
	struct ibv_pd other = { .context = DEVICE, .handle = 77 };
	pid_t parent = getpid();

	ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
	pthread_mutex_lock(&registration_mutex);
	raise(SIGUSR1);
	pthread_mutex_unlock(&registration_mutex);
	/* Parent and child both continue from here. */
	alarm(60);
	registration_pd_opened(&other, false);
	if (getpid() != parent)
		_exit(0);
	/* A later fork, without the lock. */
	fork_in_handler(0);
	if (getpid() != parent)
		_exit(0);
	registration_pd_opened(&other, false);
}

/* ---- many domains ---- */

#define FEW  500u
#define MANY 4000u
#define AT_MOST                                                                                    \
	20 /* times as long with 8 times as many, whose entries do not fit into the caches */

static uint64_t cpu_time(void)
{
	struct timespec now;

	require(!clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now));
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* One buffer, registered by a client in each protection domain, freed and allocated again. */
static uint64_t time_of_domains(unsigned int count)
{
	static struct ibv_pd pds[MANY];
	static struct ibv_mr mrs[MANY];
	struct registration_request request;
	struct registration_keys keys;
	uint64_t start = cpu_time();

	begin(HOME + 8 * BLOCK, BLOCK);
	for (unsigned int i = 0; i < count; i++) {
		pds[i] = (struct ibv_pd){ .context = DEVICE, .handle = 100 + i };
		registration_pd_opened(&pds[i], false);
		registration_expect(&pds[i], RIGHTS);
	}
	for (int round = 0; round < 3; round++) {
		begin(HOME, BLOCK);
		for (unsigned int i = 0; i < count; i++) {
			request = request_in(&pds[i], 0, HOME, round ? BLOCK : 4096, RIGHTS);
			request.client_mr = &mrs[i];
			require(registration_request(&request, &keys));
		}
		for (unsigned int i = 0; i < count; i++)
			require(registration_drop(&mrs[i]));
		end(HOME);
	}
	for (unsigned int i = 0; i < count; i++) {
		require(registration_pd_closing(&pds[i]));
		registration_pd_closed(&pds[i], true);
	}
	end(HOME + 8 * BLOCK);
	return cpu_time() - start;
}

static uint64_t least_time_of_domains(unsigned int count)
{
	uint64_t least = UINT64_MAX, time;

	for (int i = 0; i < 5; i++) {
		time = time_of_domains(count);
		least = time < least ? time : least;
	}
	return least;
}

#ifdef __SANITIZE_THREAD__
#define HAS_SHADOW true
#else
#define HAS_SHADOW false
#endif

/* Valgrind has too few addresses for the keys of so many domains, and the shadow memory of
 * ThreadSanitizer no longer fits into the caches with them. */
static void require_linear_time(void)
{
	uint64_t few, many;

	if (suite_is_under_valgrind() || HAS_SHADOW)
		return;
	few = least_time_of_domains(FEW);
	many = least_time_of_domains(MANY);
	if (many > AT_MOST * few)
		ck_abort_msg("%lu ns with %u domains, %lu ns with %u", few, FEW, many, MANY);
}

TEST(off, times_of_requests_and_frees_do_not_grow_with_the_number_of_domains)
{
	require_linear_time();
}

CASE(auto, .set_up = set_up, .timeout = 300);

TEST(auto, background_registration_does_not_search_all_domains)
{
	require_linear_time();
}

TEST(sync, allocations_do_not_search_all_domains)
{
	require_linear_time();
}

SUITE("domain")
