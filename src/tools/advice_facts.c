/* SPDX-License-Identifier: BSD-3-Clause */
/* advice_facts.c -- finds out of a job's records what advice.def asks beside the sums of counters */
#include "tools/advice_facts.h"

#include <stdlib.h>
#include <string.h>

#include "tools/units.h"

/* Takes the text over. */
static void set_text(struct facts *facts, const char *name, char *text)
{
	json_object_set_new(facts->texts, name, json_string(text));
	free(text);
}

static void set_count(struct facts *facts, const char *name, size_t count)
{
	set_text(facts, name, text_of("%s", show_count((int64_t)count).text));
}

bool job_sets(const struct job *job, const char *name, const char *value)
{
	for (size_t i = 0; i < job->count; i++) {
		const char *set = json_string_value(
			json_object_get(json_object_get(job->ranks[i]->json, "settings"), name));

		if (set && (!value || !strcmp(set, value)))
			return true;
	}
	return false;
}

/* Whether all that did not use it say the same of it. */
static bool is_verdict_of_all(const struct job *job, const char *verdict)
{
	for (size_t i = 0; i < job->count; i++) {
		const char *other = record_text(job->ranks[i], "verdict");

		if (!record_used(job->ranks[i]) && other && strcmp(other, verdict))
			return false;
	}
	return true;
}

/* "not used: REASON" as the process said it; of those that did not use it, the first who asked for something. */
static void find_use(struct facts *facts, const struct job *job)
{
	const struct record *speaker = NULL;
	const char *verdict, *reason;
	char *clean;

	facts->passive = true;
	for (size_t i = 0; i < job->count; i++) {
		bool asked = record_number(job->ranks[i], "requests") ||
			     record_number(job->ranks[i], "host_requests");

		if (asked || record_number(job->ranks[i], "look_ups"))
			facts->passive = false;
		if (!record_used(job->ranks[i]) &&
		    (!speaker || (asked && !record_number(speaker, "requests"))))
			speaker = job->ranks[i];
	}
	if (!speaker)
		return;
	verdict = record_text(speaker, "verdict") ?: "no reason was recorded";
	reason = strstr(verdict, ": ");
	clean = clean_text(!strncmp(verdict, "not used", 8) && reason ? reason + 2 : verdict);
	set_text(facts, "reason",
		 text_of("%s%s", clean, is_verdict_of_all(job, verdict) ? "" : " (others: other reasons)"));
	free(clean);
	set_text(facts, "unused_host", clean_text(record_text(speaker, "host")));
}

static void find_ranks(struct facts *facts, const struct job *job)
{
	int64_t expected = 0, first = -1, rank;

	/* They come in order. Where numbers are absurd, so would be what is said of the missing ones. */
	for (size_t i = 0; i < job->count; i++) {
		rank = record_rank(job->ranks[i]);
		if (rank < 0 || rank > 1 << 24)
			continue;
		if (rank < expected) {
			if (i < 2 || record_rank(job->ranks[i - 2]) != rank)
				facts->doubled++;
			continue;
		}
		if (rank > expected && first < 0)
			first = expected;
		facts->missing += (size_t)(rank - expected);
		expected = rank + 1;
	}
	set_text(facts, "missing_first", text_of("rank %lld", (long long)first));
}

/* How many different values there are of one key, and where they are objects, the name of what differs. */
static size_t count_different(const struct job *job, const char *key, const char **differs)
{
	json_t **known = zeroed(job->count, sizeof(json_t *)), *value, *entry;
	size_t count = 0, i, k;
	const char *name;

	for (i = 0; i < job->count; i++) {
		value = json_object_get(job->ranks[i]->json, key);
		for (k = 0; k < count && !json_equal(known[k], value); k++)
			;
		if (value && k == count)
			known[count++] = value;
	}
	if (count > 1 && differs) {
		for (k = 0; k < 2; k++) {
			json_object_foreach(known[k], name, entry) {
				if (!json_equal(json_object_get(known[!k], name), entry))
					*differs = name;
			}
		}
	}
	free(known);
	return count;
}

/* Over the link between processors, or between the halves of one. */
static bool is_far(const char *path)
{
	return path && (!strcmp(path, "SYS") || !strcmp(path, "NODE"));
}

static void find_pairs(struct facts *facts, const struct job *job)
{
	for (size_t i = 0; i < job->count; i++) {
		const json_t *pair;
		size_t at;

		json_array_foreach(json_object_get(job->ranks[i]->json, "pairs"), at, pair) {
			const char *path = json_string_value(json_object_get(pair, "path"));
			char *host, *adapter;

			if (!is_far(path) || !json_integer_value(json_object_get(pair, "registrations")) ||
			    facts->far_pairs++)
				continue;
			host = clean_text(record_text(job->ranks[i], "host"));
			adapter = clean_text(json_string_value(json_object_get(pair, "adapter")));
			set_text(facts, "far_pair",
				 text_of("GPU %lld on %s is registered with %s, and the path between them is "
					 "%s",
					 (long long)json_integer_value(json_object_get(pair, "gpu")), host,
					 adapter, path));
			free(host);
			free(adapter);
		}
	}
}

