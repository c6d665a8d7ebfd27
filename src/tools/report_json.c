/* SPDX-License-Identifier: BSD-3-Clause */
/* report_json.c -- the report as one JSON object; all output forms are made from this object */
#include <stdlib.h>
#include <string.h>

#include "tools/advice_facts.h"
#include "tools/jobs.h"
#include "tools/units.h"

enum row_rule {
	ALWAYS,
	NONZERO,
};

static const struct metric {
	const char *key, *label;
	enum unit unit;
	enum row_rule rule;
} metrics[] = {
#define METRIC(key, label, unit, row, outlier) { #key, label, unit, row },
#include "tools/metrics.def"
#undef METRIC
};

static const char *const unit_names[] = { "count", "bytes", "ns", "hundredths_of_percent" };

/* File names may hold any bytes, JSON text only UTF-8. */
static json_t *report_json_text(const char *text)
{
	json_t *json = json_string(text);
	char *plain;

	if (json)
		return json;
	plain = text_of("%s", text);
	for (char *at = plain; *at; at++) {
		if ((unsigned char)*at >= 0x80)
			*at = '?';
	}
	json = json_string(plain);
	free(plain);
	return json;
}

static json_t *report_json_rows(const struct job *job)
{
	json_t *list = json_array();

	for (size_t i = 0; i < sizeof(metrics) / sizeof(*metrics); i++) {
		struct spread spread = job_spread(job, metrics[i].key);

		if (!spread.count || (metrics[i].rule == NONZERO && !spread.max))
			continue;
		json_array_append_new(
			list,
			json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "key", metrics[i].key,
				  "label", metrics[i].label, "unit", unit_names[metrics[i].unit],
				  "total", (json_int_t)spread.total, "min", (json_int_t)spread.min,
				  "median", (json_int_t)spread.median, "max",
				  (json_int_t)spread.max, "variation_thousandths",
				  (json_int_t)spread.variation));
	}
	return list;
}

static json_t *report_json_ranks(const struct job *job)
{
	static const char *const keys[] = { "rank", "pid", "host" };
	json_t *list = json_array();

	for (size_t i = 0; i < job->count; i++) {
		const struct record *record = job->ranks[i];
		json_t *rank = json_object();

		for (size_t k = 0; k < sizeof(keys) / sizeof(*keys); k++)
			json_object_set(rank, keys[k],
					json_object_get(record->json, keys[k]) ?: json_null());
		json_object_set_new(rank, "ended", json_string(record_end_name(record->end)));
		json_object_set_new(rank, "used", json_boolean(record_used(record)));
		json_object_set_new(rank, "elapsed_ns",
				    json_integer(record_number(record, "elapsed_ns")));
		for (size_t k = 0; k < sizeof(metrics) / sizeof(*metrics); k++) {
			if (strcmp(metrics[k].key, "hit_rate"))
				json_object_set_new(
					rank, metrics[k].key,
					json_integer(record_number(record, metrics[k].key)));
		}
		json_array_append_new(list, rank);
	}
	return list;
}

static void report_json_add_once(json_t *list, const char *text)
{
	const json_t *known;
	size_t at;

	json_array_foreach(list, at, known) {
		if (!strcmp(json_string_value(known), text))
			return;
	}
	json_array_append_new(list, report_json_text(text));
}

/* Return "mlx5_0, mlx5_1" for up to 8 items, then a count. The caller frees the text. */
static char *report_json_join(const json_t *list)
{
	char *text = text_of("%s", ""), *longer;
	const json_t *item;
	size_t at;

	json_array_foreach(list, at, item) {
		if (at == 8)
			longer = text_of("%s and %zu more", text, json_array_size(list) - at);
		else
			longer = text_of("%s%s%s", text, at ? ", " : "", json_string_value(item));
		free(text);
		text = longer;
		if (at == 8)
			break;
	}
	return text;
}

/* Return methods, adapters and paths with registrations: "dma-buf; mlx5_0, mlx5_1; PIX". NULL:
 * none. The caller frees the text. */
static char *report_json_methods(const struct job *job)
{
	static const char *const keys[] = { "method", "adapter", "path" };
	char *text = NULL, *longer, *part;

	for (size_t k = 0; k < sizeof(keys) / sizeof(*keys); k++) {
		json_t *names = json_array();

		for (size_t i = 0; i < job->count; i++) {
			const json_t *pair;
			size_t at;

			json_array_foreach(json_object_get(job->ranks[i]->json, "pairs"), at,
					   pair) {
				const char *name =
					json_string_value(json_object_get(pair, keys[k]));

				if (name && *name &&
				    json_integer_value(json_object_get(pair, "registrations")))
					report_json_add_once(names, name);
			}
		}
		part = report_json_join(names);
		json_decref(names);
		if (*part) {
			longer = text ? text_of("%s; %s", text, part) : text_of("%s", part);
			free(text);
			text = longer;
		}
		free(part);
	}
	return text;
}

