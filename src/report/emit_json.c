/* SPDX-License-Identifier: BSD-3-Clause */
/* emit_json.c -- statistics as JSON (docs/stats.schema.json) */
#include "report/emit_forms.h"

#include "base/system.h"
#include "base/text.h"

static void emit_json_add_text(struct emitter *emitter, const char *key, const char *value)
{
	output_add(emitter->output, "  \"%s\": ", key);
	output_add_string(emitter->output, value);
	output_add(emitter->output, ",\n");
}

static void emit_json_add_rank(struct emitter *emitter, const char *key, int rank)
{
	if (rank >= 0)
		output_add(emitter->output, "  \"%s\": %d,\n", key, rank);
	else
		output_add(emitter->output, "  \"%s\": null,\n", key);
}

/* `at`: NAME=VALUE lines of the segment's header. */
static void emit_json_add_settings(struct emitter *emitter, const char *at)
{
	char text[sizeof(((struct segment_header *)0)->settings)];
	const char *separator = "";

	output_add(emitter->output, "  \"settings\": {");
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
		output_add(emitter->output, "%s", separator);
		output_add_string(emitter->output, text);
		output_add(emitter->output, ": ");
		output_add_string(emitter->output, text + equals + 1);
		separator = ", ";
	}
	output_add(emitter->output, "},\n");
}

static void emit_json_add_header(struct emitter *emitter)
{
	static const char ends[][8] = {
		[EMIT_EXITED] = "exit", [EMIT_RUNNING] = "running", [EMIT_KILLED] = "killed"
	};
	const struct emit_source *source = emitter->source;
	const struct segment_header *header = &source->segment->header;
	char usage[400];

	output_add(emitter->output, "{\n");
	emit_json_add_text(emitter, "schema", "peerpin-stats/1");
	emit_json_add_text(emitter, "version", header->version);
	emit_json_add_text(emitter, "program", header->program);
	emit_json_add_text(emitter, "host", header->host);
	if (header->job[0])
		emit_json_add_text(emitter, "job", header->job);
	else
		output_add(emitter->output, "  \"job\": null,\n");
	output_add(emitter->output, "  \"pid\": %d,\n  \"processes\": %u,\n", header->process,
		   source->processes);
	emit_json_add_rank(emitter, "rank", header->rank);
	emit_json_add_rank(emitter, "local_rank", header->local_rank);
	output_add(emitter->output, "  \"complete\": %s,\n",
		   source->end == EMIT_EXITED ? "true" : "false");
	emit_json_add_text(emitter, "ended", ends[source->end]);
	output_add(emitter->output, "  \"started_ns\": %llu,\n  \"elapsed_ns\": %llu,\n",
		   llu(header->started_ns), llu(source->elapsed_ns));
	emit_json_add_settings(emitter, header->settings);
	usage_write(source->segment, usage, sizeof(usage));
	output_add(emitter->output, "  \"used\": %s,\n",
		   usage_is_used(source->segment) ? "true" : "false");
	emit_json_add_text(emitter, "usage", usage);
}

static void emit_json_add_numbers(struct emitter *emitter)
{
	for (struct segment_row row = { .count = 0 }; segment_next_row(&row);) {
		if (row.kind != SEGMENT_HISTOGRAM)
			output_add(emitter->output, "  \"%s\": %llu,\n", row.name,
				   llu(segment_number(emitter->source->segment, &row)));
	}
}

static void emit_json_add_histograms(struct emitter *emitter)
{
	const char *separator = "";

	output_add(emitter->output, "  \"histograms\": {\n");
	for (struct segment_row row = { .count = 0 }; segment_next_row(&row);) {
		const _Atomic uint64_t *buckets;
		unsigned int used;

		if (row.kind != SEGMENT_HISTOGRAM)
			continue;
		buckets = emitter->source->segment->histograms[row.place];
		used = emit_used_buckets(buckets);
		output_add(emitter->output, "%s    \"%s\": [", separator, row.name);
		for (unsigned int i = 0; i < used; i++)
			output_add(emitter->output, "%s%llu", i ? ", " : "",
				   llu(segment_value(&buckets[i])));
		output_add(emitter->output, "]");
		separator = ",\n";
	}
	output_add(emitter->output, "\n  },\n");
}

static void emit_json_add_pinned(struct emitter *emitter, const struct segment_pinned *pinned)
{
	output_add(emitter->output, ", \"pinned_bytes\": %llu, \"pinned_bytes_peak\": %llu}",
		   llu(segment_value(&pinned->bytes)), llu(segment_value(&pinned->peak)));
}

