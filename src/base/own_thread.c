/* SPDX-License-Identifier: BSD-3-Clause */
/* own_thread.c -- CPUs of the library's own thread, and loans of others */
#include "base/own_thread.h"

_Atomic int own_thread;
_Atomic bool own_thread_lent;
__thread bool own_thread_here __attribute__((tls_model("initial-exec")));

/* Threads between their look at `own_thread` and the end of their system call: a number may soon be
 * that of another thread. */
static _Atomic unsigned int lenders;

static struct kernel_cpus own_cpus; /* stored by the own thread alone, as is: */
static unsigned int loans;

void own_thread_lend_cpu(void)
{
	struct kernel_cpus cpus;
	int thread;

	add_seq_cst(&lenders, 1);
	thread = load_seq_cst(&own_thread);
	if (thread && thread != kernel_thread() && kernel_get_current_cpu(&cpus) &&
	    !kernel_set_cpus(thread, &cpus))
		store_seq_cst(&own_thread_lent, true);
	subtract_seq_cst(&lenders, 1);
}

/* The cpuset may have none of the CPUs any longer. */
static void own_thread_end_loan(void)
{
	if (!exchange_seq_cst(&own_thread_lent, false))
		return;
	loans++;
	if (kernel_set_cpus(0, &own_cpus))
		kernel_set_all_cpus();
}

/* A loan that is not marked yet ends with the next lock. */
void own_thread_take_back(void)
{
	if (own_thread_is_current())
		own_thread_end_loan();
}

void lock_take(pthread_mutex_t *lock)
{
	if (!load_relaxed(&own_thread)) {
		pthread_mutex_lock(lock);
		return;
	}
	for (long patience = OWN_THREAD_PATIENCE_NS; !system_lock_within(lock, patience);
	     patience = OWN_THREAD_AGAIN_NS)
		own_thread_lend_cpu();
}

void lock_drop(pthread_mutex_t *lock)
{
	pthread_mutex_unlock(lock);
	if (load_relaxed(&own_thread_lent))
		own_thread_take_back();
}

unsigned int own_thread_loans(void)
{
	return loans;
}

void own_thread_run_on(const struct kernel_cpus *cpus)
{
	own_cpus = *cpus;
	kernel_set_cpus(0, cpus);
}

void own_thread_begin(void)
{
	own_thread_here = true;
	store_seq_cst(&own_thread, kernel_thread());
}

void own_thread_end(void)
{
	store_seq_cst(&own_thread, 0);
	while (load_seq_cst(&lenders))
		kernel_sleep(OWN_THREAD_PATIENCE_NS);
	own_thread_end_loan();
}

void own_thread_renew(void)
{
	store_relaxed(&own_thread, 0);
	store_relaxed(&own_thread_lent, false);
	store_relaxed(&lenders, 0);
}
