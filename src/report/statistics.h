/* SPDX-License-Identifier: BSD-3-Clause */
/* statistics.h -- counters of this process, and their way out of it
 *
 * Any thread, any time, no lock: relaxed atomic additions to plain memory. A reader sees each
 * counter right, but not all of one instant.
 *
 * A snapshot of all numbers goes to a file of the runtime folder (runtime.h), at most twice a
 * second, from calls that are slow anyway, and at exit: JSON, as in PEERPIN_STATS_FILE. Each
 * snapshot is a new file that takes the place of the last one, so that a reader never sees a half,
 * and no other process can harm this one. A kill loses what came after the latest one. Nothing here
 * calls CUDA or verbs: safe in an exit handler.
 */
#ifndef PEERPIN_REPORT_STATISTICS_H
#define PEERPIN_REPORT_STATISTICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomics.h"

struct statistics_counters {
#define STATISTIC(name, unit, meaning) _Atomic uint64_t name;
#include "report/statistics.def"
#undef STATISTIC
};

enum tally {
#define TALLY(name, unit, meaning) TALLY_##name,
#include "report/statistics.def"
#undef TALLY
	TALLY_COUNT
};

/* Lines owned by one thread each, and lines shared by all further threads. */
#define TALLIES_OWN    1008
#define TALLIES_SHARED 16

struct tallies {
	_Atomic uint64_t counts[TALLY_COUNT];
	_Atomic int owner;	 /* gettid() of the thread */
} __attribute__((aligned(128))); /* processors prefetch lines in pairs */

enum histogram {
#define HISTOGRAM(name, sum, meaning) HISTOGRAM_##name,
#include "report/statistics.def"
#undef HISTOGRAM
	HISTOGRAM_COUNT
};

/* Bucket i counts values with bit i as highest bit; bucket 0 also counts 0. */
#define HISTOGRAM_BUCKETS 64

#define STATISTICS_ADAPTERS 32
#define STATISTICS_PAIRS    128
#define STATISTICS_NAME	    32
#define STATISTICS_METHOD   16
#define STATISTICS_REASON   192

struct statistics_adapter {
	_Atomic bool named; /* the name is complete */
	char name[STATISTICS_NAME];
};

/* Registrations of a GPU's memory on an adapter by one method. */
struct statistics_pair {
	_Atomic bool known;   /* gpu, adapter, path and method are complete */
	int32_t gpu, adapter; /* adapter: index into `adapters` */
	char path[8];	      /* topology_path() */
	char method[STATISTICS_METHOD];
	_Atomic uint64_t registrations;
	/* Latest reason against the preferred method; "": none. A concurrent reader may see parts
	 * of two reasons. */
	_Atomic char reason[STATISTICS_REASON];
};

/* Written once, at activation. */
struct statistics_process {
	int32_t number, rank, local_rank, local_size; /* -1: none, or unknown */
	uint64_t name_space;			      /* of the number: an inode; 0: unknown */
	uint64_t start;				      /* ticks since boot; numbers are reused */
	uint64_t started_ns;			      /* activation, by CLOCK_REALTIME */
	uint64_t clock_ns;			      /* activation, by system_clock() */
	char version[16], host[64], program[64], job[64];
	char settings[1024]; /* NAME=VALUE lines of changed settings */
};

extern struct statistics {
	_Atomic uint32_t threads; /* assigned lines of tallies */
	struct statistics_process process;
	struct statistics_counters counters;
	_Atomic uint64_t histograms[HISTOGRAM_COUNT][HISTOGRAM_BUCKETS];
	struct statistics_adapter adapters[STATISTICS_ADAPTERS];
	struct statistics_pair pairs[STATISTICS_PAIRS];
	struct tallies tallies[TALLIES_OWN + TALLIES_SHARED];
} statistics __attribute__((visibility("hidden")));

/* ---- rows of statistics.def ---- */

enum statistics_kind {
	STATISTICS_COUNTER,
	STATISTICS_TALLY,
	STATISTICS_GAUGE,
	STATISTICS_HISTOGRAM
};

struct statistics_row {
	unsigned int count; /* of rows so far */
	enum statistics_kind kind;
	unsigned int place; /* offset in `statistics`; enum tally; enum histogram */
	const char *name, *meaning;
	const char *label; /* of a reason; "": none */
};

/* Set *row, of zeros before the first call, to the next row. Return false after the last one. */
bool statistics_next_row(struct statistics_row *row);

/* Return the number of a row that is no histogram. */
uint64_t statistics_number(const struct statistics_row *row);

