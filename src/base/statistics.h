/* SPDX-License-Identifier: BSD-3-Clause */
/* statistics.h -- the counters of statistics.def and how they leave the process
 *
 * Any thread, any time, no lock: relaxed atomic additions. A reader sees each counter right, not all of one
 * instant. Writing the summary calls neither CUDA nor verbs, so it is safe in an exit handler.
 */
#ifndef PEERPIN_BASE_STATISTICS_H
#define PEERPIN_BASE_STATISTICS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct statistics {
#define STATISTIC(name, meaning) _Atomic uint64_t name;
#include "base/statistics.def"
#undef STATISTIC
};

extern struct statistics statistics;

/* What is counted on every use is counted by each thread for itself: a line of memory that all of them write would
 * cost more than what is counted. The line of a thread that has ended is given to another one, which goes on counting where
 * that one was. Threads for whom there is none share a few. */
enum tally {
#define TALLY(name, meaning) TALLY_##name,
#include "base/statistics.def"
#undef TALLY
	TALLY_COUNT
};

#define TALLIES_OWN    1008
#define TALLIES_SHARED 16

struct tallies {
	_Atomic uint64_t counts[TALLY_COUNT];
	_Atomic int owner;	 /* the kernel's number of the thread */
	struct holder *kept;	 /* what the registration layer has for the owner (leases.c); of the owner alone, NULL at first */
} __attribute__((aligned(128))); /* processors fetch lines in pairs */

/* NULL: the thread has not counted yet, or has none of its own. */
extern __thread struct tallies *statistics_mine
	__attribute__((tls_model("initial-exec"), visibility("hidden")));
void statistics_tally_shared(enum tally tally);

static inline void statistics_tally_own(struct tallies *mine, enum tally tally)
{
	atomic_store_explicit(&mine->counts[tally],
			      atomic_load_explicit(&mine->counts[tally], memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

static inline void statistics_tally(enum tally tally)
{
	struct tallies *mine = statistics_mine;

	if (__builtin_expect(mine != NULL, 1))
		statistics_tally_own(mine, tally);
	else
		statistics_tally_shared(tally);
}

/* What all threads have counted. */
uint64_t statistics_tallied(enum tally tally);

#define statistics_add(name, amount)                                                                         \
	((void)atomic_fetch_add_explicit(&statistics.name, (uint64_t)(amount), memory_order_relaxed))
#define statistics_count(name) statistics_add(name, 1)
#define statistics_get(name)   atomic_load_explicit(&statistics.name, memory_order_relaxed)

/* Adds to pinned_bytes and keeps its peak; `amount` may be negative. */
void statistics_pinned(int64_t amount);

/* The counter called `name`, through *value. Returns 0, or -ENOENT if there is none. */
int statistics_find(const char *name, uint64_t *value);

/* Nanoseconds of a clock that only goes forward. */
uint64_t statistics_clock(void);

/* Prints the table on standard error and writes PEERPIN_STATS, as the settings say. */
void statistics_finish(void);

#endif
