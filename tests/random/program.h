/* SPDX-License-Identifier: BSD-3-Clause */
/* program.h -- random programs: what their threads do, and what the counters must show afterwards
 */
#ifndef PEERPIN_TESTS_RANDOM_PROGRAM_H
#define PEERPIN_TESTS_RANDOM_PROGRAM_H

#include "random/model.h"

struct program {
	uint64_t seed;
	unsigned int threads;
	uint64_t operations; /* of all threads together */
	bool forks;
	const uint8_t *bytes; /* NULL: the choices come from the seed; otherwise one thread has them
				 from here */
	size_t size;
};

/* Runs it to its end, at which nothing is left, and adds to *totals. Then the counters of the
 * process must be those of *totals, which began with the process. */
void program_run(const struct program *program, struct model_totals *totals);

#endif
