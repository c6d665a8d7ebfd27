/* SPDX-License-Identifier: BSD-3-Clause */
/* emit_forms.h -- interface between emit.c and the forms of output (emit_*.c) */
#ifndef PEERPIN_REPORT_EMIT_FORMS_H
#define PEERPIN_REPORT_EMIT_FORMS_H

#include "report/emit.h"

enum emit_unit {
	UNIT_COUNT,
	UNIT_BYTES,
	UNIT_NS,
	UNIT_COUNT_NOW,
	UNIT_BYTES_NOW,
	UNIT_NS_NOW,
	UNIT_BYTES_PEAK
};

struct emit_row {
	const char *name;
	enum emit_unit unit;
	const char *label; /* of a reason; NULL: none */
	const char *meaning;
	uint64_t value;
};

struct emit_histogram {
	const char *name, *meaning;
	uint64_t sum;
	const _Atomic uint64_t *buckets;
	unsigned int used; /* number of buckets through the last nonzero one */
};

/* Pinned bytes of a GPU or on an adapter. */
struct emit_pinned {
	int gpu;	     /* -1: adapter row */
	const char *adapter; /* NULL: GPU row */
	uint64_t bytes, peak;
};

/* Registrations of a GPU's memory on an adapter by one method. */
struct emit_pair {
	int gpu;
	const char *adapter, *method, *path; /* PCI path; "": unknown */
	const char *reason;		     /* against the other method; NULL: unknown */
	uint64_t registrations;
};

/* For output_add(). */
#define llu(value) ((unsigned long long)(value))

struct emitter {
	struct output *output;
	const struct emit_source *source;
	const char *separator; /* printed before each member of a list */
	const char *family;    /* Prometheus metric of GPU or adapter rows */
};

/* Call `take` once per row, in the order of statistics.def. */
void emit_walk(const struct segment *segment,
	       void (*take)(void *argument, const struct emit_row *row), void *argument);

/* Only the rows REASON. */
void emit_walk_reasons(const struct segment *segment,
		       void (*take)(void *argument, const struct emit_row *row), void *argument);

void emit_walk_histograms(const struct segment *segment,
			  void (*take)(void *argument, const struct emit_histogram *histogram),
			  void *argument);
void emit_walk_gpus(const struct segment *segment,
		    void (*take)(void *argument, const struct emit_pinned *pinned), void *argument);
void emit_walk_adapters(const struct segment *segment,
			void (*take)(void *argument, const struct emit_pinned *pinned),
			void *argument);
void emit_walk_pairs(const struct segment *segment,
		     void (*take)(void *argument, const struct emit_pair *pair), void *argument);

/* The most frequent reason of bypassed requests; without a label: none. */
struct emit_row usage_main_reason(const struct segment *segment);

/* Return true if the process ran with that value of a setting; NULL: with any value except the
 * default. */
bool usage_has_setting(const struct segment *segment, const char *name, const char *value);

/* Return true if the worker found no idle CPU, for more requests than a few (hints.def). */
bool usage_lacks_idle_cpu(const struct segment *segment);

/* `argument` of the row functions: a struct emitter. */
void emit_table(struct emitter *emitter);
void emit_table_line(struct emitter *emitter);

void emit_json_begin(struct emitter *emitter);
void emit_json_row(void *argument, const struct emit_row *row);
void emit_json_end(struct emitter *emitter);

/* Parts of the Prometheus text, also for tools/report_prometheus.c. A label: NAME="VALUE", escaped.
 * Lines of a metric follow its beginning; names of counters end in _total. */
void emit_prometheus_add_label(struct output *output, const char *name, const char *value);
void emit_prometheus_begin_metric(struct output *output, const char *name, const char *type,
				  const char *meaning);
const char *emit_prometheus_type(enum emit_unit unit);
const char *emit_prometheus_end_of_name(const char *type);

void emit_prometheus_row(void *argument, const struct emit_row *row);
void emit_prometheus_end(struct emitter *emitter);

#endif
