/* SPDX-License-Identifier: BSD-3-Clause */
/* report_prometheus.c -- sums of each job as Prometheus text for the textfile collector */
#include <stdlib.h>
#include <string.h>

#include "tools/report_forms.h"
#include "tools/units.h"

/* Escape line feed, quote and backslash, as the format requires. */
static void report_prometheus_print_label(FILE *out, const char *name, const char *value)
{
	fprintf(out, "%s=\"", name);
	for (; value && *value; value++) {
		if (*value == '\n')
			fputs("\\n", out);
		else if (*value == '"' || *value == '\\')
			fprintf(out, "\\%c", *value);
		else
			fputc(*value, out);
	}
	fputc('"', out);
}

static void report_prometheus_print_labels(FILE *out, const json_t *job)
{
	const char *name = json_string_value(json_object_get(job, "job"));

	fputc('{', out);
	/* Start times distinguish runs without a job name: these never overlap. */
	if (name)
		report_prometheus_print_label(out, "job_id", name);
	else
		fprintf(out, "started_ns=\"%lld\"",
			(long long)json_integer_value(json_object_get(job, "started_ns")));
	fputc(',', out);
	report_prometheus_print_label(out, "program",
				      json_string_value(json_object_get(job, "program")));
	fputc('}', out);
}

static bool report_prometheus_is_name(const char *key)
{
	return *key && strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(key);
}

/* Names and meanings match the library's own Prometheus text (report/emit_prometheus.c). */
static const struct counter {
	const char *name, *unit, *meaning;
} counters[] = {
#define STATISTIC(name, unit, line, label, meaning) { #name, #unit, meaning },
#define TALLY(name, unit, line, label, meaning)	    { #name, #unit, meaning },
#include "report/statistics.def"
#undef TALLY
#undef STATISTIC
};

/* Records of another version may hold unknown counters. */
static struct counter report_prometheus_find_counter(const char *name)
{
	for (size_t i = 0; i < sizeof(counters) / sizeof(*counters); i++) {
		if (!strcmp(counters[i].name, name))
			return counters[i];
	}
	return (struct counter){ name, "COUNT", "a counter of another version" };
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
static void report_prometheus_print_family(FILE *out, const json_t *jobs, const char *key,
					   const struct fact *fact)
{
	struct counter counter = report_prometheus_find_counter(key);
	const char *name = fact ? fact->name : key;
	bool gauge = fact || strstr(counter.unit, "_NOW") || strstr(counter.unit, "_PEAK");
	const char *end = gauge ? "" : "_total";
	const json_t *job;
	size_t at;

	fprintf(out, "# HELP peerpin_%s%s %s\n# TYPE peerpin_%s%s %s\n", name, end,
		fact ? fact->meaning : counter.meaning, name, end, gauge ? "gauge" : "counter");
	json_array_foreach(jobs, at, job) {
		const json_t *value =
			json_object_get(fact ? job : json_object_get(job, "totals"), key);

		if (!json_is_integer(value))
			continue;
		fprintf(out, "peerpin_%s%s", name, end);
		report_prometheus_print_labels(out, job);
		fprintf(out, " %lld\n", (long long)json_integer_value(value));
	}
}

void report_prometheus(const json_t *report, FILE *out)
{
	json_t *jobs = json_object_get(report, "jobs"), *names = json_object(), *job, *value;
	const char *key;
	size_t at;

	json_array_foreach(jobs, at, job) {
		json_object_update_missing(names, json_object_get(job, "totals"));
	}
	for (at = 0; json_array_size(jobs) && at < sizeof(facts) / sizeof(*facts); at++)
		report_prometheus_print_family(out, jobs, facts[at].key, &facts[at]);
	json_object_foreach(names, key, value) {
		if (report_prometheus_is_name(key))
			report_prometheus_print_family(out, jobs, key, NULL);
	}
	json_decref(names);
}
