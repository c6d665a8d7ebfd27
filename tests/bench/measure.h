/* SPDX-License-Identifier: BSD-3-Clause */
/* measure.h -- the clock and the threads of the harness */
#ifndef PEERPIN_TESTS_MEASURE_H
#define PEERPIN_TESTS_MEASURE_H

#include "bench.h"

/* How many CPUs this process may use. */
unsigned int measure_cpus(void);

/* As bench_measure(); false if an answer was wrong. `quick`: for a hundredth of the time. */
bool measure(const struct bench_operation *ours, const struct bench_operation *peer,
	     struct bench_row *row, bool quick);

#endif
