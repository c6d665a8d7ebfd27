/* SPDX-License-Identifier: BSD-3-Clause */
/* print.h -- rows as a table for people, and as JSON */
#ifndef PEERPIN_TESTS_PRINT_H
#define PEERPIN_TESTS_PRINT_H

#include <stdio.h>

#include "bench.h"

void print_header(FILE *file, const char *bench);
void print_row(FILE *file, const struct bench_row *row);

/* On standard output. `more`: about the machine, or NULL. */
void print_json(const char *bench, const char *more, const struct bench_row *rows,
		unsigned int count);

#endif
