/* SPDX-License-Identifier: BSD-3-Clause */
/* statistics.h -- the counters of statistics.def and how they leave the process
 *
 * Any thread, any time, no lock: relaxed atomic additions. A reader sees each counter right, not all of one
 * instant. Writing the summary calls neither CUDA nor verbs, so it is safe in an exit handler.
 */
#ifndef PEERPIN_BASE_STATISTICS_H
#define PEERPIN_BASE_STATISTICS_H

#include <stdatomic.h>
#include <stdint.h>

struct statistics {
#define STATISTIC(name, meaning) _Atomic uint64_t name;
#include "base/statistics.def"
#undef STATISTIC
};

extern struct statistics statistics;

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
