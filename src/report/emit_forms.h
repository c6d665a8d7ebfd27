/* SPDX-License-Identifier: BSD-3-Clause */
/* emit_forms.h -- interface between emit.c and the forms of output (emit_*.c) */
#ifndef PEERPIN_REPORT_EMIT_FORMS_H
#define PEERPIN_REPORT_EMIT_FORMS_H

#include "report/emit.h"

/* For output_add(). */
#define llu(value) ((unsigned long long)(value))

struct emitter {
	struct output *output;
	const struct emit_source *source;
};

/* Return the number of buckets through the last nonzero one. */
unsigned int emit_used_buckets(const _Atomic uint64_t buckets[HISTOGRAM_BUCKETS]);

/* Return the pair at that index; NULL: it has no registrations. */
const struct segment_pair *emit_pair(const struct segment *segment, int index);

/* Set *reason to the most frequent reason of bypassed requests. Return its number; 0: none. */
uint64_t usage_main_reason(const struct segment *segment, struct segment_row *reason);

/* Return true if the process ran with that value of a setting; NULL: with any value except the
 * default. */
bool usage_has_setting(const struct segment *segment, const char *name, const char *value);

/* Return true if the worker found no idle CPU, for more requests than a few (hints.def). */
bool hints_lacks_idle_cpu(const struct segment *segment);

void emit_table(struct emitter *emitter);
void emit_table_line(struct emitter *emitter);
void emit_json(struct emitter *emitter);
void emit_prometheus(struct emitter *emitter);

/* Parts of the Prometheus text, also for tools/report_prometheus.c. A label: NAME="VALUE", escaped.
 * Lines of a metric follow its beginning; names of counters end in _total. */
void emit_prometheus_add_label(struct output *output, const char *name, const char *value);
void emit_prometheus_begin_metric(struct output *output, const char *name, const char *type,
				  const char *meaning);
const char *emit_prometheus_type(enum segment_kind kind);
const char *emit_prometheus_end_of_name(const char *type);

#endif
