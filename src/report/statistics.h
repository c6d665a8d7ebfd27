/* SPDX-License-Identifier: BSD-3-Clause */
/* statistics.h -- counters of this process, and their output
 *
 * Any thread, any time, no lock: relaxed atomic additions. A reader sees each counter right, but
 * not all of one instant. Writing the results calls neither CUDA nor verbs: safe in an exit
 * handler.
 */
#ifndef PEERPIN_REPORT_STATISTICS_H
#define PEERPIN_REPORT_STATISTICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomics.h"
#include "report/segment.h"

/* Segment of this process. */
extern struct segment statistics_segment __attribute__((visibility("hidden")));

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

static inline void statistics_tally_own(struct tallies *own, enum tally tally)
{
	store_relaxed(&own->counts[tally], load_relaxed(&own->counts[tally]) + 1);
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
static inline uint64_t statistics_tallied(enum tally tally)
{
	return segment_tallied(&statistics_segment, tally);
}

#define statistics_add(name, amount)                                                               \
	((void)add_relaxed(&statistics_segment.counters.name, (uint64_t)(amount)))
#define statistics_count(name) statistics_add(name, 1)
#define statistics_get(name)   segment_value(&statistics_segment.counters.name)

/* Subtract from a counter that may fall. */
#define statistics_take(name, amount)                                                              \
	((void)subtract_relaxed(&statistics_segment.counters.name, (uint64_t)(amount)))

static inline _Atomic uint64_t *statistics_bucket(enum histogram histogram, uint64_t value)
{
	unsigned int bucket = value ? 63 - (unsigned int)__builtin_clzll(value) : 0;

	return &statistics_segment.histograms[histogram][bucket];
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

/* Add `bytes` registered on the adapter (statistics_adapter()) of the GPU (ordinal); negative:
 * deregistered. Updates pinned bytes, peaks and the timeline. */
void statistics_pinned(int gpu, int adapter, int64_t bytes);

/* Return the counter of the regions of the GPU that `method` has registered on the adapter; NULL:
 * not counted. `path`: PCI path (topology.h). `reason`: fallback reason; NULL: recorded before, or
 * none. */
_Atomic uint64_t *statistics_registered_by(int gpu, int adapter, const char *path,
					   const char *method, const char *reason);

/* Read the counter `name` into *value. Return 0 or -ENOENT. */
int statistics_find(const char *name, uint64_t *value);

/* Move the segment into shared memory, named by a file of the runtime folder. Call once, at
 * activation, while other threads wait. Without a file the counts stay in memory and are lost if
 * the process is killed. statistics_begun() logs that loss afterwards: logging may block. */
void statistics_begin(void);
void statistics_begun(void);

/* Return the absolute file name from PEERPIN_STATS_FILE, fixed at activation: the program may
 * change its folder. "": none. *error: 0, or -errno if the name is invalid. */
const char *statistics_results(int *error);

/* Return true if the segment's file names the segment. A third party may have cleaned the folder.
 */
bool statistics_has_file(void);

/* Copy the segment into a lasting file; its absolute name: `where`. Return false without a file of
 * the segment or a free name. */
bool statistics_keep_file(char *where, size_t size);

/* Remove the segment's file, and the segment with this process. After the report. */
void statistics_remove_file(void);

/* Print the summary on standard error and write PEERPIN_STATS_FILE, as set. Call at exit. */
void statistics_finish(void);

#endif
