/* SPDX-License-Identifier: BSD-3-Clause */
/* emit.c -- walks over the statistics, one call per row, for each output form */
#include "report/emit.h"

#include "base/system.h"
#include "report/emit_forms.h"

/* Unrolled code instead of a table: pointers in a table are relocated at each process start. */
void emit_walk(const struct segment *segment,
	       void (*take)(void *argument, const struct emit_row *row), void *argument)
{
#define STATISTIC(name, unit, meaning)                                                             \
	take(argument, &(struct emit_row){ #name, UNIT_##unit, NULL, meaning,                      \
					   segment_value(&segment->counters.name) });
#define TALLY(name, unit, meaning)                                                                 \
	take(argument, &(struct emit_row){ #name, UNIT_##unit, NULL, meaning,                      \
					   segment_tallied(segment, TALLY_##name) });
#include "report/statistics.def"
#undef TALLY
#undef STATISTIC
}

void emit_walk_reasons(const struct segment *segment,
		       void (*take)(void *argument, const struct emit_row *row), void *argument)
{
#define STATISTIC(name, unit, meaning)
#define REASON(name, label, meaning)                                                               \
	take(argument, &(struct emit_row){ #name, UNIT_COUNT, label, meaning,                      \
					   segment_value(&segment->counters.name) });
#include "report/statistics.def"
#undef STATISTIC
}

#define COUNTED(name) segment_value(&segment->counters.name)

void emit_walk_histograms(const struct segment *segment,
			  void (*take)(void *argument, const struct emit_histogram *histogram),
			  void *argument)
{
	struct emit_histogram histogram;

#define HISTOGRAM(name, total, text)                                                               \
	histogram = (struct emit_histogram){ #name, text, total,                                   \
					     segment->histograms[HISTOGRAM_##name],                \
					     HISTOGRAM_BUCKETS };                                  \
	while (histogram.used && !segment_value(&histogram.buckets[histogram.used - 1]))           \
		histogram.used--;                                                                  \
	take(argument, &histogram);
#include "report/statistics.def"
#undef HISTOGRAM
}

void emit_walk_gpus(const struct segment *segment,
		    void (*take)(void *argument, const struct emit_pinned *pinned), void *argument)
{
	for (int i = 0; i < SEGMENT_GPUS; i++) {
		const struct segment_pinned *gpu = &segment->gpus[i];

		if (segment_value(&gpu->peak))
			take(argument, &(struct emit_pinned){ i, NULL, segment_value(&gpu->bytes),
							      segment_value(&gpu->peak) });
	}
}

void emit_walk_adapters(const struct segment *segment,
			void (*take)(void *argument, const struct emit_pinned *pinned),
			void *argument)
{
	for (int i = 0; i < SEGMENT_ADAPTERS && segment->adapters[i].named; i++) {
		const struct segment_adapter *adapter = &segment->adapters[i];

		take(argument, &(struct emit_pinned){ -1, adapter->name,
						      segment_value(&adapter->pinned.bytes),
						      segment_value(&adapter->pinned.peak) });
	}
}

void emit_walk_pairs(const struct segment *segment,
		     void (*take)(void *argument, const struct emit_pair *pair), void *argument)
{
	for (int i = 0; i < SEGMENT_PAIRS && segment->pairs[i].known; i++) {
		const struct segment_pair *pair = &segment->pairs[i];
		uint64_t registrations = segment_value(&pair->registrations);
		char reason[SEGMENT_REASON];

		if (pair->adapter < 0 || pair->adapter >= SEGMENT_ADAPTERS || !registrations)
			continue;
		take(argument,
		     &(struct emit_pair){ pair->gpu, segment->adapters[pair->adapter].name,
					  pair->method, pair->path, segment_reason(pair, reason),
					  registrations });
	}
}

void emit(struct output *output, const struct emit_source *source, enum emit_form form)
{
	struct emitter emitter = { .output = output, .source = source };

	switch (form) {
	case EMIT_TABLE:
		emit_table(&emitter);
		break;
	case EMIT_JSON:
		emit_json_begin(&emitter);
		emit_walk(source->segment, emit_json_row, &emitter);
		emit_json_end(&emitter);
		break;
	case EMIT_PROMETHEUS:
		emit_walk(source->segment, emit_prometheus_row, &emitter);
		emit_prometheus_end(&emitter);
		break;
	case EMIT_LINE:
		emit_table_line(&emitter);
		break;
	}
}
