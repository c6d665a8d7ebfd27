/* SPDX-License-Identifier: BSD-3-Clause */
/* rows.h -- for each row of the table something that only its call can have done, seen by the
 * library */
#ifndef PEERPIN_TESTS_ROWS_H
#define PEERPIN_TESTS_ROWS_H

#include <stdbool.h>

#include "memory/cuda_abi.h"

/* What one way of calling has for each row. */
struct functions {
#define ENTRY_CUDA(symbol, ...) __typeof__(symbol) *symbol;
#include "intercept/entry_points.def"
#undef ENTRY_CUDA
};

struct row {
	const char *symbol;
	int since; /* the first CUDA version that cuGetProcAddress gives it for */
};

extern const struct row rows[];
extern const int row_count;

/* Begins CUDA, without a context. 0, or -1 with a line that says why. */
int rows_begin(void);

/* Calls every row through `functions` and looks whether the library has heard. Prints what it has
 * not; counts. */
void rows_run(const char *way, const struct functions *functions, int *passed, int *failed);

/* How many rows could not be tried with this driver. */
int rows_skipped(void);

/* Whether the driver itself, without the library, has such a function. */
bool rows_driver_has(const char *symbol);

#endif
