/* SPDX-License-Identifier: BSD-3-Clause */
/* timeline.c -- timelines of the ranks, each since its own start: clocks of hosts differ
 *
 * Up to 16 ranks have a line each. All jobs have minimum, median, maximum and total at each of 96
 * moments. An exited rank keeps its counts and pins nothing. A killed rank keeps its pinned bytes
 * too: its end is unknown.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/jobs.h"
#include "tools/units.h"

enum {
	MOST_LINES = 16,
	MOMENTS = 96,
};

static const char *const series[] = { "registrations", "pinned_bytes", "requests", "hits" };

static json_t *timeline_samples(const struct record *record)
{
	return json_object_get(record->json, "timeline");
}

static int64_t timeline_number(const json_t *sample, const char *key)
{
	return json_integer_value(json_object_get(sample, key));
}

static int64_t timeline_moment(int64_t end, size_t at)
{
	return (int64_t)((double)end * (double)at / (MOMENTS - 1));
}

/* Store the value of a rank at each moment, `step` elements apart. */
static void timeline_values(const struct record *record, const char *key, int64_t end,
			    int64_t *values, size_t step)
{
	bool ends = !strcmp(key, "pinned_bytes") && record->end == RECORD_EXIT;
	int64_t elapsed = record_number(record, "elapsed_ns"), value = 0;
	const json_t *samples = timeline_samples(record), *sample;
	size_t next = 0;

	for (size_t i = 0; i < MOMENTS; i++) {
		while ((sample = json_array_get(samples, next)) &&
		       timeline_number(sample, "at_ns") <= timeline_moment(end, i)) {
			value = timeline_number(sample, key);
			next++;
		}
		values[i * step] = ends && elapsed < timeline_moment(end, i) ? 0 : value;
	}
}

static int64_t timeline_end(const struct job *job)
{
	int64_t end = 0;

	for (size_t i = 0; i < job->count; i++) {
		const json_t *samples = timeline_samples(job->ranks[i]);
		const json_t *last = json_array_get(samples, json_array_size(samples) - 1);

		if (last && timeline_number(last, "at_ns") > end)
			end = timeline_number(last, "at_ns");
	}
	return end;
}

static json_t *timeline_bands(const struct job *job, const char *key, int64_t end)
{
	json_t *min = json_array(), *median = json_array(), *max = json_array(),
	       *total = json_array();
	int64_t *values = zeroed(MOMENTS * job->count, sizeof(*values));

	for (size_t k = 0; k < job->count; k++)
		timeline_values(job->ranks[k], key, end, &values[k], job->count);
	for (size_t i = 0; i < MOMENTS; i++) {
		struct spread spread = spread_of(&values[i * job->count], job->count);

		json_array_append_new(min, json_integer(spread.min));
		json_array_append_new(median, json_integer(spread.median));
		json_array_append_new(max, json_integer(spread.max));
		json_array_append_new(total, json_integer(spread.total));
	}
	free(values);
	return json_pack("{s:o, s:o, s:o, s:o}", "min", min, "median", median, "max", max, "total",
			 total);
}

static json_t *timeline_lines(const struct job *job)
{
	json_t *list = json_array();

	for (size_t i = 0; i < job->count; i++) {
		json_t *line = json_object(), *samples = timeline_samples(job->ranks[i]), *sample;
		char *name = record_name(job->ranks[i]);
		size_t at;

		json_object_set_new(line, "name", json_string(name));
		free(name);
		json_object_set_new(line, "at_ns", json_array());
		json_array_foreach(samples, at, sample) {
			json_array_append(json_object_get(line, "at_ns"),
					  json_object_get(sample, "at_ns"));
		}
		for (size_t k = 0; k < 2; k++) {
			json_object_set_new(line, series[k], json_array());
			json_array_foreach(samples, at, sample) {
				json_array_append(json_object_get(line, series[k]),
						  json_object_get(sample, series[k]));
			}
		}
		json_array_append_new(list, line);
	}
	return list;
}

json_t *job_timeline(const struct job *job)
{
	json_t *timeline = json_object(), *moments;
	int64_t end = timeline_end(job);

	if (!end)
		return timeline;
	moments = json_array();
	for (size_t i = 0; i < MOMENTS; i++)
		json_array_append_new(moments, json_integer(timeline_moment(end, i)));
	json_object_set_new(timeline, "at_ns", moments);
	for (size_t k = 0; k < sizeof(series) / sizeof(*series); k++)
		json_object_set_new(timeline, series[k], timeline_bands(job, series[k], end));
	if (job->count <= MOST_LINES)
		json_object_set_new(timeline, "lines", timeline_lines(job));
	return timeline;
}
