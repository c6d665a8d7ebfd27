/* SPDX-License-Identifier: BSD-3-Clause */
/* segment.h -- all that is counted, as it lies in memory and in the mapped file
 *
 * The library counts in one segment (statistics.h). From the first allocation on, its pages are those of a file in the runtime
 * folder (runtime.h), called PID.stats: what is counted is in the file at once, whatever ends the process, and others may
 * read it meanwhile (peerpin top, peerpin report). Who reads knows the layout by `layout`, a hash of every name and size in
 * here: a file of another build is refused, not misread.
 *
 * Everything is counted relaxed; a reader sees each number right, not all of one instant.
 */
#ifndef PEERPIN_BASE_SEGMENT_H
#define PEERPIN_BASE_SEGMENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SEGMENT_MAGIC  "PEERPIN1"
#define SEGMENT_SUFFIX ".stats"
#define SEGMENT_KEPT   ".kept" /* in front of that: of one whose results could not be written */

/* The last: another process of the job has told of this one. */
enum segment_state { SEGMENT_RUNNING, SEGMENT_ENDED, SEGMENT_TOLD };

/* Written once, before the file has its name; but for the last three. What others look at meanwhile is atomic. */
struct segment_header {
	char magic[8];
	uint64_t layout;
	uint64_t size;			   /* of the file */
	int32_t process, rank, local_rank; /* ranks: -1 if there is none */
	uint64_t process_start; /* in clock ticks since boot, as /proc tells: a process number comes back */
	uint64_t started_ns;	/* of CLOCK_REALTIME, when it became active */
	_Atomic uint64_t clock_ns; /* the same moment of statistics_clock; 0: not yet */
	char version[16], host[64], program[64], job[64];
	char settings[1024];	  /* NAME=VALUE lines: those that differ from their defaults */
	_Atomic uint32_t threads; /* lines of tallies that have been given out */
	_Atomic uint32_t state;
	_Atomic uint64_t ended_clock_ns;
};

struct segment_counters {
#define STATISTIC(name, unit, line, label, meaning) _Atomic uint64_t name;
#include "base/statistics.def"
#undef STATISTIC
};

enum tally {
#define TALLY(name, unit, line, label, meaning) TALLY_##name,
#include "base/statistics.def"
#undef TALLY
	TALLY_COUNT
};

/* Threads with a line of their own, and lines that the others share. */
#define TALLIES_OWN    1008
#define TALLIES_SHARED 16

struct tallies {
	_Atomic uint64_t counts[TALLY_COUNT];
	_Atomic int owner;	 /* the kernel's number of the thread */
} __attribute__((aligned(128))); /* processors fetch lines in pairs */

enum histogram {
#define HISTOGRAM(name, sum, meaning) HISTOGRAM_##name,
#include "base/statistics.def"
#undef HISTOGRAM
	HISTOGRAM_COUNT
};

/* Bucket i has the values whose highest bit is bit i; the first one 0, too. */
#define HISTOGRAM_BUCKETS 64

/* What is pinned of a GPU, known by its ordinal, and on an adapter, known by its name. */
struct segment_pinned {
	_Atomic uint64_t bytes, peak;
};

#define SEGMENT_GPUS	 64
#define SEGMENT_ADAPTERS 32
#define SEGMENT_PAIRS	 64
#define SEGMENT_NAME	 32
#define SEGMENT_REASON	 192

struct segment_adapter {
	_Atomic bool named; /* the name is whole */
	char name[SEGMENT_NAME];
	struct segment_pinned pinned;
};

/* By which way a GPU's memory was registered on an adapter. */
struct segment_pair {
	_Atomic bool known;   /* the rest of the first line is whole */
	int32_t gpu, adapter; /* the latter a place in `adapters` */
	char path[8]; /* of the PCI bus, as nvidia-smi calls it: PIX, PXB, PHB, NODE, SYS; "" unknown */
	_Atomic uint64_t dma_buf, peer_memory;
	/* Why it was last this way and not the other one. Whoever reads it meanwhile may see parts of two reasons. */
	_Atomic uint32_t reason_method; /* enum segment_way */
	_Atomic char reason[SEGMENT_REASON];
};

enum segment_method { SEGMENT_NO_WAY, SEGMENT_DMA_BUF, SEGMENT_PEER_MEMORY };

/* How it went over time: one sample for each stretch of 2^shift nanoseconds in which anything was registered or
 * deregistered: how much was registered at its end, and what had been asked for in the last quarter of it. */
#define SEGMENT_SAMPLES 128

struct segment_sample {
	_Atomic uint64_t at_ns; /* since the start; 0: nothing happened */
	_Atomic uint64_t registrations, pinned_bytes, requests, hits;
};

struct segment_timeline {
	_Atomic uint32_t shift;
	struct segment_sample samples[SEGMENT_SAMPLES];
};

/* The largest page: the file's pages take the place of the object's. */
#ifdef __aarch64__
#define SEGMENT_ALIGNMENT 65536
#else
#define SEGMENT_ALIGNMENT 4096
#endif

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

static inline uint64_t segment_value(const _Atomic uint64_t *place)
{
	return atomic_load_explicit(place, memory_order_relaxed);
}

/* What all threads have counted. */
uint64_t segment_tallied(const struct segment *segment, enum tally tally);

/* The place of the adapter of that name, shorter than IMAGE_NAME, in the segment; IMAGE_ADAPTERS: there is no room. That of a pair, NULL:
 * there is none: there are several of one GPU and one adapter in a sum, whose processes number GPUs for themselves, and the path is then
 * what tells them apart. Both take a free one if it has none yet: of those who may only one at a time. */
int segment_adapter(struct segment *segment, const char *name);
struct segment_pair *segment_pair(struct segment *segment, int gpu, int adapter, const char *path);

/* Why the pair's memory is registered this way and not the other one; the reason that is known of it, or NULL. */
void segment_set_reason(struct segment_pair *pair, enum segment_method method, const char *reason);
const char *segment_reason(const struct segment_pair *pair, enum segment_method method,
			   char to[SEGMENT_REASON]);

/* Adds another process's numbers. Peaks are added, too: a sum of peaks is the most that there can have been at once. */
void segment_add(struct segment *sum, const struct segment *other);

/* Why `size` bytes at `segment` cannot be read as one; NULL: they can. Everything of the header that is text ends in it. */
const char *segment_refused(const struct segment *segment, size_t size);

#endif
