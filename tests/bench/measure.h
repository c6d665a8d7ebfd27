/* SPDX-License-Identifier: BSD-3-Clause */
/* measure.h -- the clock and the threads of the harness */
#ifndef PEERPIN_TESTS_MEASURE_H
#define PEERPIN_TESTS_MEASURE_H

#include "bench.h"

/* CPUs of this process. */
unsigned int measure_cpus(void);

/* As bench_measure(); false: a wrong answer. `quick`: a hundredth of the time. */
bool measure(const struct bench_operation *ours, const struct bench_operation *peer,
	     struct bench_row *row, bool quick);

#endif
