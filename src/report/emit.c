/* SPDX-License-Identifier: BSD-3-Clause */
/* emit.c -- choice of the output form; what the forms share */
#include "report/emit.h"

#include "base/system.h"
#include "report/emit_forms.h"

unsigned int emit_used_buckets(const _Atomic uint64_t buckets[HISTOGRAM_BUCKETS])
{
	unsigned int used = HISTOGRAM_BUCKETS;

	while (used && !segment_value(&buckets[used - 1]))
		used--;
	return used;
}

const struct segment_pair *emit_pair(const struct segment *segment, int index)
{
	const struct segment_pair *pair = &segment->pairs[index];

	return pair->known && pair->adapter >= 0 && pair->adapter < SEGMENT_ADAPTERS &&
			       segment_value(&pair->registrations)
		       ? pair
		       : NULL;
}

void emit(struct output *output, const struct emit_source *source, enum emit_form form)
{
	struct emitter emitter = { .output = output, .source = source };

	switch (form) {
	case EMIT_TABLE:
		emit_table(&emitter);
		break;
	case EMIT_JSON:
		emit_json(&emitter);
		break;
	case EMIT_PROMETHEUS:
		emit_prometheus(&emitter);
		break;
	case EMIT_LINE:
		emit_table_line(&emitter);
		break;
	}
}
