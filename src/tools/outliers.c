/* SPDX-License-Identifier: BSD-3-Clause */
/* outliers.c -- which ranks are unlike the others, by the column of metrics.def that says what is worth naming
 *
 * The median is what the others have: it stays where it is, however far one rank goes. How far is far has to hold for
 * 4 ranks and for 4000, so it is a plain factor, with a smallest difference below which nobody would look.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/jobs.h"
#include "tools/units.h"

enum outlier_rule {
	HIGH,
	LOW,
	ANY,
	NEVER,
};

static const struct metric {
	const char *key, *label;
	enum unit unit;
	enum outlier_rule rule;
} metrics[] = {
#define METRIC(key, label, unit, row, outlier) { #key, label, unit, outlier },
#include "tools/metrics.def"
#undef METRIC
};

static int64_t smallest_difference(enum unit unit)
{
	switch (unit) {
	case UNIT_BYTES:
		return INT64_C(64) << 20;
	case UNIT_TIME:
		return INT64_C(10) * 1000 * 1000;
	case UNIT_SHARE:
		return 1000; /* ten of a hundred */
	default:
		return 4;
	}
}

static bool is_outlier(const struct metric *metric, int64_t value, const struct spread *spread)
{
	int64_t far = smallest_difference(metric->unit);

	switch (metric->rule) {
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

/* Of several ranks the one that shows it best stands for them. */
static bool is_worse(const struct metric *metric, int64_t value, int64_t than)
{
	return metric->rule == LOW ? value < than : value > than;
}

static char *list_ranks(const struct job *job, const bool *named, size_t count)
{
	char *text = text_of("%s", ""), *longer, *name;
	size_t listed = 0;

	for (size_t i = 0; i < job->count && listed < 4; i++) {
		if (!named[i])
			continue;
		name = record_name(job->ranks[i]);
		/* Ranks 3, 5: the word stands once. */
		longer = text_of("%s%s%s", text, listed ? ", " : "",
				 name + (listed && record_rank(job->ranks[i]) >= 0 ? strlen("rank ") : 0));
		free(text);
		free(name);
		text = longer;
		listed++;
	}
	if (count > listed) {
		longer = text_of("%s and %zu more", text, count - listed);
		free(text);
		text = longer;
	}
	if (listed > 1 && !strncmp(text, "rank ", 5)) {
		longer = text_of("ranks %s", text + 5);
		free(text);
		text = longer;
	}
	return text;
}

/* The host that all of them share, and that others do not: its name says more than theirs. */
static const char *common_host(const struct job *job, const bool *named)
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

/* Takes the finding over. */
static void add_outlier(json_t *list, const struct job *job, const char *key, const bool *named,
			char *finding)
{
	json_t *ranks = json_array();
	char *who, *where = NULL, *text;
	const char *host;
	size_t count = 0;

	for (size_t i = 0; i < job->count; i++) {
		if (named[i]) {
			json_array_append(ranks,
					  json_object_get(job->ranks[i]->json,
							  record_rank(job->ranks[i]) >= 0 ? "rank" : "pid"));
			count++;
		}
	}
	who = list_ranks(job, named, count);
	host = common_host(job, named);
	if (host && !strstr(who, " on "))
		where = clean_text(host);
	text = text_of("%s%s%s: %s", who, where ? (count > 1 ? ", all on " : " on ") : "", where ? where : "",
		       finding);
	json_array_append_new(list, json_pack("{s:s, s:o, s:s}", "id", key, "ranks", ranks, "text", text));
	free(text);
	free(where);
	free(who);
	free(finding);
}

static void look_at_ends(json_t *list, const struct job *job, bool *named)
{
	if (!job->ends[RECORD_KILLED] || job->ends[RECORD_KILLED] == job->count)
		return;
	for (size_t i = 0; i < job->count; i++)
		named[i] = job->ranks[i]->end == RECORD_KILLED;
	add_outlier(list, job, "killed", named,
		    text_of("killed (no final record; what was counted until then is in the sums)"));
}

static const char *verdict_of(const struct job *job, size_t rank)
{
	return record_text(job->ranks[rank], "verdict") ?: "not used";
}

/* Those that say the same of it together. */
static void look_at_use(json_t *list, const struct job *job, bool *named)
{
	if (!job->used || job->used == job->count)
		return;
	for (size_t first = 0; first < job->count; first++) {
		const char *verdict = verdict_of(job, first);
		bool told = record_used(job->ranks[first]);

		for (size_t i = 0; i < job->count; i++) {
			named[i] = !record_used(job->ranks[i]) && !strcmp(verdict_of(job, i), verdict);
			told |= named[i] && i < first;
		}
		if (!told)
			add_outlier(list, job, "not_used", named, clean_text(verdict));
	}
}

static void look_at_metric(json_t *list, const struct job *job, const struct metric *metric, bool *named)
{
	struct spread spread = job_spread(job, metric->key);
	const char *label = metric->label + strspn(metric->label, " ");
	int64_t value, worst = 0;
	size_t count = 0;

	/* Of two nobody can say which is unlike the other. */
	if (metric->rule == NEVER || (metric->rule != ANY && spread.count < 3))
		return;
	for (size_t i = 0; i < job->count; i++) {
		named[i] =
			job_metric(job->ranks[i], metric->key, &value) && is_outlier(metric, value, &spread);
		if (named[i] && (!count++ || is_worse(metric, value, worst)))
			worst = value;
	}
	/* What all have is for the advice. */
	if (!count || count == job->count)
		return;
	add_outlier(list, job, metric->key, named,
		    text_of("%s %s%s (median %s)", label,
			    count > 1 ? metric->rule == LOW ? "down to " : "up to " : "",
			    show(metric->unit, worst).text, show(metric->unit, spread.median).text));
}

json_t *job_outliers(const struct job *job)
{
	bool *named = zeroed(job->count, sizeof(*named));
	json_t *list = json_array();

	if (job->count < 2) {
		free(named);
		return list;
	}
	look_at_ends(list, job, named);
	look_at_use(list, job, named);
	for (size_t i = 0; i < sizeof(metrics) / sizeof(*metrics); i++)
		look_at_metric(list, job, &metrics[i], named);
	free(named);
	return list;
}
