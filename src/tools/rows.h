/* SPDX-License-Identifier: BSD-3-Clause */
/* rows.h -- values that a report compares between processes, and rows of tables with one process
 * each */
#ifndef PEERPIN_TOOLS_ROWS_H
#define PEERPIN_TOOLS_ROWS_H

#include <jansson.h>
#include <stdbool.h>

#include "base/capped.h"
#include "tools/units.h"

struct metric {
	const char *key, *label;
	enum unit unit;
	enum { ALWAYS, NONZERO } row;
	enum { HIGH, LOW, ANY, NEVER } outlier;
};

/* The rows of metrics.def, up to one without a key. */
extern const struct metric metrics[];

/* The sum is capped (base/capped.h). */
void add_number(json_t *sums, const char *key, int64_t number);
/* Value of a key in the record of a process, or hit_rate in hundredths of a percent. False if
 * undefined: hit_rate without requests. */
bool metric_value(const json_t *process, const char *key, int64_t *value);

/* Negative width: left-aligned, texts are cut. 0, the last column: not padded. */
struct column {
	const char *title, *key;
	enum unit unit;
	int width;
};

/* Prints the titles of the columns up to one without a title, or the values of a process. Columns
 * in the bit mask `omitted` are left out. */
char *row_of(const struct column *columns, const json_t *process, unsigned int omitted);

#endif
