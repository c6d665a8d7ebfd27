/* SPDX-License-Identifier: BSD-3-Clause */
/* rows.c -- values that a report compares between processes, and rows of tables with one process
 * each */
#include "tools/rows.h"

#include <stdlib.h>
#include <string.h>

const struct metric metrics[] = {
#define METRIC(key, label, unit, row, outlier) { #key, label, unit, row, outlier },
#include "tools/metrics.def"
#undef METRIC
	{ 0 },
};

void add_number(json_t *sums, const char *key, int64_t number)
{
	int64_t sum = json_integer_value(json_object_get(sums, key));

	json_object_set_new(sums, key, json_integer(add_capped(sum, number)));
}

bool metric_value(const json_t *process, const char *key, int64_t *value)
{
	int64_t requests;

	if (strcmp(key, "hit_rate")) {
		*value = json_integer_value(json_object_get(process, key));
		return true;
	}
	requests = json_integer_value(json_object_get(process, "requests"));
	if (requests)
		*value = share_of(json_integer_value(json_object_get(process, "hits")), requests,
				  10000);
	return requests;
}

static char *row_cell(const json_t *process, const struct column *column)
{
	const json_t *value = json_object_get(process, column->key);
	int64_t number;

	if (json_is_string(value))
		/* The cut may be inside of a character. */
		return clean(text_of("%.*s", column->width < 0 ? -column->width : 100,
				     json_string_value(value)));
	if (json_is_null(value) || !metric_value(process, column->key, &number))
		return text_of("-");
	return show(column->unit, number);
}

char *row_of(const struct column *columns, const json_t *process, unsigned int omitted)
{
	char *row = text_of("%s", "");

	for (const struct column *column = columns; column->title; column++) {
		if (omitted & 1U << (column - columns))
			continue;
		row = text_of("%s%s%s", row,
			      column == columns ? ""
			      : column->width	? " "
						: "  ",
			      padded(column->width,
				     process ? row_cell(process, column) : column->title));
	}
	return row;
}
