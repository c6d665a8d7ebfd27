/* SPDX-License-Identifier: BSD-3-Clause */
/* emit_prometheus.c -- statistics as Prometheus text, for the textfile collector */
#include "report/emit_forms.h"

#include "base/plain_text.h"
#include "base/system.h"
#include "base/text.h"

/* Escape quote and backslash, as the text format requires. Replace control characters, and invalid
 * UTF-8: the collector rejects the whole file otherwise. */
void emit_prometheus_add_label(struct output *output, const char *name, const char *value)
{
	unsigned int length;

	output_add(output, "%s=\"", name);
	for (; *value; value += length ? length : 1) {
		length = plain_text_printable(value);
		if (*value == '"' || *value == '\\')
			output_add(output, "\\%c", *value);
		else if (!length)
			output_add(output, "\xef\xbf\xbd"); /* U+FFFD */
		else
			output_add(output, "%.*s", (int)length, value);
	}
	output_add(output, "\"");
}

static void emit_prometheus_add_labels(struct emitter *emitter)
{
	const struct segment_header *header = &emitter->source->segment->header;

	output_add(emitter->output, "{");
	emit_prometheus_add_label(emitter->output, "host", header->host);
	output_add(emitter->output, ",");
	emit_prometheus_add_label(emitter->output, "program", header->program);
	if (header->job[0]) {
		output_add(emitter->output, ",");
		emit_prometheus_add_label(emitter->output, "job_id", header->job);
	}
	if (header->rank >= 0)
		output_add(emitter->output, ",rank=\"%d\"", header->rank);
}

/* Write a value without labels of its own. */
static void emit_prometheus_add_value(struct emitter *emitter, const char *name, const char *end,
				      uint64_t value)
{
	output_add(emitter->output, "peerpin_%s%s", name, end);
	emit_prometheus_add_labels(emitter);
	output_add(emitter->output, "} %llu\n", llu(value));
}

const char *emit_prometheus_type(enum emit_unit unit)
{
	return unit == UNIT_COUNT || unit == UNIT_BYTES || unit == UNIT_NS ? "counter" : "gauge";
}

const char *emit_prometheus_end_of_name(const char *type)
{
	return text_equals(type, "counter") ? "_total" : "";
}

void emit_prometheus_begin_metric(struct output *output, const char *name, const char *type,
				  const char *meaning)
{
	const char *end = emit_prometheus_end_of_name(type);

	output_add(output, "# HELP peerpin_%s%s %s\n# TYPE peerpin_%s%s %s\n", name, end, meaning,
		   name, end, type);
}

void emit_prometheus_row(void *argument, const struct emit_row *row)
{
	struct emitter *emitter = argument;
	const char *type = emit_prometheus_type(row->unit);

	emit_prometheus_begin_metric(emitter->output, row->name, type, row->meaning);
	emit_prometheus_add_value(emitter, row->name, emit_prometheus_end_of_name(type),
				  row->value);
}

static void emit_prometheus_add_bucket(struct emitter *emitter, const char *name, const char *bound,
				       uint64_t below)
{
	output_add(emitter->output, "peerpin_%s_distribution_bucket", name);
	emit_prometheus_add_labels(emitter);
	output_add(emitter->output, ",le=\"%s\"} %llu\n", bound, llu(below));
}

/* Append _distribution to the name: a counter may have the histogram's name. */
static void emit_prometheus_add_histogram(void *argument, const struct emit_histogram *histogram)
{
	struct emitter *emitter = argument;
	char name[64], bound[24];
	uint64_t below = 0;

	system_format(name, sizeof(name), "%s_distribution", histogram->name);
	emit_prometheus_begin_metric(emitter->output, name, "histogram", histogram->meaning);
	for (unsigned int i = 0; i < histogram->used; i++) {
		below += segment_value(&histogram->buckets[i]);
		/* Keep the empty bucket before the first nonzero one: its bound is the lower
		 * limit. */
		if (!below && i + 1 < histogram->used && !segment_value(&histogram->buckets[i + 1]))
			continue;
		system_format(bound, sizeof(bound), "%llu", ((unsigned long long)2 << i) - 1);
		emit_prometheus_add_bucket(emitter, histogram->name, bound, below);
	}
	emit_prometheus_add_bucket(emitter, histogram->name, "+Inf", below);
	emit_prometheus_add_value(emitter, name, "_sum", histogram->sum);
	emit_prometheus_add_value(emitter, name, "_count", below);
}