static void emit_json_add_gpus(struct emitter *emitter)
{
	const char *separator = "";

	output_add(emitter->output, "  \"gpus\": [");
	for (int i = 0; i < SEGMENT_GPUS; i++) {
		const struct segment_pinned *gpu = &emitter->source->segment->gpus[i];

		if (!segment_value(&gpu->peak))
			continue;
		output_add(emitter->output, "%s{\"gpu\": %d", separator, i);
		emit_json_add_pinned(emitter, gpu);
		separator = ", ";
	}
	output_add(emitter->output, "],\n");
}

static void emit_json_add_adapters(struct emitter *emitter)
{
	const struct segment_adapter *adapters = emitter->source->segment->adapters;

	output_add(emitter->output, "  \"adapters\": [");
	for (int i = 0; i < SEGMENT_ADAPTERS && adapters[i].named; i++) {
		output_add(emitter->output, "%s{\"adapter\": ", i ? ", " : "");
		output_add_string(emitter->output, adapters[i].name);
		emit_json_add_pinned(emitter, &adapters[i].pinned);
	}
	output_add(emitter->output, "],\n");
}

static void emit_json_add_pair(struct emitter *emitter, const struct segment_pair *pair)
{
	char reason[SEGMENT_REASON];

	output_add(emitter->output, "{\"gpu\": %d, \"adapter\": ", pair->gpu);
	output_add_string(emitter->output, emitter->source->segment->adapters[pair->adapter].name);
	output_add(emitter->output, ", \"method\": ");
	output_add_string(emitter->output, pair->method);
	output_add(emitter->output, ", \"path\": ");
	if (pair->path[0])
		output_add_string(emitter->output, pair->path);
	else
		output_add(emitter->output, "null");
	if (segment_reason(pair, reason)) {
		output_add(emitter->output, ", \"reason\": ");
		output_add_string(emitter->output, reason);
	}
	output_add(emitter->output, ", \"registrations\": %llu}",
		   llu(segment_value(&pair->registrations)));
}

static void emit_json_add_pairs(struct emitter *emitter)
{
	const char *separator = "";

	output_add(emitter->output, "  \"pairs\": [");
	for (int i = 0; i < SEGMENT_PAIRS; i++) {
		const struct segment_pair *pair = emit_pair(emitter->source->segment, i);

		if (!pair)
			continue;
		output_add(emitter->output, "%s", separator);
		emit_json_add_pair(emitter, pair);
		separator = ", ";
	}
	output_add(emitter->output, "],\n");
}

static void emit_json_add_sample(struct emitter *emitter, uint64_t at, uint64_t registrations,
				 uint64_t pinned, uint64_t requests, uint64_t hits)
{
	output_add(emitter->output,
		   "    {\"at_ns\": %llu, \"registrations\": %llu, \"pinned_bytes\": %llu, "
		   "\"requests\": %llu, "
		   "\"hits\": %llu}",
		   llu(at), llu(registrations), llu(pinned), llu(requests), llu(hits));
}

/* Write the samples, then the current values as the last entry. */
static void emit_json_add_timeline(struct emitter *emitter)
{
	const struct segment *segment = emitter->source->segment;

	output_add(emitter->output, "  \"timeline\": [\n");
	for (int i = 0; i < SEGMENT_SAMPLES; i++) {
		const struct segment_sample *sample = &segment->timeline.samples[i];

		if (!segment_value(&sample->at_ns) ||
		    segment_value(&sample->at_ns) >= emitter->source->elapsed_ns)
			continue;
		emit_json_add_sample(
			emitter, segment_value(&sample->at_ns),
			segment_value(&sample->registrations), segment_value(&sample->pinned_bytes),
			segment_value(&sample->requests), segment_value(&sample->hits));
		output_add(emitter->output, ",\n");
	}
	emit_json_add_sample(emitter, emitter->source->elapsed_ns,
			     segment_value(&segment->counters.registrations),
			     segment_value(&segment->counters.pinned_bytes),
			     segment_tallied(segment, TALLY_requests),
			     segment_tallied(segment, TALLY_hits));
	output_add(emitter->output, "\n  ]\n");
}

void emit_json(struct emitter *emitter)
{
	emit_json_add_header(emitter);
	emit_json_add_numbers(emitter);
	emit_json_add_histograms(emitter);
	emit_json_add_gpus(emitter);
	emit_json_add_adapters(emitter);
	emit_json_add_pairs(emitter);
	emit_json_add_timeline(emitter);
	output_add(emitter->output, "}\n");
}
