/* SPDX-License-Identifier: BSD-3-Clause */
/* record_check.c -- validates and cleans the JSON object of one process, so that readers may rely
 * on its types and its texts
 *
 * record_check() accepts unknown keys: a later version may add keys to the schema. Unknown numbers
 * count as counters and must be whole numbers of 0 or more.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/plain_text.h"
#include "tools/records.h"
#include "tools/rows.h"
#include "tools/units.h"

#define SCHEMA "peerpin-stats/1"
#define NUMBER "whole number of 0 or more"

enum {
	MOST_BUCKETS = 64, /* log2 of 64 bits */
	MOST_ITEMS = 4096, /* of a list; the library writes 128 pairs */
};

/* Clean each text in `json`, so that no output form has to. Return false for a name of a member
 * that is not clean: no version has such names. */
static bool record_check_clean(json_t *json)
{
	const char *key;
	bool clean_keys = true;
	json_t *value;
	size_t at;

	if (json_is_string(json) && plain_text_find_other(json_string_value(json)))
		json_string_set(json, clean(json_string_value(json)));
	json_array_foreach(json, at, value) {
		clean_keys &= record_check_clean(value);
	}
	json_object_foreach(json, key, value) {
		clean_keys &= !plain_text_find_other(key) && record_check_clean(value);
	}
	return clean_keys;
}

static bool record_check_is_number(const json_t *value)
{
	return json_is_integer(value) && json_integer_value(value) >= 0;
}

static bool record_check_fits(const json_t *value, char kind)
{
	if (!value || json_is_null(value))
		return isupper(kind);
	return tolower(kind) == 'n' ? record_check_is_number(value) : json_is_string(value);
}

/* `fields`: pairs of key and kind. kind: n number, t text; an upper-case letter also allows null
 * and absence. NULL: all fit. Otherwise the reason, preceded by a blank or dot and the key. */
static const char *record_check_fields(const json_t *object, const char *fields)
{
	char key[32], kind;
	int length;

	if (!json_is_object(object))
		return ": not an object";
	for (; sscanf(fields, " %31s %c%n", key, &kind, &length) == 2; fields += length) {
		if (!record_check_fits(json_object_get(object, key), kind))
			return text_of(".%s: not a %s", key,
				       tolower(kind) == 'n' ? NUMBER : "text");
	}
	return NULL;
}

static const char *record_check_list(const json_t *json, const char *key, const char *fields)
{
	const json_t *list = json_object_get(json, key), *item;
	const char *wrong;
	size_t at;

	if (list && !json_is_array(list))
		return text_of("%s: not a list", key);
	if (json_array_size(list) > MOST_ITEMS)
		return text_of("%s: longer than %d", key, MOST_ITEMS);
	json_array_foreach(list, at, item) {
		wrong = record_check_fields(item, fields);
		if (wrong)
			return text_of("%s[%zu]%s", key, at, wrong);
	}
	return NULL;
}

static const char *record_check_objects(json_t *json)
{
	json_t *histograms = json_object_get(json, "histograms"), *value, *count;
	json_t *settings = json_object_get(json, "settings");
	const char *name;
	size_t at;

	if (histograms && !json_is_object(histograms))
		return "histograms: not an object";
	json_object_foreach(histograms, name, value) {
		if (!json_is_array(value) || json_array_size(value) > MOST_BUCKETS)
			return text_of("histograms: one is not a list of at most %d numbers",
				       MOST_BUCKETS);
		json_array_foreach(value, at, count) {
			if (!record_check_is_number(count))
				return "histograms: one has an entry that is no " NUMBER;
		}
	}
	if (settings && !json_is_object(settings))
		return "settings: not an object";
	json_object_foreach(settings, name, value) {
		if (!json_is_string(value))
			return "settings: one is not a text";
	}
	return NULL;
}

/* Check all remaining numbers as counters, known and unknown. */
static const char *record_check_counters(json_t *json)
{
	const struct metric *metric;
	const char *key;
	json_t *value;

	for (metric = metrics; metric->key; metric++) {
		value = json_object_get(json, metric->key);
		if (value && !record_check_is_number(value))
			return text_of("%s: not a " NUMBER, metric->key);
	}
	json_object_foreach(json, key, value) {
		if (json_is_number(value) && !record_check_is_number(value))
			return text_of("%.60s: not a " NUMBER, key);
	}
	return NULL;
}

static const char *record_check_process(const json_t *json)
{
	const char *schema = string_of(json, "schema"), *wrong;

	if (!schema)
		return text_of("not statistics of peerpin: %s",
			       json_is_object(json) ? "no \"schema\"" : "no JSON object");
	if (strcmp(schema, SCHEMA))
		return text_of("version %.60s: this command reads " SCHEMA, schema);
	wrong = record_check_fields(
		json, "version T program t host t job T pid n pid_namespace N "
		      "start_ticks N rank N local_rank N ended T started_ns N elapsed_ns N "
		      "usage T");
	return wrong ? wrong + 1 : NULL;
}

const char *record_check(json_t *json)
{
	if (!record_check_clean(json))
		return "a member's name has control characters";
	return record_check_process(json)
		       ?: record_check_list(json, "pairs",
					    "gpu n adapter t method t path T registrations n")
		       ?: record_check_list(json, "findings", "id t caller t count n bytes n ns n")
		       ?: record_check_objects(json)
		       ?: record_check_counters(json);
}
