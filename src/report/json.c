/* SPDX-License-Identifier: BSD-3-Clause */
/* json.c -- statistics of this process as JSON (docs/stats.schema.json) */
#include "report/output.h"

#include "base/system.h"
#include "base/text.h"
#include "report/callers.h"
#include "report/statistics.h"

static void json_add_text(struct output *output, const char *key, const char *value)
{
	output_add(output, "  \"%s\": ", key);
	output_add_string(output, value);
	output_add(output, ",\n");
}

static void json_add_rank(struct output *output, const char *key, int rank)
{
	if (rank >= 0)
		output_add(output, "  \"%s\": %d,\n", key, rank);
	else
		output_add(output, "  \"%s\": null,\n", key);
}

/* `at`: NAME=VALUE lines of the changed settings. */
static void json_add_settings(struct output *output, const char *at)
{
	char text[sizeof(((struct statistics_process *)0)->settings)];
	const char *separator = "";

	output_add(output, "  \"settings\": {");
	while (*at) {
		size_t length = 0, equals = 0;

		for (; at[length] && at[length] != '\n'; length++) {
			text[length] = at[length];
			if (!equals && at[length] == '=')
				equals = length;
		}
		text[length] = '\0';
		at += length + (at[length] == '\n');
		if (!equals)
			continue;
		text[equals] = '\0';
		output_add(output, "%s", separator);
		output_add_string(output, text);
		output_add(output, ": ");
		output_add_string(output, text + equals + 1);
		separator = ", ";
	}
	output_add(output, "},\n");
}

static void json_add_process(struct output *output, bool ended, uint64_t elapsed_ns)
{
	const struct statistics_process *process = &statistics.process;
	char usage[400];

	output_add(output, "{\n");
	json_add_text(output, "schema", "peerpin-stats/1");
	json_add_text(output, "version", process->version);
	json_add_text(output, "program", process->program);
	json_add_text(output, "host", process->host);
	if (process->job[0])
		json_add_text(output, "job", process->job);
	else
		output_add(output, "  \"job\": null,\n");
	output_add(output, "  \"pid\": %d,\n  \"pid_namespace\": %llu,\n  \"start_ticks\": %llu,\n",
		   process->number, llu(process->name_space), llu(process->start));
	json_add_rank(output, "rank", process->rank);
	json_add_rank(output, "local_rank", process->local_rank);
	output_add(output, "  \"complete\": %s,\n", ended ? "true" : "false");
	json_add_text(output, "ended", ended ? "exit" : "running");
	output_add(output, "  \"started_ns\": %llu,\n  \"elapsed_ns\": %llu,\n",
		   llu(process->started_ns), llu(elapsed_ns));
	json_add_settings(output, process->settings);
	usage_write(usage, sizeof(usage));
	output_add(output, "  \"used\": %s,\n", usage_is_used() ? "true" : "false");
	json_add_text(output, "usage", usage);
}

static void json_add_numbers(struct output *output)
{
	for (struct statistics_row row = { .count = 0 }; statistics_next_row(&row);) {
		if (row.kind != STATISTICS_HISTOGRAM)
			output_add(output, "  \"%s\": %llu,\n", row.name,
				   llu(statistics_number(&row)));
	}
}

static void json_add_histograms(struct output *output)
{
	const char *separator = "";

	output_add(output, "  \"histograms\": {\n");
	for (struct statistics_row row = { .count = 0 }; statistics_next_row(&row);) {
		const _Atomic uint64_t *buckets;
		unsigned int used;

		if (row.kind != STATISTICS_HISTOGRAM)
			continue;
		buckets = statistics.histograms[row.place];
		used = HISTOGRAM_BUCKETS;
		while (used && !load_relaxed(&buckets[used - 1]))
			used--;
		output_add(output, "%s    \"%s\": [", separator, row.name);
		for (unsigned int i = 0; i < used; i++)
			output_add(output, "%s%llu", i ? ", " : "", llu(load_relaxed(&buckets[i])));
		output_add(output, "]");
		separator = ",\n";
	}
	output_add(output, "\n  },\n");
}

static void json_add_pair(struct output *output, const struct statistics_pair *pair)
{
	char reason[STATISTICS_REASON];

	output_add(output, "{\"gpu\": %d, \"adapter\": ", pair->gpu);
	output_add_string(output, statistics.adapters[pair->adapter].name);
	output_add(output, ", \"method\": ");
	output_add_string(output, pair->method);
	output_add(output, ", \"path\": ");
	if (pair->path[0])
		output_add_string(output, pair->path);
	else
		output_add(output, "null");
	if (statistics_reason(pair, reason)) {
		output_add(output, ", \"reason\": ");
		output_add_string(output, reason);
	}
	output_add(output, ", \"registrations\": %llu}", llu(load_relaxed(&pair->registrations)));
}

static void json_add_pairs(struct output *output)
{
	const char *separator = "";

	output_add(output, "  \"pairs\": [");
	for (int i = 0; i < STATISTICS_PAIRS; i++) {
		const struct statistics_pair *pair = &statistics.pairs[i];

		if (!pair->known || pair->adapter >= STATISTICS_ADAPTERS ||
		    !load_relaxed(&pair->registrations))
			continue;
		output_add(output, "%s", separator);
		json_add_pair(output, pair);
		separator = ", ";
	}
	output_add(output, "]\n");
}

void json_write(struct output *output, bool ended, uint64_t elapsed_ns)
{
	json_add_process(output, ended, elapsed_ns);
	json_add_numbers(output);
	json_add_histograms(output);
	callers_write_findings(output);
	json_add_pairs(output);
	output_add(output, "}\n");
}
