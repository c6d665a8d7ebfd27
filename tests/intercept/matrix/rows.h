/* SPDX-License-Identifier: BSD-3-Clause */
/* rows.h -- for each row of the table an effect on the library's counters that only its call has */
#ifndef PEERPIN_TESTS_ROWS_H
#define PEERPIN_TESTS_ROWS_H

#include <stdbool.h>

#include "memory/cuda_abi.h"

/* One lookup path's function for each row. */
struct functions {
#define ENTRY_CUDA(symbol, ...) __typeof__(symbol) *symbol;
#include "intercept/entry_points.def"
#undef ENTRY_CUDA
};

struct row {
	const char *symbol;
	int since; /* first CUDA version for cuGetProcAddress */
};

extern const struct row rows[];
extern const int row_count;

/* Initialise CUDA, without a context. -1: a line on standard output gives the reason. */
int rows_begin(void);

/* Call every row through `functions`, compare the counters, print failed rows, count. */
void rows_run(const char *path, const struct functions *functions, int *passed, int *failed);

/* Rows that this driver does not support. */
int rows_skipped(void);

/* Whether the driver itself has the function. */
bool rows_driver_has(const char *symbol);

#endif
