/* SPDX-License-Identifier: BSD-3-Clause */
/* biased.c -- the side of a biased lock that stops all owners */
#include "base/biased.h"

#include "base/atomics.h"
#include "base/kernel.h"

/* linux/membarrier.h, which may be older than the kernel. */
#define PRIVATE_EXPEDITED	   8
#define REGISTER_PRIVATE_EXPEDITED 16

#define PATIENCE                                                                                   \
	100 /* looks at what is over in some ten nanoseconds, unless its thread does not run */
#define PAUSE	20000	       /* ns */
#define VISIBLE (20 * 1000000) /* ns: no processor keeps a store to itself for so long */

void biased_begin(struct biased *all)
{
	store_release(&all->asymmetric, !kernel_barrier(REGISTER_PRIVATE_EXPEDITED));
}

static void barrier(struct biased *all)
{
	atomic_thread_fence(memory_order_seq_cst);
	if (!load_relaxed(&all->asymmetric) || !kernel_barrier(PRIVATE_EXPEDITED))
		return;
	/* It was there, and is refused now: by a filter that the program has set since. */
	store_release(&all->asymmetric, false);
	kernel_sleep(VISIBLE);
}

void biased_stop(struct biased *all, bool has_owners)
{
	store_relaxed(&all->stopped, true);
	if (has_owners)
		barrier(all);
}

/* Wakes nobody, so it looks again, and lets the other run. */
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
