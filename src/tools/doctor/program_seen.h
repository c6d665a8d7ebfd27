/* SPDX-License-Identifier: BSD-3-Clause */
/* program_seen.h -- collects what a run under peerpin wrote: ld.PID, PID.json, peerpin/PID.stats */
#ifndef PEERPIN_TOOLS_DOCTOR_PROGRAM_SEEN_H
#define PEERPIN_TOOLS_DOCTOR_PROGRAM_SEEN_H

#include <limits.h>

/* Counters and tallies that show an entry point in use, or its result. */
#define COUNTERS(COUNTER)                                                                          \
	COUNTER(allocations)                                                                       \
	COUNTER(frees)                                                                             \
	COUNTER(host_allocations)                                                                  \
	COUNTER(protection_domains)                                                                \
	COUNTER(host_requests)                                                                     \
	COUNTER(registrations)                                                                     \
	COUNTER(bypassed)                                                                          \
	COUNTER(bypasses)
#define TALLIES(TALLY)                                                                             \
	TALLY(requests)                                                                            \
	TALLY(hits)                                                                                \
	TALLY(queries_answered)                                                                    \
	TALLY(queries_forwarded)                                                                   \
	TALLY(look_ups)

enum counter {
#define NUMBER(name) COUNTER_##name,
	COUNTERS(NUMBER) TALLIES(NUMBER)
#undef NUMBER
		COUNTER_COUNT
};

struct seen {
	char folder[PATH_MAX - 300];
	unsigned long long counters[COUNTER_COUNT];
	unsigned int processes, linked, dlsym;
};

/* Counter's name in statistics.def. */
const char *program_counter_name(enum counter counter);

/* Reads all files of the folder, then removes files and folder. */
void program_seen_take(struct seen *seen);

#endif
