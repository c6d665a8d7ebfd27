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
#include <stdint.h>

struct statistics {
#define STATISTIC(name, meaning) _Atomic uint64_t name;
#include "base/statistics.def"
#undef STATISTIC
};

extern struct statistics statistics;

/* What is counted on every use is counted by each thread for itself: a line of memory that all of them write would
 * cost more than what is counted. A thread has its line for good; those beyond TALLIES_OWN share the rest. */
enum tally {
#define TALLY(name, meaning) TALLY_##name,
#include "base/statistics.def"
#undef TALLY
	TALLY_COUNT
};

#define TALLIES_OWN 240

struct tallies {
	_Atomic uint64_t counts[TALLY_COUNT];
	_Atomic bool shared; /* with other threads: set once */
} __attribute__((aligned(64)));

_Static_assert(sizeof(struct tallies) == 64, "one line");

extern __thread struct tallies *statistics_mine
	__attribute__((tls_model("initial-exec"), visibility("hidden")));
struct tallies *statistics_join(void);

static inline void statistics_tally(enum tally tally)
{
	struct tallies *mine = statistics_mine;
	_Atomic uint64_t *count;

	if (__builtin_expect(!mine, 0))
		mine = statistics_join();
	count = &mine->counts[tally];
	if (__builtin_expect(atomic_load_explicit(&mine->shared, memory_order_relaxed), 0))
		atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
	else
		atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + 1,
				      memory_order_relaxed);
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
