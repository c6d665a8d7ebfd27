/* SPDX-License-Identifier: BSD-3-Clause */
/* emit_forms.h -- what each form of the statistics makes of a row: between emit.c and emit_*.c */
#ifndef PEERPIN_BASE_EMIT_FORMS_H
#define PEERPIN_BASE_EMIT_FORMS_H

#include "base/emit.h"

enum emit_unit {
	UNIT_COUNT,
	UNIT_BYTES,
	UNIT_NS,
	UNIT_COUNT_NOW,
	UNIT_BYTES_NOW,
	UNIT_NS_NOW,
	UNIT_BYTES_PEAK
};

/* In the order in which they stand in the table. */
enum emit_line {
	LINE_ALLOCATIONS,
	LINE_QUERIES,
	LINE_REGISTRATIONS,
	LINE_FAILURES,
	LINE_REQUESTS,
	LINE_REASONS,
	LINE_TIME,
	LINE_FREES,
	LINE_NEVER_USED,
	LINE_COUNT,
	LINE_NO_LINE = LINE_COUNT
};

struct emit_row {
	const char *name;
	enum emit_unit unit;
	enum emit_line line;
	const char *label, *meaning;
	uint64_t value;
};

struct emit_histogram {
	const char *name, *meaning;
	uint64_t sum;
	const _Atomic uint64_t *buckets;
	unsigned int used; /* all behind so many are empty */
};

/* What is pinned of a GPU, or on an adapter. */
struct emit_pinned {
	int gpu;	     /* -1: it is an adapter */
	const char *adapter; /* NULL: it is a GPU */
	uint64_t bytes, peak;
};

/* By which way a GPU's memory was registered on an adapter, and how often. */
struct emit_pair {
	int gpu;
	const char *adapter, *method, *path; /* of the PCI bus; "": unknown */
	const char *reason;		     /* not the other method; NULL: no reason is known */
	uint64_t registrations;
};

#define EMIT_LINE_LENGTH 200

struct emitter {
	struct output *output;
	const struct emit_source *source;
	const char *separator; /* in front of the next member of a list */
	const char *family;    /* of places that are walked over for it */
	/* The table's lines, each growing with the walk. */
	struct {
		char text[EMIT_LINE_LENGTH];
		size_t used;
		bool shown; /* there is something worth a line */
	} lines[LINE_COUNT];
};

/* Each row once, in the order of statistics.def. */
void emit_walk(const struct segment *segment, void (*take)(void *argument, const struct emit_row *row),
	       void *argument);

void emit_walk_histograms(const struct segment *segment,
			  void (*take)(void *argument, const struct emit_histogram *histogram),
			  void *argument);
void emit_walk_gpus(const struct segment *segment,
		    void (*take)(void *argument, const struct emit_pinned *pinned), void *argument);
void emit_walk_adapters(const struct segment *segment,
			void (*take)(void *argument, const struct emit_pinned *pinned), void *argument);
void emit_walk_pairs(const struct segment *segment,
		     void (*take)(void *argument, const struct emit_pair *pair), void *argument);

/* These take an emitter. */
void emit_table_row(void *argument, const struct emit_row *row);
void emit_table_end(struct emitter *emitter);
void emit_table_line(struct emitter *emitter);

void emit_json_begin(struct emitter *emitter);
void emit_json_row(void *argument, const struct emit_row *row);
void emit_json_end(struct emitter *emitter);

void emit_prometheus_row(void *argument, const struct emit_row *row);
void emit_prometheus_end(struct emitter *emitter);

#endif
