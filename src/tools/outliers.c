/* SPDX-License-Identifier: BSD-3-Clause */
/* outliers.c -- ranks that differ from the others, by the outlier column of metrics.def
 *
 * The reference is the median: a single extreme rank does not shift it. The threshold is a plain
 * factor, valid for 4 and for 4000 ranks, and a smallest difference worth a report.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/jobs.h"

static int64_t outliers_min_difference(enum unit unit)
{
	switch (unit) {
	case UNIT_BYTES:
		return INT64_C(64) << 20;
	case UNIT_TIME:
		return INT64_C(10) * 1000 * 1000;
	case UNIT_SHARE:
		return 1000; /* 10 % */
	default:
		return 4;
	}
}

static bool outliers_is_outlier(const struct metric *metric, int64_t value,
				const struct spread *spread)
{
	int64_t far = outliers_min_difference(metric->unit);

	switch (metric->outlier) {
	case ANY:
		return value > 0;
	case HIGH:
		return value / 3 >= spread->median && value - spread->median >= far;
	case LOW:
		if (metric->unit == UNIT_SHARE)
			return spread->median - value >= far;
		return spread->median / 4 > value && spread->median - value >= far * 10;
	default:
		return false;
	}
}

/* The text shows the most extreme value of the named ranks. */
static bool outliers_is_worse(const struct metric *metric, int64_t value, int64_t than)
{
	return metric->outlier == LOW ? value < than : value > than;
}

/* "ranks 3, 5 and 12 more" */
static const char *outliers_list_ranks(const struct job *job, const bool *named, size_t count)
{
	const char *text = "";
	size_t listed = 0;

	for (size_t i = 0; i < job->count && listed < 4; i++) {
		const char *name;

		if (!named[i])
			continue;
		name = record_name(job->ranks[i]);
		/* Write "rank" once. */
		if (job_has_ranks(job))
			name += strlen("rank ");
		text = text_of("%s%s%s", text, listed++ ? ", " : "", name);
	}
	if (job_has_ranks(job))
		text = text_of("%s %s", listed > 1 ? "ranks" : "rank", text);
	return count > listed ? text_of("%s and %zu more", text, count - listed) : text;
}

/* Return the host common to all named ranks, if the job has several hosts; else NULL. */
static const char *outliers_common_host(const struct job *job, const bool *named)
{
	const char *host = NULL;

	for (size_t i = 0; i < job->count; i++) {
		if (!named[i])
			continue;
		if (host && strcmp(host, record_text(job->ranks[i], "host")))
			return NULL;
		host = record_text(job->ranks[i], "host");
	}
	return json_array_size(job->hosts) > 1 ? host : NULL;
}

static void outliers_add(json_t *list, const struct job *job, const char *key, const bool *named,
			 const char *finding)
{
	const char *number = job_has_ranks(job) ? "rank" : "pid", *names, *host;
	json_t *ranks = json_array();

	for (size_t i = 0; i < job->count; i++) {
		if (named[i])
			json_array_append(ranks, json_object_get(job->ranks[i]->json, number));
	}
	names = outliers_list_ranks(job, named, json_array_size(ranks));
	host = outliers_common_host(job, named);
	if (host && !strstr(names, " on "))
		names = text_of("%s%s on %s", names, json_array_size(ranks) > 1 ? ", all" : "",
				host);
	json_array_append_new(list, json_pack("{s:s, s:o, s:s}", "id", key, "ranks", ranks, "text",
					      text_of("%s: %s", names, finding)));
}

static void outliers_find_killed(json_t *list, const struct job *job, bool *named)
{
	if (!job->ends[RECORD_KILLED] || job->ends[RECORD_KILLED] == job->count)
		return;
	for (size_t i = 0; i < job->count; i++)
		named[i] = job->ranks[i]->end == RECORD_KILLED;
	outliers_add(list, job, "killed", named,
		     "killed (no final record: the last counters are in the sums)");
}

static const char *outliers_usage(const struct job *job, size_t rank)
{
	return record_usage(job->ranks[rank]) ?: "not used";
}

/* Group ranks without GPUDirect RDMA by their usage line. */
static void outliers_find_unused(json_t *list, const struct job *job, bool *named)
{
	if (!job->used || job->used == job->count)
		return;
	for (size_t first = 0; first < job->count; first++) {
		const char *usage = outliers_usage(job, first);
		bool listed = record_used(job->ranks[first]);

		for (size_t i = 0; i < job->count; i++) {
			named[i] = !record_used(job->ranks[i]) &&
				   !strcmp(outliers_usage(job, i), usage);
			listed |= named[i] && i < first;
		}
		if (!listed)
			outliers_add(list, job, "not_used", named, usage);
	}
}

static void outliers_find_metric(json_t *list, const struct job *job, const struct metric *metric,
				 bool *named)
{
	struct spread spread = job_spread(job, metric->key);
	const char *label = metric->label + strspn(metric->label, " ");
	int64_t value, worst = 0;
	size_t count = 0;

	/* Two ranks have no majority to differ from. */
	if (metric->outlier == NEVER || (metric->outlier != ANY && spread.count < 3))
		return;
	for (size_t i = 0; i < job->count; i++) {
		named[i] = metric_value(job->ranks[i]->json, metric->key, &value) &&
			   outliers_is_outlier(metric, value, &spread);
		if (named[i] && (!count++ || outliers_is_worse(metric, value, worst)))
			worst = value;
	}
	/* Advice covers values that all ranks share. */
	if (!count || count == job->count)
		return;
	outliers_add(list, job, metric->key, named,
		     text_of("%s %s%s (median %s)", label,
			     count > 1 ? metric->outlier == LOW ? "down to " : "up to " : "",
			     show(metric->unit, worst), show(metric->unit, spread.median)));
}

json_t *job_outliers(const struct job *job)
{
	bool *named = zeroed(job->count, sizeof(*named));
	json_t *list = json_array();

	if (job->count > 1) {
		outliers_find_killed(list, job, named);
		outliers_find_unused(list, job, named);
		for (const struct metric *metric = metrics; metric->key; metric++)
			outliers_find_metric(list, job, metric, named);
	}
	free(named);
	return list;
}
