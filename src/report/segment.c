/* SPDX-License-Identifier: BSD-3-Clause */
/* segment.c -- segment code shared by the library and the tools */
#include "report/segment.h"

#include "base/atomics.h"
#include "base/text.h"

/* ---- rows of statistics.def ---- */

enum unit { COUNT, BYTES, NS, COUNT_NOW, BYTES_NOW, NS_NOW, BYTES_PEAK };

#define ROW_KIND(unit)		       ((unit) < COUNT_NOW ? SEGMENT_COUNTER : SEGMENT_GAUGE)
#define COUNTER(name)		       offsetof(struct segment, counters.name)
#define STATISTIC(name, unit, meaning) ROW(#name, "", meaning, ROW_KIND(unit), COUNTER(name))
#define REASONS(name, label, meaning)  ROW(#name, label, meaning, SEGMENT_COUNTER, COUNTER(name))
#define TALLY(name, unit, meaning)     ROW(#name, "", meaning, SEGMENT_TALLY, TALLY_##name)
#define HISTOGRAM(name, sum, meaning)  ROW(#name, "", meaning, SEGMENT_HISTOGRAM, HISTOGRAM_##name)

/* All texts in one object, in order. Pointers would be relocated at each process start. */
static const char texts[] =
#define REASON				       REASONS
#define ROW(name, label, meaning, kind, place) name "\0" label "\0" meaning "\0"
#include "report/statistics.def"
#undef ROW
	;

static const struct {
	uint8_t kind, name_size, label_size;
	uint16_t meaning_size, place;
} rows[] = {
#define REASON REASONS
#define ROW(name, label, meaning, kind, place)                                                     \
	{ kind, sizeof(name), sizeof(label), sizeof(meaning), place },
#include "report/statistics.def"
#undef ROW
#undef HISTOGRAM
#undef TALLY
#undef STATISTIC
};

bool segment_next_row(struct segment_row *row)
{
	unsigned int i = row->count;

	if (i == sizeof(rows) / sizeof(*rows))
		return false;
	row->name = i ? row->meaning + rows[i - 1].meaning_size : texts;
	row->label = row->name + rows[i].name_size;
	row->meaning = row->label + rows[i].label_size;
	row->kind = (enum segment_kind)rows[i].kind;
	row->place = rows[i].place;
	row->count++;
	return true;
}

static uint64_t segment_sum(const struct segment *segment, enum histogram histogram)
{
#define COUNTED(name)		      segment_value(&segment->counters.name)
#define HISTOGRAM(name, sum, meaning) [HISTOGRAM_##name] = sum,
	const uint64_t sums[] = {
#include "report/statistics.def"
	};
#undef HISTOGRAM
#undef COUNTED

	return sums[histogram];
}

uint64_t segment_number(const struct segment *segment, const struct segment_row *row)
{
	if (row->kind == SEGMENT_TALLY)
		return segment_tallied(segment, (enum tally)row->place);
	if (row->kind == SEGMENT_HISTOGRAM)
		return segment_sum(segment, (enum histogram)row->place);
	return segment_value((const _Atomic uint64_t *)((const char *)segment + row->place));
}

/* A change of a name, of their order or of the segment's size changes the layout number. */
uint64_t segment_layout(void)
{
	uint64_t layout = sizeof(struct segment);

	for (struct segment_row row = { .count = 0 }; segment_next_row(&row);)
		layout = (layout ^ text_hash(row.name) ^ row.kind) * 0x100000001b3;
	return layout;
}

/* ---- sums ---- */

uint64_t segment_tallied(const struct segment *segment, enum tally tally)
{
	uint32_t threads = load_relaxed(&segment->header.threads);
	uint64_t sum = 0;

	/* Do not touch unassigned lines: their pages may not exist yet. */
	for (uint32_t i = 0; i < threads && i < TALLIES_OWN; i++)
		sum += segment_value(&segment->tallies[i].counts[tally]);
	for (uint32_t i = 0; threads >= TALLIES_OWN && i < TALLIES_SHARED; i++)
		sum += segment_value(&segment->tallies[TALLIES_OWN + i].counts[tally]);
	return sum;
}

static void segment_add_value(_Atomic uint64_t *sum, const _Atomic uint64_t *other)
{
	store_relaxed(sum, segment_value(sum) + segment_value(other));
}

static void segment_add_pinned(struct segment_pinned *sum, const struct segment_pinned *other)
{
	segment_add_value(&sum->bytes, &other->bytes);
	segment_add_value(&sum->peak, &other->peak);
}

int segment_adapter(struct segment *segment, const char *name)
{
	for (int i = 0; i < SEGMENT_ADAPTERS; i++) {
		struct segment_adapter *adapter = &segment->adapters[i];

		if (!adapter->named) {
			text_copy(adapter->name, sizeof(adapter->name), name);
			store_release(&adapter->named, true);
		}
		if (text_equals(adapter->name, name))
			return i;
	}
	return SEGMENT_ADAPTERS;
}

static bool segment_is_pair(const struct segment_pair *pair, int gpu, int adapter, const char *path)
{
	return pair->gpu == gpu && pair->adapter == adapter && text_equals(pair->path, path);
}