/* The counters of failures by reason, and what mends each: that of the most frequent one is told. */
static const struct reason {
	const char *key, *name, *mend;
} reasons[] = {
	{ "failed_room", "out of room",
	  "raise the limit of locked memory (ulimit -l unlimited, inside the job), or lower "
	  "PEERPIN_PIN_LIMIT "
	  "to what BAR1 has room "
	  "for" },
	{ "failed_address", "bad address",
	  "modprobe nvidia-peermem, or a kernel, driver and adapter with dma-bufs (peerpin doctor)" },
	{ "failed_argument", "refused as invalid", "peerpin doctor --only probe" },
	{ "failed_support", "not supported",
	  "peerpin doctor: the GPU, the driver, the adapter or the PCI path between them refuses" },
	{ "failed_other", "for other reasons", "PEERPIN_LOG_LEVEL=info tells each cause" },
};

static void find_failures(struct facts *facts, const struct job *job)
{
	const char *mend = "PEERPIN_LOG_LEVEL=info tells each cause";
	char *text = text_of("%s", ""), *longer;
	int64_t most = 0;

	for (size_t i = 0; i < sizeof(reasons) / sizeof(*reasons); i++) {
		int64_t count = job_total(job, reasons[i].key);

		if (!count)
			continue;
		longer = text_of("%s%s%s %s", text, *text ? ", " : ": ", show_count(count).text,
				 reasons[i].name);
		free(text);
		text = longer;
		if (count > most) {
			mend = reasons[i].mend;
			most = count;
		}
	}
	set_text(facts, "failed_reasons", text);
	set_text(facts, "failed_mend", text_of("%s", mend));
}

/* What would help, of what is not so already. */
static void find_mends(struct facts *facts, const struct job *job)
{
	const char *ahead = "";

	if (job_sets(job, "PEERPIN_PREREGISTER", "off"))
		ahead = "PEERPIN_PREREGISTER=auto, the default, registers before a client asks";
	else if (!job_sets(job, "PEERPIN_DOMAINS", NULL))
		ahead = "PEERPIN_DOMAINS=near registers from the start, instead of after the first request";
	else if (job_sets(job, "PEERPIN_MIN_SIZE", NULL))
		ahead = "a smaller PEERPIN_MIN_SIZE, if what they ask for is below it";
	set_text(facts, "on_demand_mend", text_of("%s", ahead));
	set_text(facts, "early_mend",
		 text_of("%sallocating earlier hides it",
			 job_sets(job, "PEERPIN_PREREGISTER", "sync")
				 ? ""
				 : "PEERPIN_PREREGISTER=sync registers inside the allocation; "));
	set_text(
		facts, "pin_limit_mend",
		text_of("%s",
			job_sets(job, "PEERPIN_PIN_LIMIT", NULL)
				? "a larger PEERPIN_PIN_LIMIT, as far as the GPU's BAR1 has room (peerpin "
				  "doctor)"
				: "PEERPIN_PIN_LIMIT is not set: what limits is the GPU's BAR1, the adapter, "
				  "or the limit of locked memory (peerpin doctor)"));
	set_text(
		facts, "early",
		text_of("%s",
			show_count(add_capped(job_total(job, "waited"), job_total(job, "taken_over"))).text));
}

static bool all_have_ranks(const struct job *job)
{
	for (size_t i = 0; i < job->count; i++) {
		if (record_rank(job->ranks[i]) < 0)
			return false;
	}
	return true;
}

void facts_find(struct facts *facts, const struct job *job)
{
	const char *setting = "one of them";

	*facts = (struct facts){ .ranks = job->count,
				 .used = job->used,
				 .killed = job->ends[RECORD_KILLED],
				 .texts = json_object() };
	find_use(facts, job);
	find_ranks(facts, job);
	find_pairs(facts, job);
	find_failures(facts, job);
	find_mends(facts, job);
	facts->settings = count_different(job, "settings", &setting);
	facts->versions = count_different(job, "version", NULL);
	set_text(facts, "settings_key", clean_text(setting));
	set_text(facts, "program", clean_text(job->program));
	set_text(facts, "never_used_cost", never_used_cost(job));
	set_text(facts, "never_used_mend", never_used_mend(job));
	set_count(facts, "ranks", facts->ranks);
	set_text(facts, "ranks_or_processes", text_of("%s", all_have_ranks(job) ? "ranks" : "processes"));
	set_count(facts, "unused", facts->ranks - facts->used);
	set_count(facts, "killed", facts->killed);
	set_count(facts, "missing", facts->missing);
	set_count(facts, "doubled", facts->doubled);
	set_count(facts, "settings", facts->settings);
	set_count(facts, "versions", facts->versions);
}

void facts_free(struct facts *facts)
{
	json_decref(facts->texts);
}
