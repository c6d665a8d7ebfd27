/* SPDX-License-Identifier: BSD-3-Clause */
/* program.h -- random programs: their threads, and the expected counters */
#ifndef PEERPIN_TESTS_RANDOM_PROGRAM_H
#define PEERPIN_TESTS_RANDOM_PROGRAM_H

#include "random/model.h"

struct program {
	uint64_t seed;
	unsigned int threads;
	uint64_t operations; /* sum of all threads */
	bool forks;
	const uint8_t
		*bytes; /* NULL: choices from the seed; otherwise the single thread's choices */
	size_t size;
};

/* Run to the end, with nothing left, and add to *totals. The counters of the process must then
 * equal *totals, which starts with the process. */
void program_run(const struct program *program, struct model_totals *totals);

/* Threads are delayed at one of so many calls that take or release a lock; 0: at none (delays.c).
 */
void delays_begin(unsigned int one_in_so_many);

#endif
