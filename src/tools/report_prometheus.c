/* SPDX-License-Identifier: BSD-3-Clause */
/* report_prometheus.c -- sums of each job as Prometheus text for the textfile collector */
#include <errno.h>
#include <string.h>

#include "report/emit_forms.h"
#include "tools/report_forms.h"

static int report_prometheus_write(void *argument, const char *bytes, size_t length)
{
	return fwrite(bytes, 1, length, argument) == length ? 0 : -EIO;
}

static void report_prometheus_add_labels(struct output *output, const json_t *job)
{
	const char *name = json_string_value(json_object_get(job, "job"));
	const char *program = json_string_value(json_object_get(job, "program"));

	output_add(output, "{");
	/* Start times distinguish runs without a job name: these never overlap. */
	if (name)
		emit_prometheus_add_label(output, "job_id", name);
	else
		output_add(output, "started_ns=\"%lld\"",
			   (long long)json_integer_value(json_object_get(job, "started_ns")));
	output_add(output, ",");
	emit_prometheus_add_label(output, "program", program ? program : "");
	output_add(output, "}");
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
	for (struct segment_row row = { .count = 0 }; segment_next_row(&row);) {
		if (row.kind != SEGMENT_HISTOGRAM && !strcmp(row.name, name))
			return (struct counter){ name, emit_prometheus_type(row.kind),
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

	emit_prometheus_begin_metric(output, counter.name, counter.type, counter.meaning);
	json_array_foreach(jobs, at, job) {
		const json_t *value =
			json_object_get(fact ? job : json_object_get(job, "totals"), key);

		if (!json_is_integer(value))
			continue;
		output_add(output, "peerpin_%s%s", counter.name,
			   emit_prometheus_end_of_name(counter.type));
		report_prometheus_add_labels(output, job);
		output_add(output, " %lld\n", (long long)json_integer_value(value));
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
	output_end(&output);
	json_decref(names);
}
