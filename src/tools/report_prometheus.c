/* SPDX-License-Identifier: BSD-3-Clause */
/* report_prometheus.c -- sums of each job as Prometheus text for the textfile collector */
#include <errno.h>
#include <string.h>

#include "base/capped.h"
#include "base/plain_text.h"
#include "report/output.h"
#include "report/statistics.h"
#include "tools/records.h"
#include "tools/report_forms.h"
#include "tools/units.h"

static int report_prometheus_write(void *argument, const char *bytes, size_t length)
{
	return fwrite(bytes, 1, length, argument) == length ? 0 : -EIO;
}

/* Escape quote and backslash, as the text format requires. Texts of a record are clean. */
static void report_prometheus_add_label(struct output *output, const char *name, const char *value)
{
	output_add(output, "%s=\"", name);
	for (; *value; value++)
		output_add(output, *value == '"' || *value == '\\' ? "\\%c" : "%c", *value);
	output_add(output, "\"");
}

/* Begin the labels of a job. Start times distinguish runs without a job name: these never
 * overlap. */
static void report_prometheus_add_labels(struct output *output, const json_t *job)
{
	const char *name = string_of(job, "job");

	output_add(output, "{");
	if (name)
		report_prometheus_add_label(output, "job_id", name);
	else
		output_add(output, "started_ns=\"%lld\"", (long long)number_of(job, "started_ns"));
	output_add(output, ",");
	report_prometheus_add_label(output, "program", string_of(job, "program") ?: "");
}

static const char *report_prometheus_end_of_name(const char *type)
{
	return strcmp(type, "counter") ? "" : "_total";
}

static void report_prometheus_begin_metric(struct output *output, const char *name,
					   const char *type, const char *meaning)
{
	const char *end = report_prometheus_end_of_name(type);

	output_add(output, "# HELP peerpin_%s%s %s\n# TYPE peerpin_%s%s %s\n", name, end, meaning,
		   name, end, type);
}

static bool report_prometheus_is_name(const char *key)
{
	return *key && strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(key);
}

/* Records of another version may hold unknown counters. */
struct counter {
	const char *name, *type, *meaning;
};

static struct counter report_prometheus_find(const char *name)
{
	for (struct statistics_row row = { .count = 0 }; statistics_next_row(&row);) {
		if (row.kind != STATISTICS_HISTOGRAM && !strcmp(row.name, name))
			return (struct counter){ name,
						 row.kind == STATISTICS_GAUGE ? "gauge" : "counter",
						 row.meaning };
	}
	return (struct counter){ name, "counter", "a counter of another version" };
}

/* Values of a job beside its sums. In the output of one process, "used" is 0 or 1. */
static const struct fact {
	const char *key, *name, *meaning;
} facts[] = {
	{ "processes", "processes", "processes of the job" },
	{ "running", "processes_running", "those that still run" },
	{ "killed", "processes_killed", "those that left no final record" },
	{ "used", "processes_used", "those that used GPUDirect RDMA through peerpin" },
};

/* Print one header for each name and one line for each job. The format requires all lines of a name
 * together. */
static void report_prometheus_add_family(struct output *output, const json_t *jobs, const char *key,
					 const struct fact *fact)
{
	struct counter counter = fact ? (struct counter){ fact->name, "gauge", fact->meaning }
				      : report_prometheus_find(key);
	const json_t *job;
	size_t at;

	report_prometheus_begin_metric(output, counter.name, counter.type, counter.meaning);
	json_array_foreach(jobs, at, job) {
		const json_t *value =
			json_object_get(fact ? job : json_object_get(job, "totals"), key);

		if (!json_is_integer(value))
			continue;
		output_add(output, "peerpin_%s%s", counter.name,
			   report_prometheus_end_of_name(counter.type));
		report_prometheus_add_labels(output, job);
		output_add(output, "} %lld\n", (long long)json_integer_value(value));
	}
}

/* ---- histograms ---- */

/* Sum of the values of a histogram. */
static int64_t report_prometheus_sum(const json_t *job, enum histogram histogram)
{
	const json_t *totals = json_object_get(job, "totals");
	int64_t sum = 0;

	switch (histogram) {
#define COUNTED(name) number_of(totals, #name)
#define HISTOGRAM(name, value, meaning)                                                            \
	case HISTOGRAM_##name:                                                                     \
		sum = value;                                                                       \
		break;
#include "report/statistics.def"
#undef HISTOGRAM
#undef COUNTED
	case HISTOGRAM_COUNT:
		break;
	}
	return sum;
}