/* Return the usage line for all ranks. The caller frees the text. */
static char *report_json_usage(const struct job *job)
{
	const char *noun = record_rank(job->ranks[0]) >= 0 ? "ranks" : "processes", *usage = NULL,
		   *detail;
	char *methods, *text;

	for (size_t i = 0; i < job->count && !usage; i++) {
		if (record_used(job->ranks[i]) == (job->used > 0))
			usage = record_text(job->ranks[i], "verdict");
	}
	if (!usage)
		usage = job->used ? "used" : "not used";
	if (job->count == 1 || !job->used)
		return text_of("%s", usage);
	methods = report_json_methods(job);
	detail = strstr(usage, ": ");
	usage = methods ? methods : detail ? detail + 2 : "see each";
	if (job->used == job->count)
		text = text_of("used by all %s %s: %s", show_count((int64_t)job->count).text, noun,
			       usage);
	else
		text = text_of("used by %s of %s %s: %s", show_count((int64_t)job->used).text,
			       show_count((int64_t)job->count).text, noun, usage);
	free(methods);
	return text;
}

static json_t *report_json_pairs(const struct job *job)
{
	json_t *list = json_array();

	for (size_t i = 0; i < job->count; i++) {
		json_t *pair, *known = NULL;
		size_t at, k;

		json_array_foreach(json_object_get(job->ranks[i]->json, "pairs"), at, pair) {
			json_t *host = json_object_get(job->ranks[i]->json, "host");

			json_array_foreach(list, k, known) {
				if (json_equal(json_object_get(known, "host"), host) &&
				    json_equal(json_object_get(known, "gpu"),
					       json_object_get(pair, "gpu")) &&
				    json_equal(json_object_get(known, "adapter"),
					       json_object_get(pair, "adapter")) &&
				    json_equal(json_object_get(known, "method"),
					       json_object_get(pair, "method")) &&
				    /* Each rank numbers its visible GPUs itself, so paths must
				     * match too. */
				    json_equal(json_object_get(known, "path"),
					       json_object_get(pair, "path")))
					break;
			}
			if (k == json_array_size(list)) {
				known = json_deep_copy(pair);
				json_object_set(known, "host", host);
				json_object_set_new(known, "registrations", json_integer(0));
				json_array_append_new(list, known);
			}
			json_object_set_new(
				known, "registrations",
				json_integer(add_capped(
					json_integer_value(json_object_get(known, "registrations")),
					json_integer_value(
						json_object_get(pair, "registrations")))));
		}
	}
	return list;
}

static json_t *report_json_job(const struct job *job)
{
	char *usage = report_json_usage(job), *clean = clean_text(usage);
	json_t *json = json_object(), *versions = json_array();
	int64_t started = INT64_MAX;

	for (size_t i = 0; i < job->count; i++) {
		const char *version = record_text(job->ranks[i], "version");

		if (version)
			report_json_add_once(versions, version);
		if (record_number(job->ranks[i], "started_ns") < started)
			started = record_number(job->ranks[i], "started_ns");
	}
	json_object_set_new(json, "job", job->name ? report_json_text(job->name) : json_null());
	json_object_set_new(json, "program", report_json_text(job->program));
	json_object_set(json, "hosts", job->hosts);
	json_object_set_new(json, "versions", versions);
	json_object_set_new(json, "processes", json_integer((json_int_t)job->count));
	json_object_set_new(json, "running", json_integer((json_int_t)job->ends[RECORD_RUNNING]));
	json_object_set_new(json, "killed", json_integer((json_int_t)job->ends[RECORD_KILLED]));
	json_object_set_new(json, "complete", json_boolean(job->ends[RECORD_EXIT] == job->count));
	json_object_set_new(json, "started_ns", json_integer(started));
	json_object_set_new(json, "elapsed_ns", json_integer(job->elapsed_ns));
	json_object_set_new(json, "elapsed_is_least", json_boolean(job->at_least));
	json_object_set_new(json, "used", json_integer((json_int_t)job->used));
	json_object_set_new(json, "verdict", report_json_text(clean));
	json_object_set(json, "totals", job->totals);
	json_object_set_new(json, "rows", report_json_rows(job));
	json_object_set_new(json, "pairs", report_json_pairs(job));
	json_object_set_new(json, "histograms", job_histograms(job));
	json_object_set_new(json, "timeline", job_timeline(job));
	json_object_set_new(json, "ranks", report_json_ranks(job));
	json_object_set_new(json, "outliers", job_outliers(job));
	json_object_set_new(json, "advice", job_advice(job));
	free(clean);
	free(usage);
	return json;
}

json_t *report_json(const struct jobs *jobs, const struct records *records)
{
	json_t *json = json_object(), *list = json_array(), *problems = json_array();

	for (size_t i = 0; i < jobs->count; i++)
		json_array_append_new(list, report_json_job(&jobs->list[i]));
	for (size_t i = 0; i < records->problem_count; i++) {
		json_t *problem = json_object();

		json_object_set_new(problem, "file", report_json_text(records->problems[i].source));
		json_object_set_new(problem, "what", report_json_text(records->problems[i].what));
		json_array_append_new(problems, problem);
	}
	json_object_set_new(json, "schema", json_string("peerpin-report/1"));
	json_object_set_new(json, "version", json_string(PACKAGE_VERSION));
	json_object_set_new(json, "jobs", list);
	json_object_set_new(json, "problems", problems);
	return json;
}