/* Read the counter `name` into *value. Return 0 or -ENOENT. */
int statistics_find(const char *name, uint64_t *value);

/* ---- counting ---- */

/* Write a snapshot if the latest one is half a second old. A write may block: call without a lock.
 */
void statistics_snapshot(void);

/* Frequent events are counted per thread: a shared cache line would cost more than the counted
 * event. A new thread takes over the line of an ended one, with its counts. Threads without a line
 * of their own share a few. NULL: the thread has not counted yet, or has no line of its own. */
extern __thread struct tallies *statistics_mine
	__attribute__((tls_model("initial-exec"), visibility("hidden")));
void statistics_tally_shared(enum tally tally);

/* A number of the calling thread, to spread shared data over threads; 0 before its first tally. */
static inline unsigned int statistics_thread(void)
{
	return (unsigned int)((uintptr_t)statistics_mine / sizeof(struct tallies));
}

/* A process may do nothing but hit for hours: every 16th request of a thread may write a snapshot.
 */
#define STATISTICS_SNAPSHOT_EVERY 16

static inline void statistics_tally_own(struct tallies *own, enum tally tally)
{
	uint64_t count = load_relaxed(&own->counts[tally]) + 1;

	store_relaxed(&own->counts[tally], count);
	if (tally == TALLY_requests && __builtin_expect(!(count % STATISTICS_SNAPSHOT_EVERY), 0))
		statistics_snapshot();
}

/* Inlined by force: a hit has two, for which the compiler would emit calls. */
static inline __attribute__((always_inline)) void statistics_tally(enum tally tally)
{
	struct tallies *own = statistics_mine;

	if (__builtin_expect(own != NULL, 1))
		statistics_tally_own(own, tally);
	else
		statistics_tally_shared(tally);
}

/* Return a tally's sum over all threads. */
uint64_t statistics_tallied(enum tally tally);

#define statistics_add(name, amount)                                                               \
	((void)add_relaxed(&statistics.counters.name, (uint64_t)(amount)))
#define statistics_count(name) statistics_add(name, 1)
#define statistics_get(name)   load_relaxed(&statistics.counters.name)

static inline _Atomic uint64_t *statistics_bucket(enum histogram histogram, uint64_t value)
{
	unsigned int bucket = value ? 63 - (unsigned int)__builtin_clzll(value) : 0;

	return &statistics.histograms[histogram][bucket];
}

/* Count `value` in the histogram `name`. */
#define statistics_sort(name, value)                                                               \
	((void)add_relaxed(statistics_bucket(HISTOGRAM_##name, (value)), 1))

/* Remove `value` from the histogram `name`. */
#define statistics_unsort(name, value)                                                             \
	((void)subtract_relaxed(statistics_bucket(HISTOGRAM_##name, (value)), 1))

/* Add a time to the counter `name` and count the time in `histogram`. */
#define statistics_time(name, nanoseconds, histogram)                                              \
	do {                                                                                       \
		uint64_t time_ = (nanoseconds);                                                    \
		statistics_add(name, time_);                                                       \
		statistics_sort(histogram, time_);                                                 \
	} while (0)

/* Return the slot of the adapter `name`; -1: no free slot, or `name` is empty or too long. */
int statistics_adapter(const char *name);

/* Add `bytes` registered; negative: deregistered. Updates pinned bytes and their peak. */
void statistics_pinned(int64_t bytes);

/* Return the counter of the regions of the GPU that `method` has registered on the adapter; NULL:
 * not counted. `path`: PCI path (topology.h). `reason`: fallback reason; NULL: recorded before, or
 * none. */
_Atomic uint64_t *statistics_registered_by(int gpu, int adapter, const char *path,
					   const char *method, const char *reason);

/* Copy the pair's fallback reason into `to`; NULL: it has none. */
const char *statistics_reason(const struct statistics_pair *pair, char to[STATISTICS_REASON]);

/* ---- out of the process (summary.c) ---- */

/* Describe the process and write the first snapshot. Call once, at activation, while other threads
 * wait. statistics_begun() logs the lack of a folder afterwards: logging may block. */
void statistics_begin(void);
void statistics_begun(void);

/* For a process that only observes (observe.c): describe it and write the first snapshot; remove
 * that at exit; forget it in a child. */
void statistics_begin_observed(void);
void statistics_finish_observed(void);
void statistics_renew_observed(void);

/* At exit: print the summary on standard error and write PEERPIN_STATS_FILE, as set, and the last
 * snapshot. That stays for peerpin report, unless PEERPIN_STATS_FILE has the numbers, or the
 * process has opened no adapter. */
void statistics_finish(void);

#endif
