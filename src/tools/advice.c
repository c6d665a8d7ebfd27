/* SPDX-License-Identifier: BSD-3-Clause */
/* advice.c -- what a report says about a job: each row of advice.def that applies, errors first,
 * and ranks that differ from the others
 *
 * Facts of a job are one object: sums of counters, further numbers, and texts.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/jobs.h"
#include "tools/program_file.h"

static void facts_set_text(json_t *facts, const char *name, const char *text)
{
	json_object_set_new(facts, name, json_string(text));
}

static void facts_set(json_t *facts, const char *name, size_t number)
{
	json_object_set_new(facts, name, json_integer((json_int_t)number));
}

/* True if each process without GPUDirect RDMA has this usage line, or none. */
static bool facts_is_common_usage(const struct job *job, const char *usage)
{
	for (size_t i = 0; i < job->count; i++) {
		const char *other = record_usage(job->ranks[i]);

		if (!record_used(job->ranks[i]) && other && strcmp(other, usage))
			return false;
	}
	return true;
}

static bool facts_has_requests(const struct record *record)
{
	return record_number(record, "requests") || record_number(record, "host_requests") ||
	       record_number(record, "exports");
}

/* Set the fallback reason, from a process that did not use GPUDirect RDMA. A process with requests
 * takes precedence over one without. */
static void facts_find_use(json_t *facts, const struct job *job)
{
	const struct record *unused = NULL;
	const char *usage, *reason;
	bool passive = true;

	for (size_t i = 0; i < job->count; i++) {
		bool requested = facts_has_requests(job->ranks[i]);

		if (requested)
			passive = false;
		if (!record_used(job->ranks[i]) &&
		    (!unused || (requested && !facts_has_requests(unused))))
			unused = job->ranks[i];
	}
	/* No process made a request, so there is no failure to explain. */
	facts_set(facts, "passive", passive);
	if (!unused)
		return;
	usage = record_usage(unused) ?: "no reason was recorded";
	reason = strstr(usage, ": ");
	facts_set_text(
		facts, "reason",
		text_of("%s%s", !strncmp(usage, "not used", 8) && reason ? reason + 2 : usage,
			facts_is_common_usage(job, usage) ? "" : " (others: other reasons)"));
	facts_set_text(facts, "unused_host", record_text(unused, "host"));
}

static void facts_find_ranks(json_t *facts, const struct job *job)
{
	int64_t expected = 0, first = -1, rank;
	size_t doubled = 0, missing = 0;

	/* Ranks are sorted. Skip ranks above 1 << 24: the count of missing ranks would be
	 * absurd. */
	for (size_t i = 0; i < job->count; i++) {
		rank = record_rank(job->ranks[i]);
		if (rank < 0 || rank > 1 << 24)
			continue;
		if (rank < expected) {
			doubled += i < 2 || record_rank(job->ranks[i - 2]) != rank;
			continue;
		}
		if (rank > expected && first < 0)
			first = expected;
		missing += (size_t)(rank - expected);
		expected = rank + 1;
	}
	facts_set(facts, "doubled", doubled);
	facts_set(facts, "missing", missing);
	facts_set_text(facts, "missing_first", text_of("rank %lld", (long long)first));
}

/* Count the settings that occur, and set the name of one that differs. */
static void facts_find_settings(json_t *facts, const struct job *job)
{
	json_t *known = json_array(), *value, *entry;
	const char *name, *differs = "one of them";
	size_t k;

	for (size_t i = 0; i < job->count; i++) {
		value = json_object_get(job->ranks[i]->json, "settings");
		json_array_foreach(known, k, entry) {
			if (json_equal(entry, value))
				break;
		}
		if (value && k == json_array_size(known))
			json_array_append(known, value);
	}
	for (k = 0; json_array_size(known) > 1 && k < 2; k++) {
		json_object_foreach(json_array_get(known, k), name, entry) {
			if (!json_equal(json_object_get(json_array_get(known, !k), name), entry))
				differs = name;
		}
	}
	facts_set_text(facts, "settings_key", differs);
	facts_set(facts, "settings", json_array_size(known));
	json_decref(known);
}

