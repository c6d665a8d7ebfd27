/* SPDX-License-Identifier: BSD-3-Clause */
/* report_json.c -- the report as one JSON object; all output forms are made from this object */
#include <string.h>

#include "tools/findings.h"
#include "tools/jobs.h"

static json_t *report_json_rows(const struct job *job)
{
	static const char *const units[] = { "count", "bytes", "ns", "hundredths_of_percent" };
	json_t *list = json_array();

	for (const struct metric *metric = metrics; metric->key; metric++) {
		struct spread spread = job_spread(job, metric->key);

		if (!spread.count || (metric->row == NONZERO && !spread.max))
			continue;
		json_array_append_new(
			list,
			json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "key", metric->key,
				  "label", metric->label, "unit", units[metric->unit], "total",
				  (json_int_t)spread.total, "min", (json_int_t)spread.min, "median",
				  (json_int_t)spread.median, "max", (json_int_t)spread.max,
				  "variation_thousandths", (json_int_t)spread.variation));
	}
	return list;
}

static json_t *report_json_ranks(const struct job *job)
{
	static const char *const keys[] = { "rank", "pid", "host" };
	json_t *list = json_array();

	for (size_t i = 0; i < job->count; i++) {
		const struct record *record = job->ranks[i];
		json_t *rank = json_pack("{s:s, s:b, s:I}", "ended", record_end_name(record->end),
					 "used", record_used(record), "elapsed_ns",
					 (json_int_t)record_number(record, "elapsed_ns"));

		for (size_t k = 0; k < sizeof(keys) / sizeof(*keys); k++)
			json_object_set(rank, keys[k],
					json_object_get(record->json, keys[k]) ?: json_null());
		for (const struct metric *metric = metrics; metric->key; metric++) {
			if (metric->unit != UNIT_SHARE)
				json_object_set_new(
					rank, metric->key,
					json_integer(record_number(record, metric->key)));
		}
		json_array_append_new(list, rank);
	}
	return list;
}

/* Return methods, adapters and paths with registrations, up to 8 of each: "dma-buf; mlx5_0, mlx5_1;
 * PIX". "": none. */
static const char *report_json_methods(const struct job *job)
{
	static const char *const keys[] = { "method", "adapter", "path" };
	const char *text = "";

	for (size_t k = 0; k < sizeof(keys) / sizeof(*keys); k++) {
		json_t *names = json_array(), *pair, *name;
		size_t at;

		for (size_t i = 0; i < job->count; i++) {
			json_array_foreach(json_object_get(job->ranks[i]->json, "pairs"), at,
					   pair) {
				if (number_of(pair, "registrations") &&
				    *(string_of(pair, keys[k]) ?: ""))
					add_distinct(names, string_of(pair, keys[k]));
			}
		}
		json_array_foreach(names, at, name) {
			if (at == 8) {
				text = text_of("%s and %zu more", text,
					       json_array_size(names) - at);
				break;
			}
			text = text_of("%s%s%s", text,
				       at      ? ", "
				       : *text ? "; "
					       : "",
				       json_string_value(name));
		}
		json_decref(names);
	}
	return text;
}

/* Return the usage line for all ranks. */
static const char *report_json_usage(const struct job *job)
{
	const char *noun = job_has_ranks(job) ? "ranks" : "processes", *usage = NULL, *detail;
	const char *head = "no request hit, registrations by";

	for (size_t i = 0; i < job->count; i++) {
		const char *one = job->count > 1 ? record_usage(job->ranks[i])
						 : record_text(job->ranks[i], "usage");

		if (record_used(job->ranks[i]) != (job->used > 0) || !one)
			continue;
		usage = usage ? usage : one;
		if (!strncmp(one, "used", 4))
			head = "used by";
	}
	if (!usage) {
		usage = job->used ? "used" : "not used";
		head = "used by";
	}
	if (job->count == 1 || !job->used)
		return usage;
	detail = strstr(usage, ": ");
	usage = report_json_methods(job);
	if (!*usage)
		usage = detail ? detail + 2 : "see each";
	if (job->used == job->count)
		return text_of("%s all %s %s: %s", head, show(UNIT_COUNT, (int64_t)job->count),
			       noun, usage);
	return text_of("%s %s of %s %s: %s", head, show(UNIT_COUNT, (int64_t)job->used),
		       show(UNIT_COUNT, (int64_t)job->count), noun, usage);
}

/* Each rank numbers its visible GPUs itself, so paths must match too. */
static bool report_json_is_same_pair(const json_t *one, const json_t *other)
{
	static const char *const keys[] = { "host", "gpu", "adapter", "method", "path" };
	bool same = true;

	for (size_t k = 0; k < sizeof(keys) / sizeof(*keys); k++)
		same &= json_equal(json_object_get(one, keys[k]), json_object_get(other, keys[k]));
	return same;
}

static json_t *report_json_pairs(const struct job *job)
{
	json_t *list = json_array(), *pair, *known = NULL;
	size_t at, k;

	for (size_t i = 0; i < job->count; i++) {
		json_array_foreach(json_object_get(job->ranks[i]->json, "pairs"), at, pair) {
			int64_t sum = number_of(pair, "registrations");

			pair = json_copy(pair);
			json_object_set(pair, "host", json_object_get(job->ranks[i]->json, "host"));
			json_array_foreach(list, k, known) {
				if (report_json_is_same_pair(known, pair))
					break;
			}
			if (k == json_array_size(list)) {
				json_array_append(list, pair);
			} else {
				sum = add_capped(sum, number_of(known, "registrations"));
				json_object_set_new(known, "registrations", json_integer(sum));
			}
			json_decref(pair);
		}
	}
	return list;
}

static json_t *report_json_job(const struct job *job)
{
	return json_pack(
		"{s:o, s:o, s:O, s:O, s:I, s:I, s:I, s:b, s:I, s:I, s:b, s:I, s:o, s:O, s:o, s:o, "
		"s:O, s:o, s:o, s:o, s:o}",
		"job", job->name ? json_string(job->name) : json_null(), "program",
		json_string(job->program), "hosts", job->hosts, "versions", job->versions,
		"processes", (json_int_t)job->count, "running",
		(json_int_t)job->ends[RECORD_RUNNING], "killed",
		(json_int_t)job->ends[RECORD_KILLED], "complete",
		job->ends[RECORD_EXIT] == job->count, "started_ns", (json_int_t)job->started_ns,
		"elapsed_ns", (json_int_t)job->elapsed_ns, "elapsed_is_least",
		job->ends[RECORD_KILLED] > 0, "used", (json_int_t)job->used, "usage",
		json_string(report_json_usage(job)), "totals", job->totals, "rows",
		report_json_rows(job), "pairs", report_json_pairs(job), "histograms",
		job->histograms, "ranks", report_json_ranks(job), "outliers", job_outliers(job),
		"advice", job_advice(job), "findings", findings_judge(job->findings));
}

json_t *report_json(const struct jobs *jobs, const struct records *records)
{
	json_t *list = json_array();

	for (size_t i = 0; i < jobs->count; i++)
		json_array_append_new(list, report_json_job(&jobs->list[i]));
	return json_pack("{s:s, s:s, s:o, s:o}", "schema", "peerpin-report/1", "version",
			 PACKAGE_VERSION, "jobs", list, "problems",
			 records->problems ? json_incref(records->problems) : json_array());
}
