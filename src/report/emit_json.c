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

void emit_json_begin(struct emitter *emitter)
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

void emit_json_row(void *argument, const struct emit_row *row)
{
	struct emitter *emitter = argument;

	output_add(emitter->output, "  \"%s\": %llu,\n", row->name, llu(row->value));
}

static void emit_json_add_histogram(void *argument, const struct emit_histogram *histogram)
{
	struct emitter *emitter = argument;

	output_add(emitter->output, "%s    \"%s\": [", emitter->separator, histogram->name);
	for (unsigned int i = 0; i < histogram->used; i++)
		output_add(emitter->output, "%s%llu", i ? ", " : "",
			   llu(segment_value(&histogram->buckets[i])));
	output_add(emitter->output, "]");
	emitter->separator = ",\n";
}

static void emit_json_add_histograms(struct emitter *emitter)
{
	output_add(emitter->output, "  \"histograms\": {\n");
	emitter->separator = "";
	emit_walk_histograms(emitter->source->segment, emit_json_add_histogram, emitter);
	output_add(emitter->output, "\n  },\n");
}

static void emit_json_add_pinned(void *argument, const struct emit_pinned *pinned)
{
	struct emitter *emitter = argument;

	if (pinned->adapter) {
		output_add(emitter->output, "%s{\"adapter\": ", emitter->separator);
		output_add_string(emitter->output, pinned->adapter);
	} else {
		output_add(emitter->output, "%s{\"gpu\": %d", emitter->separator, pinned->gpu);
	}
	output_add(emitter->output, ", \"pinned_bytes\": %llu, \"pinned_bytes_peak\": %llu}",
		   llu(pinned->bytes), llu(pinned->peak));
	emitter->separator = ", ";
}

static void emit_json_add_pair(void *argument, const struct emit_pair *pair)
{
	struct emitter *emitter = argument;

	output_add(emitter->output, "%s{\"gpu\": %d, \"adapter\": ", emitter->separator, pair->gpu);
	output_add_string(emitter->output, pair->adapter);
	output_add(emitter->output, ", \"method\": ");
	output_add_string(emitter->output, pair->method);
	output_add(emitter->output, ", \"path\": ");
	if (pair->path[0])
		output_add_string(emitter->output, pair->path);
	else
		output_add(emitter->output, "null");
	if (pair->reason) {
		output_add(emitter->output, ", \"reason\": ");
		output_add_string(emitter->output, pair->reason);
	}
	output_add(emitter->output, ", \"registrations\": %llu}", llu(pair->registrations));
	emitter->separator = ", ";
}

static void emit_json_add_devices(struct emitter *emitter)
{
	const struct segment *segment = emitter->source->segment;

	output_add(emitter->output, "  \"gpus\": [");
	emitter->separator = "";
	emit_walk_gpus(segment, emit_json_add_pinned, emitter);
	output_add(emitter->output, "],\n  \"adapters\": [");
	emitter->separator = "";
	emit_walk_adapters(segment, emit_json_add_pinned, emitter);
	output_add(emitter->output, "],\n  \"pairs\": [");
	emitter->separator = "";
	emit_walk_pairs(segment, emit_json_add_pair, emitter);
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

void emit_json_end(struct emitter *emitter)
{
	emit_json_add_histograms(emitter);
	emit_json_add_devices(emitter);
	emit_json_add_timeline(emitter);
	output_add(emitter->output, "}\n");
}