/* Paths across NUMA nodes (SYS), or across host bridges of one node (NODE). */
static void facts_find_pairs(json_t *facts, const struct job *job)
{
	size_t far_pairs = 0;

	for (size_t i = 0; i < job->count; i++) {
		const json_t *pair;
		size_t at;

		json_array_foreach(json_object_get(job->ranks[i]->json, "pairs"), at, pair) {
			const char *path = string_of(pair, "path") ?: "";

			if ((strcmp(path, "SYS") && strcmp(path, "NODE")) ||
			    !number_of(pair, "registrations"))
				continue;
			if (!far_pairs++)
				facts_set_text(facts, "far_pair",
					       text_of("memory of GPU %lld on %s is registered "
						       "with %s over a "
						       "path of type %s",
						       (long long)number_of(pair, "gpu"),
						       record_text(job->ranks[i], "host"),
						       string_of(pair, "adapter"), path));
		}
	}
	facts_set(facts, "far_pairs", far_pairs);
}

/* Failure counters by reason, with a fix each. Advice shows the fix of the most frequent reason. */
static void facts_find_failures(json_t *facts, const struct job *job)
{
	static const struct {
		const char *key, *name, *fix;
	} reasons[] = {
		{ "failed_resources", "out of resources",
		  "raise RLIMIT_MEMLOCK (ulimit -l unlimited, inside the job), or lower "
		  "PEERPIN_PIN_LIMIT below the size of BAR1" },
		{ "failed_address", "bad address",
		  "modprobe nvidia-peermem, or use a kernel, driver and adapter with dma-bufs "
		  "(peerpin doctor)" },
		{ "failed_argument", "invalid argument", "peerpin doctor --only probe" },
		{ "failed_support", "not supported",
		  "peerpin doctor shows the limit of GPU, driver, adapter or PCI path" },
		{ "failed_other", "other reasons", "PEERPIN_LOG_LEVEL=info logs each cause" },
	};
	const size_t count = sizeof(reasons) / sizeof(*reasons);
	const char *text = "", *fix = reasons[count - 1].fix;
	int64_t most = 0;

	for (size_t i = 0; i < count; i++) {
		int64_t number = job_total(job, reasons[i].key);

		if (number)
			text = text_of("%s%s%s %s", text, *text ? ", " : ": ",
				       show(UNIT_COUNT, number), reasons[i].name);
		if (number > most) {
			fix = reasons[i].fix;
			most = number;
		}
	}
	facts_set_text(facts, "failed_reasons", text);
	facts_set_text(facts, "failed_fix", fix);
}

static void facts_find_never_used(json_t *facts, const struct job *job)
{
	int64_t bytes = job_total(job, "never_used_bytes"), time = job_total(job, "never_used_ns");

	facts_set_text(facts, "never_used_cost",
		       text_of("%s%s%s%s%s", bytes ? ": " : "",
			       bytes ? show(UNIT_BYTES, bytes) : "", bytes && time ? ", " : "",
			       bytes && time ? show(UNIT_TIME, time) : "",
			       bytes && time ? " of registration" : ""));
}

/* The program as peerpin doctor finds it: the file of a process that still runs on this host, or
 * the name if PATH has it. Records have the name alone: the user knows its folder. */
static const char *facts_program_file(const struct job *job)
{
	static char path[PATH_MAX];
	ssize_t length;

	for (size_t i = 0; i < job->count; i++) {
		if (job->ranks[i]->end != RECORD_RUNNING)
			continue;
		length = readlink(
			text_of("/proc/%lld/exe", (long long)record_number(job->ranks[i], "pid")),
			path, sizeof(path) - 1);
		if (length <= 0)
			continue;
		path[length] = '\0';
		if (!access(path, X_OK) && !strcmp(strrchr(path, '/') + 1, job->program))
			return path;
	}
	return program_find(job->program, path) ? job->program
						: text_of("/path/to/%s", job->program);
}

