/* SPDX-License-Identifier: BSD-3-Clause */
/* observe_tables.h -- inside the observe layer: the tables of the recorder
 *
 * observe.c fills them with its lock; observe_file.c writes them at exit.
 */
#ifndef PEERPIN_OBSERVE_TABLES_H
#define PEERPIN_OBSERVE_TABLES_H

#include <sys/queue.h>

#include "observe/observe.h"
#include "report/callers.h"

struct observed_sum {
	uint64_t count, bytes, ns;
};

/* ---- the tables ---- */

#define MEMORIES 65536u /* live allocations; number 0: none */
#define USES	 65536u
#define RANGES	 65536u
#define MRS	 65536u
#define DOMAINS	 256u
#define KINDS	 256u
#define SIZES	 1024u
#define PARTS	 4u

/* One row for each way in which a library registers. */
struct observed_kind {
	uint32_t caller;
	enum observed_form form;
	int access;
	bool gpu; /* false: host memory, or memory of an unknown address */
	char adapter[32];
	struct observed_sum made, ended;
	uint64_t failed, early; /* early: in the first second */
};

/* Allocations of one bin of kept memory, by keep_bin_size(). */
struct observed_size {
	uint64_t size;
	struct observed_sum allocated, freed;
	uint64_t sampled, sampled_ns, waited_ns; /* frees behind a wait */
	uint64_t reusable; /* frees whose memory no later allocation has taken, as kept memory */
	TAILQ_ENTRY(observed_size) in_order; /* with reusable memory: by the last free */
	uint64_t reusable_registered;
	struct observed_sum reused; /* allocations that kept memory would have served */
};

/* What the registrations of peerpin would have served. */
struct observed_saving {
	struct observed_sum served;	     /* of ranges that would have been registered */
	struct observed_sum background;	     /* first requests for new memory, in a domain in use */
	struct observed_sum kept;	     /* first requests for memory that was kept */
	struct observed_sum kept_background; /* both */
	struct observed_sum first;	     /* none of these */
};

/* The run in at most SAMPLES intervals, which are twice as long from then on where they would be
 * more. Sums by caller: the last one is of all further callers. */
#define SAMPLES		256u
#define SAMPLED_CALLERS 8u

struct observed_sample {
	uint64_t memory;		  /* most bytes of GPU memory in the interval */
	uint64_t pinned[SAMPLED_CALLERS]; /* likewise, registered */
	uint64_t registrations[SAMPLED_CALLERS];
};

struct observed_timeline {
	uint64_t interval, end;	      /* ns; end of the last interval, by the coarse clock */
	uint32_t count;		      /* of intervals that have begun */
	struct observed_sample level; /* now; without registrations */
	struct observed_sample samples[SAMPLES];
};

struct observed {
	uint64_t begun_ns, begun_clock; /* the first recorded call, by CLOCK_REALTIME and here */
	struct observed_sum allocated[ALLOCATION_HOST + 1], freed[ALLOCATION_HOST + 1];
	struct observed_sum exported[CALLERS];		      /* by caller, as the next two */
	uint64_t pinned_by[CALLERS], pinned_by_peak[CALLERS]; /* bytes of GPU memory */
	uint64_t memory, memory_peak, pinned, pinned_peak;    /* bytes of GPU memory */
	uint64_t kept, contexts_ended, lost;
	uint64_t unknown_frees; /* of memory without a record */
	struct observed_saving saving;
	struct observed_timeline timeline;
	uint32_t kind_count, size_count;
	struct observed_kind kinds[KINDS];
	struct observed_size sizes[SIZES];
};

/* Count live MRs as leaked, and memory as unsynchronized. NULL: nothing was recorded, or this
 * thread was interrupted while it recorded. Other threads may still record. */
const struct observed *observe_conclude(void);

#endif
