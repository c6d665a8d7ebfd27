/* SPDX-License-Identifier: BSD-3-Clause */
/* findings.c -- findings of processes (report/callers.h): merged, sorted, with their advice */
#include "tools/findings.h"

#include <stdlib.h>
#include <string.h>

#include "tools/records.h"
#include "tools/rows.h"
#include "tools/units.h"

static const struct finding {
	const char *id;
	int weight;
	const char *text, *advice;
} findings[] = {
#define FINDING(id, weight, text, advice) { id, weight, text, advice },
#include "tools/findings.def"
#undef FINDING
};

static const struct finding *finding_of(const char *id)
{
	for (size_t i = 0; i < sizeof(findings) / sizeof(*findings); i++) {
		if (!strcmp(findings[i].id, id))
			return &findings[i];
	}
	return NULL;
}

/* The advice to a caller, else the general one. */
static const char *finding_advice(const struct finding *finding, const char *caller)
{
	static const struct {
		const char *id, *caller, *advice;
	} own[] = {
#define CALLER(id, caller, advice) { id, caller, advice },
#include "tools/findings.def"
#undef CALLER
	};

	for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++) {
		if (!strcmp(own[i].id, finding->id) && !strcmp(own[i].caller, caller))
			return own[i].advice;
	}
	return finding->advice;
}

static int finding_compare(const void *one, const void *other)
{
	const json_t *left = *(json_t *const *)one, *right = *(json_t *const *)other;
	static const char *const keys[] = { "weight", "ns", "bytes", "count" };

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		int64_t difference = number_of(right, keys[i]) - number_of(left, keys[i]);

		if (difference)
			return difference > 0 ? 1 : -1;
	}
	return strcmp(string_of(left, "caller"), string_of(right, "caller"));
}

json_t *findings_judge(const json_t *list)
{
	json_t **sorted = zeroed(json_array_size(list) + 1, sizeof(*sorted)), *row,
	       *result = json_array();
	size_t count = 0, at;

	json_array_foreach(list, at, row) {
		const struct finding *finding = finding_of(string_of(row, "id"));
		const char *caller = string_of(row, "caller");

		if (!finding || !caller)
			continue;
		sorted[count] = json_copy(row);
		json_object_set_new(sorted[count], "weight", json_integer(finding->weight));
		json_object_set_new(sorted[count], "text", json_string(finding->text));
		json_object_set_new(sorted[count], "advice",
				    json_string(finding_advice(finding, caller)));
		count++;
	}
	qsort(sorted, count, sizeof(*sorted), finding_compare);
	for (at = 0; at < count; at++) {
		json_object_del(sorted[at], "weight");
		json_array_append_new(result, sorted[at]);
	}
	free(sorted);
	return result;
}

void findings_add(json_t *sums, const json_t *list)
{
	static const char *const keys[] = { "count", "bytes", "ns" };
	json_t *row, *sum = NULL;
	size_t at, i;

	json_array_foreach(list, at, row) {
		json_array_foreach(sums, i, sum) {
			if (!strcmp(string_of(sum, "id"), string_of(row, "id")) &&
			    !strcmp(string_of(sum, "caller"), string_of(row, "caller")))
				break;
		}
		if (i == json_array_size(sums)) {
			sum = json_pack("{s:s, s:s}", "id", string_of(row, "id"), "caller",
					string_of(row, "caller"));
			json_array_append_new(sums, sum);
		}
		for (i = 0; i < sizeof(keys) / sizeof(*keys); i++)
			add_number(sum, keys[i], number_of(row, keys[i]));
	}
}

const char *findings_text(const json_t *row, const char *caller, int64_t whole_ns)
{
	int64_t bytes = number_of(row, "bytes"), ns = number_of(row, "ns");
	const char *size = bytes ? text_of(" (%s)", show(UNIT_BYTES, bytes)) : "", *cost = "";

	if (ns && whole_ns)
		cost = text_of("; %s, %.1f %% of the run", show(UNIT_TIME, ns),
			       100.0 * (double)ns / (double)whole_ns);
	return text_of("%s: %s%s, by %s%s", string_of(row, "text"),
		       show(UNIT_COUNT, number_of(row, "count")), size, caller, cost);
}
