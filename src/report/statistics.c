/* SPDX-License-Identifier: BSD-3-Clause */
/* statistics.c -- counters: tallies per thread, look-up by name */
#include "report/statistics.h"

#include <errno.h>
#include <stddef.h>

#include "base/atomics.h"
#include "base/kernel.h"
#include "base/text.h"

struct segment statistics_segment;

__thread struct tallies *statistics_mine __attribute__((tls_model("initial-exec")));
#define lines (statistics_segment.tallies)

/* Take over the line of an ended thread; the kernel reports whether the owner exists. A reused
 * thread number protects the old owner's line until the new thread ends as well. NULL: none in 64
 * tries. */
static struct tallies *statistics_inherit(int thread)
{
	static _Atomic uint32_t next;
	struct tallies *found;
	int owner;

	for (int tries = 0; tries < 64; tries++) {
		found = &lines[add_relaxed(&next, 1) % TALLIES_OWN];
		owner = load_relaxed(&found->owner);
		if (owner && kernel_has_ended(owner) &&
		    replace_seq_cst(&found->owner, &owner, thread))
			return found;
	}
	return NULL;
}

static struct tallies *statistics_join(int thread)
{
	_Atomic uint32_t *threads = &statistics_segment.header.threads;
	struct tallies *own;
	uint32_t number = load_relaxed(threads);

	if (number < TALLIES_OWN)
		number = add_relaxed(threads, 1);
	if (number >= TALLIES_OWN)
		return statistics_inherit(thread);
	own = &lines[number];
	store_relaxed(&own->owner, thread);
	return own;
}

void statistics_tally_shared(enum tally tally)
{
	static __thread int thread __attribute__((tls_model("initial-exec")));

	if (!thread) {
		thread = kernel_thread();
		statistics_mine = statistics_join(thread);
		if (statistics_mine) {
			statistics_tally_own(statistics_mine, tally);
			return;
		}
	}
	add_relaxed(&lines[TALLIES_OWN + thread % TALLIES_SHARED].counts[tally], 1);
}

int statistics_find(const char *name, uint64_t *value)
{
	for (struct segment_row row = { .count = 0 }; segment_next_row(&row);) {
		if (row.kind == SEGMENT_HISTOGRAM || !text_equals(row.name, name))
			continue;
		*value = segment_number(&statistics_segment, &row);
		return 0;
	}
	return -ENOENT;
}
