/* SPDX-License-Identifier: BSD-3-Clause */
/* emit.c -- walks over what is counted, and gives each form its rows */
#include "base/emit.h"

#include "base/emit_forms.h"
#include "base/system.h"

/* Not a table of rows: its pointers would have to be filled in at the start of every process. */
void emit_walk(const struct image *image, void (*take)(void *argument, const struct emit_row *row),
	       void *argument)
{
#define STATISTIC(name, unit, line, label, meaning)                                                          \
	take(argument, &(struct emit_row){ #name, UNIT_##unit, LINE_##line, label, meaning,                  \
					   image_value(&image->counters.name) });
#define TALLY(name, unit, line, label, meaning)                                                              \
	take(argument, &(struct emit_row){ #name, UNIT_##unit, LINE_##line, label, meaning,                  \
					   image_tallied(image, TALLY_##name) });
#include "base/statistics.def"
#undef TALLY
#undef STATISTIC
}

#define COUNTED(name) image_value(&image->counters.name)

void emit_walk_histograms(const struct image *image,
			  void (*take)(void *argument, const struct emit_histogram *histogram),
			  void *argument)
{
	struct emit_histogram histogram;

#define HISTOGRAM(place, total, text)                                                                        \
	histogram = (struct emit_histogram){ #place, text, total, image->histograms[HISTOGRAM_##place],      \
					     HISTOGRAM_BUCKETS };                                            \
	while (histogram.used && !image_value(&histogram.buckets[histogram.used - 1]))                       \
		histogram.used--;                                                                            \
	take(argument, &histogram);
#include "base/statistics.def"
#undef HISTOGRAM
}

void emit_walk_gpus(const struct image *image, void (*take)(void *argument, const struct emit_pinned *pinned),
		    void *argument)
{
	for (int i = 0; i < IMAGE_GPUS; i++) {
		const struct image_pinned *gpu = &image->gpus[i];

		if (image_value(&gpu->peak))
			take(argument, &(struct emit_pinned){ i, NULL, image_value(&gpu->bytes),
							      image_value(&gpu->peak) });
	}
}

void emit_walk_adapters(const struct image *image,
			void (*take)(void *argument, const struct emit_pinned *pinned), void *argument)
{
	for (int i = 0; i < IMAGE_ADAPTERS && image->adapters[i].named; i++) {
		const struct image_adapter *adapter = &image->adapters[i];

		take(argument, &(struct emit_pinned){ -1, adapter->name, image_value(&adapter->pinned.bytes),
						      image_value(&adapter->pinned.peak) });
	}
}

void emit_walk_pairs(const struct image *image, void (*take)(void *argument, const struct emit_pair *pair),
		     void *argument)
{
	for (int i = 0; i < IMAGE_PAIRS && image->pairs[i].known; i++) {
		const struct image_pair *pair = &image->pairs[i];
		uint64_t dma_buf = image_value(&pair->dma_buf), peer = image_value(&pair->peer_memory);
		char reason[IMAGE_REASON];
		const char *adapter;

		if (pair->adapter < 0 || pair->adapter >= IMAGE_ADAPTERS)
			continue;
		adapter = image->adapters[pair->adapter].name;
		if (dma_buf)
			take(argument,
			     &(struct emit_pair){ pair->gpu, adapter, "dma-buf", pair->path,
						  image_reason(pair, IMAGE_DMA_BUF, reason), dma_buf });
		if (peer)
			take(argument,
			     &(struct emit_pair){ pair->gpu, adapter, "peer memory", pair->path,
						  image_reason(pair, IMAGE_PEER_MEMORY, reason), peer });
	}
}

void emit(struct output *output, const struct emit_source *source, enum emit_form form)
{
	struct emitter emitter = { .output = output, .source = source };

	switch (form) {
	case EMIT_TABLE:
		emit_walk(source->image, emit_table_row, &emitter);
		emit_table_end(&emitter);
		break;
	case EMIT_JSON:
		emit_json_begin(&emitter);
		emit_walk(source->image, emit_json_row, &emitter);
		emit_json_end(&emitter);
		break;
	case EMIT_PROMETHEUS:
		emit_walk(source->image, emit_prometheus_row, &emitter);
		emit_prometheus_end(&emitter);
		break;
	case EMIT_LINE:
		emit_table_line(&emitter);
		break;
	}
}
