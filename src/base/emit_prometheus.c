/* SPDX-License-Identifier: BSD-3-Clause */
/* emit_prometheus.c -- the statistics as Prometheus' text, for the textfile collector */
#include "base/emit_forms.h"

/* Escaped as the text format wants it: quote, backslash and line feed. What is no UTF-8 would have all of the file refused. */
static void add_label(struct emitter *emitter, const char *name, const char *value)
{
	unsigned int length;

	output_add(emitter->output, "%s=\"", name);
	for (; *value; value += length ? length : 1) {
		length = output_character(value);
		if (*value == '"' || *value == '\\')
			output_add(emitter->output, "\\%c", *value);
		else if (*value == '\n')
			output_add(emitter->output, "\\n");
		else if (!length)
			output_add(emitter->output, "\xef\xbf\xbd"); /* the character for what is none */
		else
			output_add(emitter->output, "%.*s", (int)length, value);
	}
	output_add(emitter->output, "\"");
}

static void add_labels(struct emitter *emitter)
{
	const struct image_header *header = &emitter->source->image->header;

	output_add(emitter->output, "{");
	add_label(emitter, "host", header->host);
	output_add(emitter->output, ",");
	add_label(emitter, "program", header->program);
	if (header->job[0]) {
		output_add(emitter->output, ",");
		add_label(emitter, "job_id", header->job);
	}
	if (header->rank >= 0)
		output_add(emitter->output, ",rank=\"%d\"", header->rank);
}

static bool is_gauge(enum emit_unit unit)
{
	return unit == UNIT_COUNT_NOW || unit == UNIT_BYTES_NOW || unit == UNIT_NS_NOW ||
	       unit == UNIT_BYTES_PEAK;
}

static void begin_metric(struct emitter *emitter, const char *name, bool gauge, const char *meaning)
{
	output_add(emitter->output, "# HELP peerpin_%s%s %s\n# TYPE peerpin_%s%s %s\n", name,
		   gauge ? "" : "_total", meaning, name, gauge ? "" : "_total", gauge ? "gauge" : "counter");
}

void emit_prometheus_row(void *argument, const struct emit_row *row)
{
	struct emitter *emitter = argument;
	bool gauge = is_gauge(row->unit);

	begin_metric(emitter, row->name, gauge, row->meaning);
	output_add(emitter->output, "peerpin_%s%s", row->name, gauge ? "" : "_total");
	add_labels(emitter);
	output_add(emitter->output, "} %llu\n", (unsigned long long)row->value);
}

void emit_prometheus_end(struct emitter *emitter)
{
	const struct image *image = emitter->source->image;

	begin_metric(emitter, "used", true, "1 if GPUDirect RDMA was used through peerpin");
	output_add(emitter->output, "peerpin_used");
	add_labels(emitter);
	output_add(emitter->output, "} %d\n", verdict_is_used(image));
	begin_metric(emitter, "gpu_pinned_bytes", true, "bytes of the GPU registered at this moment");
	for (int i = 0; i < IMAGE_GPUS; i++) {
		if (!image_value(&image->gpus[i].peak))
			continue;
		output_add(emitter->output, "peerpin_gpu_pinned_bytes");
		add_labels(emitter);
		output_add(emitter->output, ",gpu=\"%d\"} %llu\n", i,
			   (unsigned long long)image_value(&image->gpus[i].bytes));
	}
	begin_metric(emitter, "adapter_pinned_bytes", true, "bytes registered on the adapter at this moment");
	for (int i = 0; i < IMAGE_ADAPTERS && image->adapters[i].named; i++) {
		output_add(emitter->output, "peerpin_adapter_pinned_bytes");
		add_labels(emitter);
		output_add(emitter->output, ",");
		add_label(emitter, "adapter", image->adapters[i].name);
		output_add(emitter->output, "} %llu\n",
			   (unsigned long long)image_value(&image->adapters[i].pinned.bytes));
	}
}