static json_t *facts_find(const struct job *job)
{
	json_t *facts = json_copy(job->totals);

	facts_set_text(facts, "ranks_or_processes", job_has_ranks(job) ? "ranks" : "processes");
	facts_set_text(facts, "program_file", facts_program_file(job));
	facts_set(facts, "ranks", job->count);
	facts_set(facts, "used", job->used);
	facts_set(facts, "unused", job->count - job->used);
	facts_set(facts, "killed", job->ends[RECORD_KILLED]);
	facts_set(facts, "versions", json_array_size(job->versions));
	facts_find_use(facts, job);
	facts_find_ranks(facts, job);
	facts_find_settings(facts, job);
	facts_find_pairs(facts, job);
	facts_find_failures(facts, job);
	facts_find_never_used(facts, job);
	return facts;
}

static const char *advice_value(const json_t *facts, const char *key)
{
	const json_t *value = json_object_get(facts, key);

	return json_is_string(value) ? json_string_value(value)
				     : show(unit_of_key(key), json_integer_value(value));
}

/* Expand each {key}, and {key:one|several} to the first form for 1, the second for other numbers.
 */
static const char *advice_expand(const json_t *facts, const char *text)
{
	const char *open = strchr(text, '{'), *close = open ? strchr(open, '}') : NULL, *end, *bar;
	const char *value;

	if (!close)
		return text;
	end = open + strcspn(open, ":}");
	value = advice_value(facts, text_of("%.*s", (int)(end - open - 1), open + 1));
	if (*end == ':') {
		bar = end + strcspn(end, "|}");
		if (!strcmp(value, "1") || bar == close)
			value = text_of("%.*s", (int)(bar - end - 1), end + 1);
		else
			value = text_of("%.*s", (int)(close - bar - 1), bar + 1);
	}
	return text_of("%.*s%s%s", (int)(open - text), text, value,
		       advice_expand(facts, close + 1));
}

struct advice {
	json_t *list;
	const char *weight; /* of the rows that are added now */
};

static void advice_add(const struct advice *advice, const char *id, const char *text,
		       const char *fix)
{
	json_array_append_new(advice->list, json_pack("{s:s, s:s, s:s, s:s}", "id", id, "weight",
						      advice->weight, "text", text, "fix", fix));
}

static void advice_take_hint(void *argument, const struct hint *hint)
{
	const struct advice *advice = argument;

	if (hint->weight && !strcmp(hint->weight, advice->weight))
		advice_add(advice, hint->id, text_of("%s.", hint->text), hint->fix);
}

json_t *job_advice(const struct job *job)
{
	enum weight { ERROR, WARN, HINT };
	static const char *const weights[] = { "error", "warn", "hint" };
	struct advice advice = { .list = json_array() };
	json_t *facts = facts_find(job);

	for (enum weight now = ERROR; now <= HINT; now++) {
		advice.weight = weights[now];
#define N(key)		number_of(facts, #key)
#define SET(name, ...)	job_has_setting(job, "PEERPIN_" #name, __VA_ARGS__)
#define FIX_OF(counter) job_fix(job, #counter)
#define HINTS()		job_hints(job, advice_take_hint, &advice);
#define ADVICE(id, weight, condition, text, fix)                                                   \
	if (now == weight && (condition))                                                          \
		advice_add(&advice, #id, advice_expand(facts, text), advice_expand(facts, fix));
#include "tools/advice.def"
#undef ADVICE
#undef HINTS
#undef FIX_OF
#undef SET
#undef N
	}
	json_decref(facts);
	return advice.list;
}

/* ---- outliers, by the outlier column of metrics.def ----
 *
 * The reference is the median: a single extreme rank does not shift it. The threshold is a plain
 * factor, valid for 4 and for 4000 ranks, and a smallest difference worth a report.
 */

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
