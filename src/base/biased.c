/* SPDX-License-Identifier: BSD-3-Clause */
/* biased.c -- biased lock: stopping all owners */
#include "base/biased.h"

#include "base/atomics.h"
#include "base/kernel.h"

/* linux/membarrier.h, which may be older than the kernel. */
#define PRIVATE_EXPEDITED	   8
#define REGISTER_PRIVATE_EXPEDITED 16

#define PATIENCE 100		/* checks; a section takes some 10 ns while its thread runs */
#define PAUSE	 20000		/* ns */
#define VISIBLE	 (20 * 1000000) /* ns; every store is visible after that time */

void biased_begin(struct biased *all)
{
	store_release(&all->asymmetric, !kernel_barrier(REGISTER_PRIVATE_EXPEDITED));
}

static void biased_barrier(struct biased *all)
{
	atomic_thread_fence(memory_order_seq_cst);
	if (!load_relaxed(&all->asymmetric) || !kernel_barrier(PRIVATE_EXPEDITED))
		return;
	/* A filter that the program has set since registration refuses the call. */
	store_release(&all->asymmetric, false);
	kernel_sleep(VISIBLE);
}

void biased_stop(struct biased *all, bool has_owners)
{
	store_relaxed(&all->stopped, true);
	if (has_owners)
		biased_barrier(all);
}

/* An owner wakes no thread, so poll, and sleep to let its thread run. */
void biased_await(_Atomic uint32_t *busy, int thread)
{
	for (unsigned int looks = 0; load_acquire(busy); looks++) {
		if (looks < PATIENCE)
			continue;
		kernel_sleep(PAUSE);
		if (kernel_has_ended(thread))
			biased_leave(busy);
	}
}

void biased_go(struct biased *all)
{
	store_release(&all->stopped, false);
}
