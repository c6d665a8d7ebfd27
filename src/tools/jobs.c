/* SPDX-License-Identifier: BSD-3-Clause */
/* jobs.c -- groups records into jobs, sums their counters, compares their ranks,
 * and finds the rows of tools/hints.def that apply */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/findings.h"
#include "tools/jobs.h"

/* Slack in ns for the end of a killed process: only the time of its last snapshot is recorded. */
#define BETWEEN_RUNS 1000000000

static int jobs_compare_texts(const char *one, const char *other)
{
	return strcmp(one ? one : "", other ? other : "");
}

int compare_numbers(int64_t one, int64_t other)
{
	return (one > other) - (one < other);
}

/* True if only the run time can assign the record to a job. */
static bool jobs_is_alone(const struct record *record)
{
	return !record_text(record, "job") && record_rank(record) < 0;
}

static int64_t jobs_record_end(const struct record *record)
{
	return add_capped(record_number(record, "started_ns"), record_number(record, "elapsed_ns"));
}

static int jobs_compare_records(const void *a, const void *b)
{
	const struct record *one = *(struct record *const *)a, *other = *(struct record *const *)b;
	int order;

	(void)((order = jobs_compare_texts(record_text(one, "job"), record_text(other, "job"))) ||
	       (order = jobs_compare_texts(record_text(one, "program"),
					   record_text(other, "program"))) ||
	       (order = compare_numbers(record_rank(one), record_rank(other))) ||
	       (order = jobs_is_alone(one) && jobs_is_alone(other)
				? compare_numbers(record_number(one, "started_ns"),
						  record_number(other, "started_ns"))
				: 0) ||
	       (order = jobs_compare_texts(record_text(one, "host"), record_text(other, "host"))) ||
	       (order = compare_numbers(record_number(one, "pid"), record_number(other, "pid"))));
	return order;
}

bool record_used(const struct record *record)
{
	return json_is_true(json_object_get(record->json, "used"));
}

/* Exclude integers that identify a process. */
static bool jobs_is_counter(const char *key)
{
	static const char *const others[] = { "pid",	    "pid_namespace", "start_ticks", "rank",
					      "local_rank", "started_ns",    "elapsed_ns" };
	bool found = false;

	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		found |= !strcmp(key, others[i]);
	return !found;
}

static void jobs_add_histogram(struct job *job, const char *name, const json_t *buckets)
{
	json_t *sums = json_object_get(job->histograms, name), *count;
	size_t at;

	if (!sums) {
		sums = json_array();
		json_object_set_new(job->histograms, name, sums);
	}
	json_array_foreach(buckets, at, count) {
		int64_t known = json_integer_value(json_array_get(sums, at));

		if (at == json_array_size(sums))
			json_array_append_new(sums, json_integer(0));
		json_array_set_new(sums, at,
				   json_integer(add_capped(known, json_integer_value(count))));
	}
}

void add_distinct(json_t *list, const char *text)
{
	json_t *json = text ? json_string(text) : NULL, *known;
	size_t at;

	json_array_foreach(list, at, known) {
		if (json_equal(known, json))
			break;
	}
	if (json && at == json_array_size(list))
		json_array_append(list, json);
	json_decref(json);
}

static void jobs_add_rank(struct job *job, const struct record *record)
{
	int64_t elapsed = record_number(record, "elapsed_ns"), end = jobs_record_end(record),
		started = record_number(record, "started_ns");
	const char *key;
	json_t *value;

	job->ranks[job->count++] = record;
	job->used += record_used(record);
	job->ends[record->end]++;
	job->started_ns = job->count > 1 && job->started_ns < started ? job->started_ns : started;
	job->ended_ns = end > job->ended_ns ? end : job->ended_ns;
	job->elapsed_ns = elapsed > job->elapsed_ns ? elapsed : job->elapsed_ns;
	add_distinct(job->hosts, record_text(record, "host"));
	add_distinct(job->versions, record_text(record, "version"));
	json_object_foreach(record->json, key, value) {
		if (json_is_integer(value) && jobs_is_counter(key))
			add_number(job->totals, key, json_integer_value(value));
	}
	findings_add(job->findings, json_object_get(record->json, "findings"));
	json_object_foreach(json_object_get(record->json, "histograms"), key, value) {
		jobs_add_histogram(job, key, value);
	}
}

/* Records without job name and rank form one job if they ran at one time. */
static bool jobs_belongs(const struct job *job, const struct record *record)
{
	int64_t slack = job->ends[RECORD_KILLED] ? BETWEEN_RUNS : 0;

	if (jobs_is_alone(record) &&
	    record_number(record, "started_ns") > add_capped(job->ended_ns, slack))
		return false;
	return !jobs_compare_texts(job->name, record_text(record, "job")) &&
	       !strcmp(job->program, record_text(record, "program"));
}

void jobs_make(struct jobs *jobs, const struct records *records)
{
	const struct record **sorted = zeroed(records->count, sizeof(*sorted));

	jobs->list = zeroed(records->count, sizeof(*jobs->list));
	jobs->count = 0;
	for (size_t i = 0; i < records->count; i++)
		sorted[i] = &records->list[i];
	qsort(sorted, records->count, sizeof(*sorted), jobs_compare_records);
	for (size_t i = 0; i < records->count; i++) {
		struct job *job = jobs->count ? &jobs->list[jobs->count - 1] : NULL;

		if (!job || !jobs_belongs(job, sorted[i])) {
			job = &jobs->list[jobs->count++];
			job->name = record_text(sorted[i], "job");
			job->program = record_text(sorted[i], "program");
			job->ranks = zeroed(records->count - i, sizeof(*job->ranks));
			job->totals = json_object();
			job->histograms = json_object();
			job->findings = json_array();
			job->hosts = json_array();
			job->versions = json_array();
		}
		jobs_add_rank(job, sorted[i]);
	}
	free(sorted);
}

