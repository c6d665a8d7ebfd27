/* SPDX-License-Identifier: BSD-3-Clause */
/* emit_prometheus.c -- statistics as Prometheus text, for the textfile collector */
#include "report/emit_forms.h"

#include <stdio.h>

#include "base/capped.h"
#include "base/plain_text.h"
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

const char *emit_prometheus_type(enum segment_kind kind)
{
	return kind == SEGMENT_GAUGE	   ? "gauge"
	       : kind == SEGMENT_HISTOGRAM ? "histogram"
					   : "counter";
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

static void emit_prometheus_add_number(struct emitter *emitter, const struct segment_row *row)
{
	const char *type = emit_prometheus_type(row->kind);

	emit_prometheus_begin_metric(emitter->output, row->name, type, row->meaning);
	emit_prometheus_add_value(emitter, row->name, emit_prometheus_end_of_name(type),
				  segment_number(emitter->source->segment, row));
}

static void emit_prometheus_add_bucket(struct emitter *emitter, const char *name, const char *bound,
				       uint64_t below)
{
	output_add(emitter->output, "peerpin_%s_distribution_bucket", name);
	emit_prometheus_add_labels(emitter);
	output_add(emitter->output, ",le=\"%s\"} %llu\n", bound, llu(below));
}

/* Append _distribution to the name: a counter may have the histogram's name. */
static void emit_prometheus_add_histogram(struct emitter *emitter, const struct segment_row *row)
{
	const struct segment *segment = emitter->source->segment;
	const _Atomic uint64_t *buckets = segment->histograms[row->place];
	unsigned int used = emit_used_buckets(buckets);
	char name[64], bound[24];
	uint64_t below = 0;

	snprintf(name, sizeof(name), "%s_distribution", row->name);
	emit_prometheus_begin_metric(emitter->output, name, emit_prometheus_type(row->kind),
				     row->meaning);
	for (unsigned int i = 0; i < used; i++) {
		below = add_capped(below, segment_value(&buckets[i]));
		/* Keep the empty bucket before the first nonzero one: its bound is the lower
		 * limit. */
		if (!below && i + 1 < used && !segment_value(&buckets[i + 1]))
			continue;
		snprintf(bound, sizeof(bound), "%llu", ((unsigned long long)2 << i) - 1);
		emit_prometheus_add_bucket(emitter, row->name, bound, below);
	}
	emit_prometheus_add_bucket(emitter, row->name, "+Inf", below);
	emit_prometheus_add_value(emitter, name, "_sum", segment_number(segment, row));
	emit_prometheus_add_value(emitter, name, "_count", below);
}

/* The rows that are histograms, or those that are not. */
static void emit_prometheus_add_rows(struct emitter *emitter, bool histograms)
{
	for (struct segment_row row = { .count = 0 }; segment_next_row(&row);) {
		if ((row.kind == SEGMENT_HISTOGRAM) != histograms)
			continue;
		if (histograms)
			emit_prometheus_add_histogram(emitter, &row);
		else
			emit_prometheus_add_number(emitter, &row);
	}
}

/* Begin a value that has labels of its own. */
static void emit_prometheus_begin_value(struct emitter *emitter, const char *name)
{
	output_add(emitter->output, "peerpin_%s", name);
	emit_prometheus_add_labels(emitter);
}

static void emit_prometheus_add_gpus(struct emitter *emitter, const char *name, const char *meaning,
				     bool peak)
{
	emit_prometheus_begin_metric(emitter->output, name, "gauge", meaning);
	for (int i = 0; i < SEGMENT_GPUS; i++) {
		const struct segment_pinned *gpu = &emitter->source->segment->gpus[i];

		if (!segment_value(&gpu->peak))
			continue;
		emit_prometheus_begin_value(emitter, name);
		output_add(emitter->output, ",gpu=\"%d\"} %llu\n", i,
			   llu(segment_value(peak ? &gpu->peak : &gpu->bytes)));
	}
}

static void emit_prometheus_add_adapters(struct emitter *emitter, const char *name,
					 const char *meaning, bool peak)
{
	const struct segment_adapter *adapters = emitter->source->segment->adapters;

	emit_prometheus_begin_metric(emitter->output, name, "gauge", meaning);
	for (int i = 0; i < SEGMENT_ADAPTERS && adapters[i].named; i++) {
		const struct segment_pinned *pinned = &adapters[i].pinned;

		emit_prometheus_begin_value(emitter, name);
		output_add(emitter->output, ",");
		emit_prometheus_add_label(emitter->output, "adapter", adapters[i].name);
		output_add(emitter->output, "} %llu\n",
			   llu(segment_value(peak ? &pinned->peak : &pinned->bytes)));
	}
}

static void emit_prometheus_add_pairs(struct emitter *emitter)
{
	const struct segment *segment = emitter->source->segment;

	emit_prometheus_begin_metric(
		emitter->output, "pair_registrations", "counter",
		"regions of the GPU registered on the adapter, by the method and its path");
	for (int i = 0; i < SEGMENT_PAIRS; i++) {
		const struct segment_pair *pair = emit_pair(segment, i);

		if (!pair)
			continue;
		emit_prometheus_begin_value(emitter, "pair_registrations_total");
		output_add(emitter->output, ",gpu=\"%d\",", pair->gpu);
		emit_prometheus_add_label(emitter->output, "adapter",
					  segment->adapters[pair->adapter].name);
		output_add(emitter->output, ",");
		emit_prometheus_add_label(emitter->output, "method", pair->method);
		output_add(emitter->output, ",");
		emit_prometheus_add_label(emitter->output, "path", pair->path);
		output_add(emitter->output, "} %llu\n", llu(segment_value(&pair->registrations)));
	}
}

void emit_prometheus(struct emitter *emitter)
{
	const struct segment *segment = emitter->source->segment;

	emit_prometheus_add_rows(emitter, false);
	emit_prometheus_begin_metric(emitter->output, "used", "gauge",
				     "1 if GPUDirect RDMA was used through peerpin");
	emit_prometheus_add_value(emitter, "used", "", usage_is_used(segment));
	emit_prometheus_add_rows(emitter, true);
	emit_prometheus_add_gpus(emitter, "gpu_pinned_bytes",
				 "bytes of the GPU registered at this moment", false);
	emit_prometheus_add_gpus(emitter, "gpu_pinned_bytes_peak",
				 "most bytes of the GPU registered at one moment", true);
	emit_prometheus_add_adapters(emitter, "adapter_pinned_bytes",
				     "bytes registered on the adapter at this moment", false);
	emit_prometheus_add_adapters(emitter, "adapter_pinned_bytes_peak",
				     "most bytes registered on the adapter at one moment", true);
	emit_prometheus_add_pairs(emitter);
}