static void report_prometheus_add_value(struct output *output, const json_t *job, const char *name,
					const char *end, int64_t value)
{
	output_add(output, "peerpin_%s_distribution%s", name, end);
	report_prometheus_add_labels(output, job);
	output_add(output, "} %lld\n", (long long)value);
}

static void report_prometheus_add_bucket(struct output *output, const json_t *job, const char *name,
					 const char *bound, int64_t below)
{
	output_add(output, "peerpin_%s_distribution_bucket", name);
	report_prometheus_add_labels(output, job);
	output_add(output, ",le=\"%s\"} %lld\n", bound, (long long)below);
}

static void report_prometheus_add_buckets(struct output *output, const json_t *job,
					  const struct statistics_row *row)
{
	const json_t *buckets = json_object_get(json_object_get(job, "histograms"), row->name);
	size_t used = json_array_size(buckets);
	int64_t below = 0;

	for (size_t i = 0; i < used; i++) {
		below = add_capped(below, json_integer_value(json_array_get(buckets, i)));
		/* Keep the empty bucket before the first nonzero one: its bound is the lower
		 * limit. */
		if (!below && i + 1 < used && !json_integer_value(json_array_get(buckets, i + 1)))
			continue;
		report_prometheus_add_bucket(output, job, row->name,
					     text_of("%llu", ((unsigned long long)2 << i) - 1),
					     below);
	}
	report_prometheus_add_bucket(output, job, row->name, "+Inf", below);
	report_prometheus_add_value(output, job, row->name, "_sum",
				    report_prometheus_sum(job, (enum histogram)row->place));
	report_prometheus_add_value(output, job, row->name, "_count", below);
}

/* Append _distribution to the name: a counter may have the histogram's name. */
static void report_prometheus_add_histograms(struct output *output, const json_t *jobs)
{
	const json_t *job;
	size_t at;

	for (struct statistics_row row = { .count = 0 }; statistics_next_row(&row);) {
		if (row.kind != STATISTICS_HISTOGRAM || !json_array_size(jobs))
			continue;
		report_prometheus_begin_metric(output, text_of("%s_distribution", row.name),
					       "histogram", row.meaning);
		json_array_foreach(jobs, at, job) {
			report_prometheus_add_buckets(output, job, &row);
		}
	}
}

/* ---- GPUs and adapters ---- */

static void report_prometheus_add_pairs(struct output *output, const json_t *jobs)
{
	static const char name[] = "pair_registrations";
	static const char *const labels[] = { "host", "adapter", "method", "path" };
	const json_t *job, *pair;
	size_t at, k;

	if (json_array_size(jobs))
		report_prometheus_begin_metric(output, name, "counter",
					       "regions of the GPU registered on the adapter, by "
					       "the method and its path");
	json_array_foreach(jobs, at, job) {
		json_array_foreach(json_object_get(job, "pairs"), k, pair) {
			output_add(output, "peerpin_%s_total", name);
			report_prometheus_add_labels(output, job);
			output_add(output, ",gpu=\"%lld\"", (long long)number_of(pair, "gpu"));
			for (size_t i = 0; i < sizeof(labels) / sizeof(*labels); i++) {
				output_add(output, ",");
				report_prometheus_add_label(output, labels[i],
							    string_of(pair, labels[i]) ?: "");
			}
			output_add(output, "} %lld\n", (long long)number_of(pair, "registrations"));
		}
	}
}

void report_prometheus(const json_t *report, FILE *out)
{
	struct output output = { .take = report_prometheus_write, .argument = out };
	json_t *jobs = json_object_get(report, "jobs"), *names = json_object(), *job, *value;
	const char *key;
	size_t at;

	json_array_foreach(jobs, at, job) {
		json_object_update_missing(names, json_object_get(job, "totals"));
	}
	for (at = 0; json_array_size(jobs) && at < sizeof(facts) / sizeof(*facts); at++)
		report_prometheus_add_family(&output, jobs, facts[at].key, &facts[at]);
	json_object_foreach(names, key, value) {
		if (report_prometheus_is_name(key))
			report_prometheus_add_family(&output, jobs, key, NULL);
	}
	report_prometheus_add_histograms(&output, jobs);
	report_prometheus_add_pairs(&output, jobs);
	output_end(&output);
	json_decref(names);
}