static void emit_prometheus_add_device(struct emitter *emitter, const struct emit_pinned *pinned,
				       uint64_t bytes)
{
	output_add(emitter->output, "peerpin_%s", emitter->family);
	emit_prometheus_add_labels(emitter);
	output_add(emitter->output, ",");
	if (pinned->adapter)
		emit_prometheus_add_label(emitter->output, "adapter", pinned->adapter);
	else
		output_add(emitter->output, "gpu=\"%d\"", pinned->gpu);
	output_add(emitter->output, "} %llu\n", llu(bytes));
}

static void emit_prometheus_add_now(void *argument, const struct emit_pinned *pinned)
{
	emit_prometheus_add_device(argument, pinned, pinned->bytes);
}

static void emit_prometheus_add_peak(void *argument, const struct emit_pinned *pinned)
{
	emit_prometheus_add_device(argument, pinned, pinned->peak);
}

static void emit_prometheus_begin_devices(struct emitter *emitter, const char *family,
					  const char *meaning)
{
	emitter->family = family;
	emit_prometheus_begin_metric(emitter->output, family, "gauge", meaning);
}

static void emit_prometheus_add_pair(void *argument, const struct emit_pair *pair)
{
	struct emitter *emitter = argument;

	output_add(emitter->output, "peerpin_pair_registrations_total");
	emit_prometheus_add_labels(emitter);
	output_add(emitter->output, ",gpu=\"%d\",", pair->gpu);
	emit_prometheus_add_label(emitter->output, "adapter", pair->adapter);
	output_add(emitter->output, ",");
	emit_prometheus_add_label(emitter->output, "method", pair->method);
	output_add(emitter->output, ",");
	emit_prometheus_add_label(emitter->output, "path", pair->path);
	output_add(emitter->output, "} %llu\n", llu(pair->registrations));
}

void emit_prometheus_end(struct emitter *emitter)
{
	const struct segment *segment = emitter->source->segment;

	emit_prometheus_begin_metric(emitter->output, "used", "gauge",
				     "1 if GPUDirect RDMA was used through peerpin");
	emit_prometheus_add_value(emitter, "used", "", usage_is_used(segment));
	emit_walk_histograms(segment, emit_prometheus_add_histogram, emitter);
	emit_prometheus_begin_devices(emitter, "gpu_pinned_bytes",
				      "bytes of the GPU registered at this moment");
	emit_walk_gpus(segment, emit_prometheus_add_now, emitter);
	emit_prometheus_begin_devices(emitter, "gpu_pinned_bytes_peak",
				      "most bytes of the GPU registered at one moment");
	emit_walk_gpus(segment, emit_prometheus_add_peak, emitter);
	emit_prometheus_begin_devices(emitter, "adapter_pinned_bytes",
				      "bytes registered on the adapter at this moment");
	emit_walk_adapters(segment, emit_prometheus_add_now, emitter);
	emit_prometheus_begin_devices(emitter, "adapter_pinned_bytes_peak",
				      "most bytes registered on the adapter at one moment");
	emit_walk_adapters(segment, emit_prometheus_add_peak, emitter);
	emit_prometheus_begin_metric(
		emitter->output, "pair_registrations", "counter",
		"regions of the GPU registered on the adapter, by the method and its path");
	emit_walk_pairs(segment, emit_prometheus_add_pair, emitter);
}