struct segment_pair *segment_pair(struct segment *segment, int gpu, int adapter, const char *path,
				  const char *method)
{
	for (int i = 0; i < SEGMENT_PAIRS; i++) {
		struct segment_pair *pair = &segment->pairs[i];

		if (!pair->known) {
			pair->gpu = gpu;
			pair->adapter = adapter;
			text_copy(pair->path, sizeof(pair->path), path);
			text_copy(pair->method, sizeof(pair->method), method);
			store_release(&pair->known, true);
		}
		if (segment_is_pair(pair, gpu, adapter, path) && text_equals(pair->method, method))
			return pair;
	}
	return NULL;
}

void segment_set_reason(struct segment *segment, struct segment_pair *pair, const char *reason)
{
	size_t at = 0;

	for (int i = 0; i < SEGMENT_PAIRS && segment->pairs[i].known; i++) {
		if (segment_is_pair(&segment->pairs[i], pair->gpu, pair->adapter, pair->path))
			store_relaxed(&segment->pairs[i].reason[0], '\0');
	}
	for (; at < SEGMENT_REASON - 1 && reason[at]; at++)
		store_relaxed(&pair->reason[at], reason[at]);
	store_relaxed(&pair->reason[at], '\0');
}

const char *segment_reason(const struct segment_pair *pair, char to[SEGMENT_REASON])
{
	for (size_t at = 0; at < SEGMENT_REASON - 1; at++)
		to[at] = load_relaxed(&pair->reason[at]);
	to[SEGMENT_REASON - 1] = '\0';
	return *to ? to : NULL;
}

/* Map adapters by name: each process numbers them in the order of first use. */
static void segment_add_devices(struct segment *sum, const struct segment *other)
{
	int slots[SEGMENT_ADAPTERS];

	for (int i = 0; i < SEGMENT_GPUS; i++)
		segment_add_pinned(&sum->gpus[i], &other->gpus[i]);
	for (int i = 0; i < SEGMENT_ADAPTERS; i++) {
		slots[i] = SEGMENT_ADAPTERS;
		if (!other->adapters[i].named)
			continue;
		slots[i] = segment_adapter(sum, other->adapters[i].name);
		if (slots[i] < SEGMENT_ADAPTERS)
			segment_add_pinned(&sum->adapters[slots[i]].pinned,
					   &other->adapters[i].pinned);
	}
	for (int i = 0; i < SEGMENT_PAIRS; i++) {
		const struct segment_pair *source = &other->pairs[i];
		struct segment_pair *pair = NULL;
		char reason[SEGMENT_REASON];

		if (source->known && source->adapter >= 0 && source->adapter < SEGMENT_ADAPTERS)
			pair = segment_pair(sum, source->gpu, slots[source->adapter], source->path,
					    source->method);
		if (!pair)
			continue;
		segment_add_value(&pair->registrations, &source->registrations);
		if (segment_reason(source, reason))
			segment_set_reason(sum, pair, reason);
	}
}

void segment_add(struct segment *sum, const struct segment *other)
{
	for (size_t i = 0; i < sizeof(sum->counters) / sizeof(uint64_t); i++)
		segment_add_value((_Atomic uint64_t *)&sum->counters + i,
				  (const _Atomic uint64_t *)&other->counters + i);
	for (unsigned int i = 0; i < HISTOGRAM_COUNT; i++) {
		for (unsigned int bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++)
			segment_add_value(&sum->histograms[i][bucket],
					  &other->histograms[i][bucket]);
	}
	if (!sum->header.threads)
		sum->header.threads = 1;
	for (unsigned int i = 0; i < TALLY_COUNT; i++) {
		_Atomic uint64_t *count = &sum->tallies[0].counts[i];

		store_relaxed(count, segment_value(count) + segment_tallied(other, (enum tally)i));
	}
	segment_add_devices(sum, other);
}

static bool segment_is_text(const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (!text[i])
			return true;
	}
	return false;
}

const char *segment_refused(const struct segment *segment, size_t size)
{
	const struct segment_header *header = &segment->header;

	if (size < sizeof(*header))
		return "it is too short";
	for (size_t i = 0; i < sizeof(header->magic); i++) {
		if (header->magic[i] != SEGMENT_MAGIC[i])
			return "it is no statistics of peerpin";
	}
	if (header->layout != segment_layout())
		return "it is of another build of peerpin";
	if (size < sizeof(*segment) || header->size != sizeof(*segment))
		return "it is cut off";
	if (!segment_is_text(header->version, sizeof(header->version)) ||
	    !segment_is_text(header->host, sizeof(header->host)) ||
	    !segment_is_text(header->program, sizeof(header->program)) ||
	    !segment_is_text(header->job, sizeof(header->job)) ||
	    !segment_is_text(header->settings, sizeof(header->settings)))
		return "its header is damaged";
	for (int i = 0; i < SEGMENT_ADAPTERS; i++) {
		if (!segment_is_text(segment->adapters[i].name, SEGMENT_NAME))
			return "the name of an adapter is damaged";
	}
	for (int i = 0; i < SEGMENT_PAIRS; i++) {
		const struct segment_pair *pair = &segment->pairs[i];

		if (!segment_is_text(pair->path, sizeof(pair->path)) ||
		    !segment_is_text(pair->method, sizeof(pair->method)))
			return "a pair of GPU and adapter is damaged";
	}
	return NULL;
}
