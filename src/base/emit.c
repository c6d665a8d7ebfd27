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
