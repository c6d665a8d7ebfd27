/* SPDX-License-Identifier: BSD-3-Clause */
/* segment.h -- statistics segment: all counters, in memory that stays after the process
 *
 * The library counts in one segment (statistics.h). From the first allocation on, the segment's
 * pages are shared memory (shared_memory.h), named by PID.stats in the runtime folder (runtime.h).
 * Counts are there at once, however the process ends, and readable meanwhile (peerpin top, peerpin
 * report). A reader compares `layout`, a hash of all names and sizes here: the segment of another
 * build is refused, not misread.
 *
 * All counts are relaxed: a reader sees each number right, but not all of one instant.
 */
#ifndef PEERPIN_REPORT_SEGMENT_H
#define PEERPIN_REPORT_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomics.h"
#include "base/kernel.h"

#define SEGMENT_MAGIC "PEERPIN1"

/* SEGMENT_REPORTED: the host leader has reported the process, and removes its file. */
enum segment_state { SEGMENT_RUNNING, SEGMENT_ENDED, SEGMENT_REPORTED };

/* Written once before the file has its name, except the last 3 fields. Fields with concurrent
 * readers are atomic. */
struct segment_header {
	char magic[8];
	uint64_t layout;
	uint64_t size;			   /* bytes of the segment */
	int32_t process, rank, local_rank; /* ranks: -1: none */
	uint64_t process_start;		   /* clock ticks since boot; process numbers are reused */
	uint64_t started_ns;		   /* activation, by CLOCK_REALTIME */
	_Atomic uint64_t clock_ns;	   /* activation, by system_clock(); 0: not yet */
	char version[16], host[64], program[64], job[64];
	char settings[1024];	  /* NAME=VALUE lines of changed settings */
	_Atomic uint32_t threads; /* assigned lines of tallies */
	_Atomic uint32_t state;
	_Atomic uint64_t ended_clock_ns;
};

struct segment_counters {
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

/* Pinned bytes of a GPU (index: ordinal), or on an adapter (by name). */
struct segment_pinned {
	_Atomic uint64_t bytes, peak;
};

#define SEGMENT_GPUS	 64
#define SEGMENT_ADAPTERS 32
#define SEGMENT_PAIRS	 128
#define SEGMENT_NAME	 32
#define SEGMENT_METHOD	 16
#define SEGMENT_REASON	 192

struct segment_adapter {
	_Atomic bool named; /* the name is complete */
	char name[SEGMENT_NAME];
	struct segment_pinned pinned;
};

/* Registrations of a GPU's memory on an adapter by one method. */
struct segment_pair {
	_Atomic bool known;   /* gpu, adapter, path and method are complete */
	int32_t gpu, adapter; /* adapter: index into `adapters` */
	char path[8];	      /* topology_path() */
	char method[SEGMENT_METHOD];
	_Atomic uint64_t registrations;
	/* Latest reason against the preferred method; "": none. A concurrent reader may see parts
	 * of two reasons. */
	_Atomic char reason[SEGMENT_REASON];
};

/* One sample per interval of 2^shift ns with a registration or deregistration. `registrations` and
 * `pinned_bytes` are of the interval's last change; `requests` and `hits` are at most a quarter
 * interval older. */
#define SEGMENT_SAMPLES 128

struct segment_sample {
	_Atomic uint64_t at_ns; /* since activation; 0: no sample */
	_Atomic uint64_t registrations, pinned_bytes, requests, hits;
};

struct segment_timeline {
	_Atomic uint32_t shift;
	struct segment_sample samples[SEGMENT_SAMPLES];
};

/* Pages of shared memory replace the object's pages. */
#define SEGMENT_ALIGNMENT KERNEL_PAGE_MAX

struct segment {
	struct segment_header header;
	struct segment_counters counters;
	_Atomic uint64_t histograms[HISTOGRAM_COUNT][HISTOGRAM_BUCKETS];
	struct segment_pinned gpus[SEGMENT_GPUS];
	struct segment_adapter adapters[SEGMENT_ADAPTERS];
	struct segment_pair pairs[SEGMENT_PAIRS];
	struct segment_timeline timeline;
	struct tallies tallies[TALLIES_OWN + TALLIES_SHARED];
} __attribute__((aligned(SEGMENT_ALIGNMENT)));

uint64_t segment_layout(void);

/* ---- rows of statistics.def ---- */

enum segment_kind { SEGMENT_COUNTER, SEGMENT_TALLY, SEGMENT_GAUGE, SEGMENT_HISTOGRAM };

struct segment_row {
	unsigned int count; /* of rows so far */
	enum segment_kind kind;
	unsigned int place; /* offset in the segment; enum tally; enum histogram */
	const char *name, *meaning;
	const char *label; /* of a reason; "": none */
};

/* Set *row, of zeros before the first call, to the next row. Return false after the last one. */
bool segment_next_row(struct segment_row *row);

/* Return the number; of a histogram: the sum of its values. */
uint64_t segment_number(const struct segment *segment, const struct segment_row *row);

static inline uint64_t segment_value(const _Atomic uint64_t *value)
{
	return load_relaxed(value);
}

/* Return a tally's sum over all threads. */
uint64_t segment_tallied(const struct segment *segment, enum tally tally);

/* Return the slot of the adapter `name` (shorter than SEGMENT_NAME), taking a free slot if missing;
 * SEGMENT_ADAPTERS: no free slot. The caller serializes calls on a segment. */
int segment_adapter(struct segment *segment, const char *name);

/* Return the pair, taking a free slot if missing; NULL: no free slot. The caller serializes calls
 * on a segment. A sum may have several pairs with one GPU number and adapter, distinguished by the
 * path: each process numbers GPUs by itself. */
struct segment_pair *segment_pair(struct segment *segment, int gpu, int adapter, const char *path,
				  const char *method);

/* Reason why the pair uses its method instead of another: record it in place of earlier reasons of
 * this GPU and adapter, or copy it into `to`. segment_reason() returns NULL without a reason. */
void segment_set_reason(struct segment *segment, struct segment_pair *pair, const char *reason);
const char *segment_reason(const struct segment_pair *pair, char to[SEGMENT_REASON]);

/* Add the numbers of another process. The sum of peaks is an upper bound of the common peak. */
void segment_add(struct segment *sum, const struct segment *other);

/* Validate `size` bytes at `segment`: return the reason for a refusal; NULL: valid. All texts of a
 * valid segment are terminated. */
const char *segment_refused(const struct segment *segment, size_t size);

#endif
