/* SPDX-License-Identifier: BSD-3-Clause */
/* check_own_thread.c -- loans of CPUs to the library's own thread
 *
 * System calls about CPUs are simulated, but for the last test. The test's main thread acts as the
 * library's own thread.
 */
#include "suite.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own_thread.h"

#define OWN_CPU	   2 /* of the own thread */
#define LENDER_CPU 5
#define SLEEPS	   3

static bool simulating = true;
static _Atomic unsigned int loans, returns, sleeps;
static _Atomic int borrower;		  /* thread of the last loan */
static _Atomic bool holds_loans, is_held; /* a loan: within its system call */
static int loan_error;

static long set_cpus(int thread, const struct kernel_cpus *cpus)
{
	require(cpus->words[0] == UINT64_C(1) << (thread ? LENDER_CPU : OWN_CPU));
	if (!thread) {
		returns++;
		return 0;
	}
	is_held = holds_loans;
	while (holds_loans)
		sched_yield();
	is_held = false;
	borrower = thread;
	loans++;
	return loan_error;
}

/* In place of the library's. A wait of the own thread lets lenders go on after some sleeps. */
long kernel_enter(long number, long a, long b, long c, long d, long e, long f)
{
	long result;

	if (simulating && number == SYS_sched_setaffinity)
		return set_cpus((int)a, (const struct kernel_cpus *)c);
	if (simulating && number == SYS_getcpu) {
		*(unsigned int *)a = LENDER_CPU;
		return 0;
	}
	if (number == SYS_clock_nanosleep && ++sleeps == SLEEPS)
		holds_loans = false;
	result = syscall(number, a, b, c, d, e, f);
	return result == -1 ? -errno : result;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_t client;

static void *lock_on_client(void *unused)
{
	lock_take(&lock);
	lock_drop(&lock);
	return unused;
}

static void *lend_on_client(void *unused)
{
	own_thread_lend_cpu();
	return unused;
}

static void begin_on_client(void *(*run)(void *))
{
	ck_assert_int_eq(pthread_create(&client, NULL, run, NULL), 0);
}

static void on_client(void *(*run)(void *))
{
	begin_on_client(run);
	pthread_join(client, NULL);
}

/* A client is between its look at the own thread and the end of its system call. */
static void begin_loan(void)
{
	holds_loans = true;
	begin_on_client(lend_on_client);
	while (!is_held)
		sched_yield();
}

static void end_loan(void)
{
	holds_loans = false;
	pthread_join(client, NULL);
}

static void set_up(void)
{
	struct kernel_cpus cpus = { .words[0] = 1 << OWN_CPU };

	own_thread_run_on(&cpus);
	ck_assert_uint_eq(returns, 1);
	own_thread_begin();
	returns = 0;
}

CASE(loans, .set_up = set_up);

TEST(loans, a_client_that_waits_for_a_lock_lends_its_cpu_until_the_lock_is_dropped)
{
	lock_take(&lock);
	begin_on_client(lock_on_client);
	while (!own_thread_lent)
		sched_yield();
	ck_assert_int_eq(borrower, gettid());
	ck_assert_uint_eq(returns, 0);
	lock_drop(&lock);
	ck_assert_uint_eq(returns, 1);
	pthread_join(client, NULL);
	/* The client may have lent once more, after that. */
	lock_take(&lock);
	lock_drop(&lock);
	ck_assert(!own_thread_lent);
}

TEST(loans, a_lock_that_is_free_takes_no_system_calls)
{
	on_client(lock_on_client);
	on_client(lock_on_client);
	ck_assert_uint_eq(loans + returns, 0);
}

TEST(loans, the_own_thread_lends_itself_nothing)
{
	own_thread_lend_cpu();
	ck_assert_uint_eq(loans, 0);
	ck_assert(!own_thread_lent);
}

TEST(loans, without_an_own_thread_there_are_no_loans)
{
	own_thread_end();
	on_client(lend_on_client);
	ck_assert_uint_eq(loans, 0);
	own_thread_begin();
	on_client(lend_on_client);
	ck_assert_uint_eq(loans, 1);
}

TEST(loans, the_own_thread_alone_ends_a_loan)
{
	on_client(lend_on_client);
	on_client(lock_on_client);
	ck_assert_uint_eq(returns, 0);
	ck_assert(own_thread_lent);
	lock_take(&lock);
	lock_drop(&lock);
	ck_assert_uint_eq(returns, 1);
	ck_assert(!own_thread_lent);
}

TEST(loans, a_loan_that_the_kernel_refuses_is_none)
{
	loan_error = -ESRCH;
	on_client(lend_on_client);
	ck_assert_uint_eq(loans, 1);
	ck_assert(!own_thread_lent);
}

TEST(loans, a_loan_during_the_drop_ends_with_the_next_one)
{
	lock_take(&lock);
	begin_loan();
	lock_drop(&lock);
	ck_assert_uint_eq(returns, 0);
	end_loan();
	lock_take(&lock);
	lock_drop(&lock);
	ck_assert_uint_eq(returns, 1);
}

/* Its number may soon be that of another thread. */
TEST(loans, the_end_of_the_own_thread_waits_for_a_lender)
{
	begin_loan();
	own_thread_end();
	ck_assert_uint_ge(sleeps, SLEEPS);
	ck_assert_uint_eq(loans, 1);
	ck_assert_uint_eq(returns, 1);
	ck_assert(!own_thread_lent);
	end_loan();
	on_client(lend_on_client);
	ck_assert_uint_eq(loans, 1);
}

/* The lender is not in the child. */
TEST(loans, a_child_has_no_own_thread_and_no_lender)
{
	int status;
	pid_t child;

	on_client(lend_on_client);
	begin_loan();
	child = fork();
	if (!child) {
		own_thread_renew();
		own_thread_lend_cpu();
		require(!own_thread && !own_thread_lent && loans == 1);
		own_thread_end();
		_exit(sleeps || returns);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	end_loan();
}

/* ---- without simulation ---- */

static int first_cpu, last_cpu;
static _Atomic bool locked, spins, ends;

static void bind_to(int cpu)
{
	struct kernel_cpus one = { 0 };

	one.words[cpu / 64] = UINT64_C(1) << cpu % 64;
	require(!kernel_set_cpus(0, &one));
}

static bool is_bound_to(int cpu)
{
	struct kernel_cpus cpus;

	require(kernel_get_cpus(0, &cpus));
	for (int i = 0; i < KERNEL_CPU_WORDS; i++)
		if (cpus.words[i] != (i == cpu / 64 ? UINT64_C(1) << cpu % 64 : 0))
			return false;
	return true;
}

static void *spin(void *unused)
{
	bind_to(first_cpu);
	for (spins = true; !ends;)
		;
	return unused;
}

static void *hold_lock(void *unused)
{
	struct kernel_cpus cpus = { 0 };

	cpus.words[first_cpu / 64] = UINT64_C(1) << first_cpu % 64;
	own_thread_run_on(&cpus);
	own_thread_begin();
	lock_take(&lock);
	locked = true;
	while (!own_thread_lent)
		;
	require(is_bound_to(last_cpu));
	lock_drop(&lock);
	own_thread_end();
	require(is_bound_to(first_cpu));
	return unused;
}

static void find_cpus(void)
{
	cpu_set_t cpus;

	simulating = false;
	ck_assert_int_eq(sched_getaffinity(0, sizeof(cpus), &cpus), 0);
	for (first_cpu = 0; !CPU_ISSET(first_cpu, &cpus); first_cpu++)
		;
	for (last_cpu = CPU_SETSIZE - 1; !CPU_ISSET(last_cpu, &cpus); last_cpu--)
		;
}

CASE(real, .set_up = find_cpus);

TEST(real, a_holder_beside_a_thread_that_spins_runs_on_the_cpu_of_a_client)
{
	pthread_t spinning, holding;

	ck_assert_int_eq(pthread_create(&spinning, NULL, spin, NULL), 0);
	while (!spins)
		sched_yield();
	ck_assert_int_eq(pthread_create(&holding, NULL, hold_lock, NULL), 0);
	bind_to(last_cpu);
	while (!locked)
		sched_yield();
	lock_take(&lock);
	lock_drop(&lock);
	pthread_join(holding, NULL);
	ends = true;
	pthread_join(spinning, NULL);
}

SUITE("own thread")
