/* SPDX-License-Identifier: BSD-3-Clause */
/* record_check.c -- validates the JSON object of one process, so that readers may rely on its types
 *
 * record_check() accepts unknown keys: a later version may add keys to the schema. Unknown numbers
 * count as counters and must be whole numbers of 0 or more.
 */
#include "tools/records.h"

#include <stdlib.h>
#include <string.h>

#include "tools/units.h"

#define SCHEMA "peerpin-stats/1"

enum {
	MOST_BUCKETS = 64,   /* log2 of 64 bits */
	MOST_SAMPLES = 4096, /* per timeline; the library writes 128 */
	MOST_ITEMS = 4096,
};

static bool record_check_is_number(const json_t *value)
{
	return json_is_integer(value) && json_integer_value(value) >= 0;
}

/* Expected key. kind: 'n' number, 't' text; an upper-case letter also allows null and absence. */
struct field {
	const char *key;
	char kind;
};

static bool record_check_fits(const json_t *value, char kind)
{
	if (!value || json_is_null(value))
		return kind == 'N' || kind == 'T';
	return kind == 'n' || kind == 'N' ? record_check_is_number(value) : json_is_string(value);
}

static char *record_check_fields(const json_t *object, const struct field *fields,
				 const char *where)
{
	if (!json_is_object(object))
		return text_of("%s: not an object", where);
	for (; fields->key; fields++) {
		if (!record_check_fits(json_object_get(object, fields->key), fields->kind))
			return text_of("%s%s%s: not a %s", where, *where ? "." : "", fields->key,
				       strchr("nN", fields->kind) ? "whole number of 0 or more"
								  : "text");
	}
	return NULL;
}

static char *record_check_list(const json_t *json, const char *key, const struct field *fields,
			       size_t most)
{
	const json_t *list = json_object_get(json, key), *item;
	char *wrong = NULL;
	size_t at;

	if (!list)
		return NULL;
	if (!json_is_array(list))
		return text_of("%s: not a list", key);
	if (json_array_size(list) > most)
		return text_of("%s: longer than %zu", key, most);
	json_array_foreach(list, at, item) {
		char *where = text_of("%s[%zu]", key, at);

		wrong = record_check_fields(item, fields, where);
		free(where);
		if (wrong)
			break;
	}
	return wrong;
}

static char *record_check_histograms(json_t *json)
{
	json_t *histograms = json_object_get(json, "histograms"), *buckets;
	const char *name;

	if (!histograms)
		return NULL;
	if (!json_is_object(histograms))
		return text_of("histograms: not an object");
	json_object_foreach(histograms, name, buckets) {
		const json_t *count;
		size_t at;

		if (!json_is_array(buckets) || json_array_size(buckets) > MOST_BUCKETS)
			return text_of("histograms: one is not a list of at most %d numbers",
				       MOST_BUCKETS);
		json_array_foreach(buckets, at, count) {
			if (!record_check_is_number(count))
				return text_of("histograms: one has an entry that is no whole "
					       "number of 0 or more");
		}
	}
	return NULL;
}

static char *record_check_settings(json_t *json)
{
	json_t *settings = json_object_get(json, "settings"), *value;
	const char *name;

	if (!settings)
		return NULL;
	if (!json_is_object(settings))
		return text_of("settings: not an object");
	json_object_foreach(settings, name, value) {
		if (!json_is_string(value))
			return text_of("settings: one is not a text");
	}
	return NULL;
}

/* Check all remaining numbers as counters, known and unknown. */
static char *record_check_counters(json_t *json)
{
	static const char *const known[] = {
#define METRIC(key, label, unit, row, outlier) #key,
#include "tools/metrics.def"
#undef METRIC
	};
	const char *key;
	json_t *value;

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		value = json_object_get(json, known[i]);
		if (value && !record_check_is_number(value))
			return text_of("%s: not a whole number of 0 or more", known[i]);
	}
	json_object_foreach(json, key, value) {
		if (json_is_number(value) && !record_check_is_number(value)) {
			char *clean = clean_text(key), *wrong;

			wrong = text_of("%.60s: not a whole number of 0 or more", clean);
			free(clean);
			return wrong;
		}
	}
	return NULL;
}

static char *record_check_schema(const json_t *json)
{
	const char *schema = json_string_value(json_object_get(json, "schema"));
	char *clean, *wrong;

	if (!schema)
		return text_of("not statistics of peerpin: there is no \"schema\"");
	if (!strcmp(schema, SCHEMA))
		return NULL;
	clean = clean_text(schema);
	wrong = text_of("of another version: it is %.60s, and this command reads " SCHEMA, clean);
	free(clean);
	return wrong;
}

char *record_check(const json_t *constant)
{
	static const struct field fields[] = {
		{ "version", 'T' },    { "program", 't' }, { "host", 't' },
		{ "job", 'T' },	       { "pid", 'n' },	   { "rank", 'N' },
		{ "local_rank", 'N' }, { "ended", 'T' },   { "started_ns", 'N' },
		{ "elapsed_ns", 'N' }, { "verdict", 'T' }, { NULL, 0 },
	};
	static const struct field gpu[] = {
		{ "gpu", 'n' }, { "pinned_bytes", 'n' }, { "pinned_bytes_peak", 'n' }, { NULL, 0 }
	};
	static const struct field adapter[] = { { "adapter", 't' },
						{ "pinned_bytes", 'n' },
						{ "pinned_bytes_peak", 'n' },
						{ NULL, 0 } };
	static const struct field pair[] = {
		{ "gpu", 'n' },	 { "adapter", 't' },	   { "method", 't' },
		{ "path", 'T' }, { "registrations", 'n' }, { NULL, 0 },
	};
	static const struct field sample[] = {
		{ "at_ns", 'n' },    { "registrations", 'n' }, { "pinned_bytes", 'n' },
		{ "requests", 'n' }, { "hits", 'n' },	       { NULL, 0 },
	};
	json_t *json = (json_t *)constant; /* iterators of jansson take no const */
	char *wrong;

	if (!json_is_object(json))
		return text_of("not statistics of peerpin: no JSON object");
	(void)((wrong = record_check_schema(json)) ||
	       (wrong = record_check_fields(json, fields, "")) ||
	       (wrong = record_check_list(json, "gpus", gpu, MOST_ITEMS)) ||
	       (wrong = record_check_list(json, "adapters", adapter, MOST_ITEMS)) ||
	       (wrong = record_check_list(json, "pairs", pair, MOST_ITEMS)) ||
	       (wrong = record_check_list(json, "timeline", sample, MOST_SAMPLES)) ||
	       (wrong = record_check_histograms(json)) || (wrong = record_check_settings(json)) ||
	       (wrong = record_check_counters(json)));
	return wrong;
}
