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

enum {
	MOST_LINES = 16,
	MOMENTS = 96,
};

static json_t *timeline_samples(const struct record *record)
{
	return json_object_get(record->json, "timeline");
}

static int64_t timeline_moment(int64_t end, size_t at)
{
	const int64_t last = MOMENTS - 1, step = (int64_t)at;

	/* The product of end and step may exceed INT64_MAX. */
	return end / last * step + end % last * step / last;
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
		       number_of(sample, "at_ns") <= timeline_moment(end, i)) {
			value = number_of(sample, key);
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

		if (last && number_of(last, "at_ns") > end)
			end = number_of(last, "at_ns");
	}
	return end;
}

/* Take ownership of `value`. */
static void timeline_append(json_t *object, const char *key, json_t *value)
{
	json_array_append_new(json_object_get(object, key), value);
}

static json_t *timeline_bands(const struct job *job, const char *key, int64_t end)
{
	json_t *bands = json_pack("{s:[], s:[], s:[], s:[]}", "min", "median", "max", "total");
	int64_t *values = zeroed(MOMENTS * job->count, sizeof(*values));

	for (size_t k = 0; k < job->count; k++)
		timeline_values(job->ranks[k], key, end, &values[k], job->count);
	for (size_t i = 0; i < MOMENTS; i++) {
		struct spread spread = spread_of(&values[i * job->count], job->count);

		timeline_append(bands, "min", json_integer(spread.min));
		timeline_append(bands, "median", json_integer(spread.median));
		timeline_append(bands, "max", json_integer(spread.max));
		timeline_append(bands, "total", json_integer(spread.total));
	}
	free(values);
	return bands;
}

static json_t *timeline_lines(const struct job *job)
{
	static const char *const keys[] = { "at_ns", "registrations", "pinned_bytes" };
	json_t *list = json_array(), *sample;
	size_t at;

	for (size_t i = 0; i < job->count; i++) {
		json_t *line = json_pack("{s:s, s:[], s:[], s:[]}", "name",
					 record_name(job->ranks[i]), keys[0], keys[1], keys[2]);

		json_array_foreach(timeline_samples(job->ranks[i]), at, sample) {
			for (size_t k = 0; k < sizeof(keys) / sizeof(*keys); k++)
				timeline_append(line, keys[k],
						json_incref(json_object_get(sample, keys[k])));
		}
		json_array_append_new(list, line);
	}
	return list;
}

json_t *job_timeline(const struct job *job)
{
	static const char *const series[] = { "registrations", "pinned_bytes", "requests", "hits" };
	int64_t end = timeline_end(job);
	json_t *timeline;

	if (!end)
		return json_object();
	timeline = json_pack("{s:[]}", "at_ns");
	for (size_t i = 0; i < MOMENTS; i++)
		timeline_append(timeline, "at_ns", json_integer(timeline_moment(end, i)));
	for (size_t k = 0; k < sizeof(series) / sizeof(*series); k++)
		json_object_set_new(timeline, series[k], timeline_bands(job, series[k], end));
	if (job->count <= MOST_LINES)
		json_object_set_new(timeline, "lines", timeline_lines(job));
	return timeline;
}
