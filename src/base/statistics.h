/* SPDX-License-Identifier: BSD-3-Clause */
/* statistics.h -- counting, and how the counters leave the process
 *
 * Any thread, any time, no lock: relaxed atomic additions. A reader sees each counter right, not all of one
 * instant. Writing the results calls neither CUDA nor verbs, so it is safe in an exit handler.
 */
#ifndef PEERPIN_BASE_STATISTICS_H
#define PEERPIN_BASE_STATISTICS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/segment.h"

/* This process's. */
extern struct segment statistics_segment __attribute__((visibility("hidden")));

/* What is counted on every use is counted by each thread for itself: a line of memory that all of them write would
 * cost more than what is counted. The line of a thread that has ended is given to another one, which goes on counting where
 * that one was. Threads for whom there is none share a few.
 * NULL: the thread has not counted yet, or has none of its own. */
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
static inline uint64_t statistics_tallied(enum tally tally)
{
	return segment_tallied(&statistics_segment, tally);
}

#define statistics_add(name, amount)                                                                         \
	((void)atomic_fetch_add_explicit(&statistics_segment.counters.name, (uint64_t)(amount),              \
					 memory_order_relaxed))
#define statistics_count(name) statistics_add(name, 1)
#define statistics_get(name)   segment_value(&statistics_segment.counters.name)

/* Of what may fall. */
#define statistics_take(name, amount)                                                                        \
	((void)atomic_fetch_sub_explicit(&statistics_segment.counters.name, (uint64_t)(amount),              \
					 memory_order_relaxed))

/* Counts one value, in the histogram of that name. */
#define statistics_sort(name, value) statistics_sort_into(HISTOGRAM_##name, (value))

static inline _Atomic uint64_t *statistics_bucket(enum histogram histogram, uint64_t value)
{
	unsigned int bucket = value ? 63 - (unsigned int)__builtin_clzll(value) : 0;

	return &statistics_segment.histograms[histogram][bucket];
}

static inline void statistics_sort_into(enum histogram histogram, uint64_t value)
{
	atomic_fetch_add_explicit(statistics_bucket(histogram, value), 1, memory_order_relaxed);
}

/* Counts it no longer. */
#define statistics_unsort(name, value)                                                                       \
	((void)atomic_fetch_sub_explicit(statistics_bucket(HISTOGRAM_##name, (value)), 1,                    \
					 memory_order_relaxed))

/* Both: so much time. */
#define statistics_time(name, nanoseconds, histogram)                                                        \
	do {                                                                                                 \
		uint64_t time_ = (nanoseconds);                                                              \
		statistics_add(name, time_);                                                                 \
		statistics_sort(histogram, time_);                                                           \
	} while (0)

/* The adapter of that name among those that are counted by name; -1: there is no room, or no name. */
int statistics_adapter(const char *name);

/* `bytes` of the GPU (its ordinal) were registered on the adapter (statistics_adapter), or below 0 are no longer: keeps all
 * that says how much is pinned, with its peaks, and how it went over time. */
void statistics_pinned(int gpu, int adapter, int64_t bytes);

/* A region of the GPU was registered on the adapter; `path` is that of the PCI bus (topology.h). `why` it was not the other
 * way; NULL: that is known, or there is no reason. */
void statistics_registered_by(int gpu, int adapter, const char *path, bool dma_buf, const char *reason);

/* The counter called `name`, through *value. Returns 0, or -ENOENT if there is none. */
int statistics_find(const char *name, uint64_t *value);

/* Nanoseconds of a clock that only goes forward. */
uint64_t statistics_clock(void);

/* From now on what is counted is in the runtime folder's file, too. Where there can be none it stays in memory, and is lost
 * if the process is killed, which statistics_begun() says: others wait during the first, and telling may take its time. Called once,
 * when the process becomes active. */
void statistics_begin(void);
void statistics_begun(void);

/* Where PEERPIN_STATS_FILE leads, as found out when the process became active: the program may change its folder. "": nowhere. *error: why
 * it leads nowhere, below 0. */
const char *statistics_results(int *error);

/* A forked child counts on for itself alone. In the child. */
void statistics_leave(void);

/* The runtime folder, opened, if the numbers are in a file that is still there; the caller closes it. Below 0: they are not. */
int statistics_folder(void);

/* Whether the file is there now. */
bool statistics_has_file(int folder);

/* Gives the file another name, which stays: `where`, from the root. False: there is no file, or it cannot have one. */
bool statistics_keep_file(char *where, size_t size);

/* Takes the file away: what is in it has been told. */
void statistics_remove_file(void);

/* Prints the table on standard error and writes PEERPIN_STATS_FILE, as the settings say. */
void statistics_finish(void);

#endif