void jobs_free(struct jobs *jobs)
{
	for (size_t i = 0; i < jobs->count; i++) {
		free(jobs->list[i].ranks);
		json_decref(jobs->list[i].totals);
		json_decref(jobs->list[i].histograms);
		json_decref(jobs->list[i].findings);
		json_decref(jobs->list[i].hosts);
		json_decref(jobs->list[i].versions);
	}
	free(jobs->list);
	*jobs = (struct jobs){ 0 };
}

int64_t job_total(const struct job *job, const char *key)
{
	return number_of(job->totals, key);
}

bool job_has_setting(const struct job *job, const char *name, const char *value)
{
	for (size_t i = 0; i < job->count; i++) {
		const char *set = string_of(json_object_get(job->ranks[i]->json, "settings"), name);

		if (set && (!value || !strcmp(set, value)))
			return true;
	}
	return false;
}

bool job_has_ranks(const struct job *job)
{
	return record_rank(job->ranks[0]) >= 0;
}

static int jobs_compare_values(const void *a, const void *b)
{
	return compare_numbers(*(const int64_t *)a, *(const int64_t *)b);
}

/* Sorts `values` in place. */
static struct spread spread_of(int64_t *values, size_t count)
{
	struct spread spread = { .count = count };
	double mean = 0, squares = 0;

	if (!count)
		return spread;
	qsort(values, count, sizeof(*values), jobs_compare_values);
	spread.min = values[0];
	spread.max = values[count - 1];
	/* Take the lower of two middle values: a value that a rank really had. */
	spread.median = values[(count - 1) / 2];
	for (size_t i = 0; i < count; i++) {
		spread.total = add_capped(spread.total, values[i]);
		mean += (double)values[i] / (double)count;
	}
	for (size_t i = 0; i < count; i++)
		squares += ((double)values[i] - mean) * ((double)values[i] - mean) / (double)count;
	if (mean > 0)
		spread.variation = (int64_t)(sqrt(squares) / mean * 1000 + 0.5);
	return spread;
}

struct spread job_spread(const struct job *job, const char *key)
{
	int64_t *values = zeroed(job->count, sizeof(*values));
	struct spread spread;
	size_t count = 0;

	for (size_t i = 0; i < job->count; i++)
		count += metric_value(job->ranks[i]->json, key, &values[count]);
	spread = spread_of(values, count);
	free(values);
	/* The total of a share is that of the sums. */
	if (!strcmp(key, "hit_rate"))
		metric_value(job->totals, key, &spread.total);
	return spread;
}

const char *record_name(const struct record *record)
{
	if (record_rank(record) >= 0)
		return text_of("rank %lld", (long long)record_rank(record));
	return text_of("process %lld on %s", (long long)record_number(record, "pid"),
		       record_text(record, "host"));
}

/* ---- hints ---- */

#define N(key)		 ((uint64_t)job_total(job, #key))
#define SET(name, value) job_has_setting(job, "PEERPIN_" #name, value)
#define FIX_OF(counter)	 job_fix(job, #counter)
#define TEXT_OF(...)	 text_of(__VA_ARGS__)
#define TIME(n)		 show(UNIT_TIME, (int64_t)(n))

const char *job_fix(const struct job *job, const char *reason)
{
#define FIX(counter, text)                                                                         \
	if (!strcmp(reason, #counter))                                                             \
		return text;
#include "tools/hints.def"
#undef FIX
	return "see THE TABLE AT EXIT in 'man 7 peerpin'";
}

bool job_lacks_idle_cpu(const struct job *job)
{
	return NO_IDLE_CPU;
}

struct reason {
	const char *key, *label;
	uint64_t requests;
};

static struct reason hints_main_reason(const struct job *job)
{
	static const struct reason reasons[] = {
#define STATISTIC(name, unit, meaning)
#define REASON(name, label, meaning) { #name, label, 0 },
#include "report/statistics.def"
#undef STATISTIC
	};
	struct reason commonest = { "", "", 0 };

	for (size_t i = 0; i < sizeof(reasons) / sizeof(*reasons); i++) {
		struct reason reason = reasons[i];

		reason.requests = (uint64_t)job_total(job, reason.key);
		if (reason.requests > commonest.requests &&
		    !strncmp(reason.key, "forwarded_", strlen("forwarded_")))
			commonest = reason;
	}
	return commonest;
}

static const char *hints_text(uint64_t requests, uint64_t all, const char *text)
{
	return text_of("%s of %s requests %s", show(UNIT_COUNT, (int64_t)requests),
		       show(UNIT_COUNT, (int64_t)all), text);
}

#define FORWARDED	reason.requests
#define FORWARDED_LABEL reason.label
#define FORWARDED_FIX	job_fix(job, reason.key)

void job_hints(const struct job *job, void (*take)(void *argument, const struct hint *hint),
	       void *argument)
{
	struct reason reason = hints_main_reason(job);

#define HINT(id, weight, requests, condition, text, fix)                                           \
	if (condition)                                                                             \
		take(argument, &(struct hint){ #id, weight, hints_text(requests, all, text), fix,  \
					       (requests) > few ? (requests) : 0 });
#include "tools/hints.def"
#undef HINT
}

static void hints_take_main(void *argument, const struct hint *hint)
{
	struct hint *most = argument;

	if (hint->requests > most->requests)
		*most = *hint;
}

struct hint job_main_hint(const struct job *job)
{
	struct hint most = { .requests = 0 };

	job_hints(job, hints_take_main, &most);
	return most;
}
