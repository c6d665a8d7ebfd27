/* SPDX-License-Identifier: BSD-3-Clause */
/* observed_print.c -- the report on observed processes, for people and for tables of numbers */
#include <stdlib.h>
#include <string.h>

#include "base/capped.h"
#include "tools/findings.h"
#include "tools/observed.h"
#include "tools/rows.h"
#include "tools/units.h"

enum { WIDTH = 100, MOST_SIZES = 5 };

static int64_t number_in(const json_t *json, const char *key)
{
	return json_integer_value(json_object_get(json, key));
}

static const char *text_in(const json_t *json, const char *key)
{
	return json_string_value(json_object_get(json, key)) ?: "";
}

static void print_wrapped(FILE *out, int indent, const char *first, const char *words)
{
	int column = fprintf(out, "%s", first);

	while (*words) {
		int length = (int)strcspn(words, " ");

		if (column + 1 + length > WIDTH)
			column = fprintf(out, "\n%*s", indent - 1, "") - 1;
		column += fprintf(out, " %.*s", length, words);
		words += length;
		words += strspn(words, " ");
	}
	fputc('\n', out);
}

static void print_head(const json_t *report, FILE *out)
{
	int64_t processes = number_in(report, "processes");

	fprintf(out, "%s\n%s  %s %s  %s\n", text_in(report, "summary"), text_in(report, "program"),
		show(UNIT_COUNT, processes), processes == 1 ? "process" : "processes",
		show(UNIT_TIME, number_in(report, "elapsed_ns")));
}

/* ---- findings ---- */

static const char *version_of(const json_t *report, const char *caller)
{
	const json_t *row;
	size_t at;

	json_array_foreach(json_object_get(report, "callers"), at, row) {
		if (!strcmp(text_in(row, "name"), caller) && *text_in(row, "version"))
			return text_of("%s %s", caller, text_in(row, "version"));
	}
	return caller;
}

static void print_findings(const json_t *report, FILE *out)
{
	const json_t *list = json_object_get(report, "findings"), *row;
	size_t at;

	fprintf(out, json_array_size(list) ? "\nfindings\n" : "\nno findings\n");
	json_array_foreach(list, at, row) {
		print_wrapped(out, 4, " ",
			      findings_text(row, version_of(report, text_in(row, "caller")),
					    number_in(report, "process_ns")));
		print_wrapped(out, 7, "    ->", text_of("%s.", text_in(row, "advice")));
	}
}

/* ---- tables ---- */

static void print_registrations(const json_t *report, FILE *out)
{
	const json_t *list = json_object_get(report, "registrations"), *row;
	size_t at;

	if (!json_array_size(list))
		return;
	fprintf(out, "\n%-18s %-10s %-8s %-6s %9s %10s %9s %9s %10s\n", "registrations", "adapter",
		"form", "memory", "count", "bytes", "time", "at start", "ended in");
	json_array_foreach(list, at, row) {
		/* Probes for dma-buf support fail by design. */
		if (!number_in(row, "count"))
			continue;
		fprintf(out, "%-18.18s %-10.10s %-8s %-6s %s %s %s %s %s\n",
			version_of(report, text_in(row, "caller")), text_in(row, "adapter"),
			text_in(row, "form"), text_in(row, "memory"),
			padded(9, show(UNIT_COUNT, number_in(row, "count"))),
			padded(10, show(UNIT_BYTES, number_in(row, "bytes"))),
			padded(9, show(UNIT_TIME, number_in(row, "ns"))),
			padded(9, show(UNIT_COUNT, number_in(row, "first_second"))),
			padded(10, show(UNIT_TIME, number_in(row, "deregistered_ns"))));
	}
}

static void print_peaks(const json_t *report, FILE *out)
{
	const json_t *row;
	size_t at;

	fprintf(out, "\nat peak, of one process: %s of GPU memory, %s of it registered",
		show(UNIT_BYTES, number_in(report, "memory_peak_bytes")),
		show(UNIT_BYTES, number_in(report, "pinned_peak_bytes")));
	json_array_foreach(json_object_get(report, "callers"), at, row) {
		if (number_in(row, "pinned_peak_bytes"))
			fprintf(out, "; by %s %s", text_in(row, "name"),
				show(UNIT_BYTES, number_in(row, "pinned_peak_bytes")));
	}
	if (number_in(report, "bar1_bytes"))
		fprintf(out, "\nthe least BAR1 of a GPU there: %s",
			show(UNIT_BYTES, number_in(report, "bar1_bytes")));
	fputc('\n', out);
}

static void print_memory(const json_t *report, FILE *out)
{
	int64_t waiting = number_in(report, "free_waiting_ns");
	const json_t *row;
	size_t at;

	if (json_array_size(json_object_get(report, "allocations")))
		fprintf(out, "\n%-18s %9s %10s %9s %9s %9s\n", "memory", "allocated", "bytes",
			"time", "freed", "time");
	json_array_foreach(json_object_get(report, "allocations"), at, row) {
		fprintf(out, "%-18s %s %s %s %s %s\n", text_in(row, "kind"),
			padded(9, show(UNIT_COUNT, number_in(row, "count"))),
			padded(10, show(UNIT_BYTES, number_in(row, "bytes"))),
			padded(9, show(UNIT_TIME, number_in(row, "ns"))),
			padded(9, show(UNIT_COUNT, number_in(row, "freed_count"))),
			padded(9, show(UNIT_TIME, number_in(row, "freed_ns"))));
	}
	if (waiting >= 0)
		fprintf(out, "of the frees, %s waiting for the GPU, which nothing saves\n",
			show(UNIT_TIME, waiting));
}

static int size_compare(const void *one, const void *other)
{
	const json_t *left = *(json_t *const *)one, *right = *(json_t *const *)other;
	int64_t difference = number_in(right, "ns") + number_in(right, "freed_ns") -
			     number_in(left, "ns") - number_in(left, "freed_ns");

	return difference > 0 ? 1 : difference < 0 ? -1 : 0;
}

static void print_sizes(const json_t *report, FILE *out)
{
	const json_t *list = json_object_get(report, "sizes");
	size_t count = json_array_size(list), at;
	json_t **sorted = zeroed(count + 1, sizeof(*sorted));

	for (at = 0; at < count; at++)
		sorted[at] = json_array_get(list, at);
	qsort(sorted, count, sizeof(*sorted), size_compare);
	if (count)
		fprintf(out, "\n%-18s %9s %10s %9s %9s %9s\n", "sizes up to", "allocated",
			"repeated", "time", "freed", "time");
	for (at = 0; at < count && at < MOST_SIZES; at++)
		fprintf(out, "%-18s %s %s %s %s %s\n",
			show(UNIT_BYTES, number_in(sorted[at], "size")),
			padded(9, show(UNIT_COUNT, number_in(sorted[at], "count"))),
			padded(10, show(UNIT_COUNT, number_in(sorted[at], "reused_count"))),
			padded(9, show(UNIT_TIME, number_in(sorted[at], "ns"))),
			padded(9, show(UNIT_COUNT, number_in(sorted[at], "freed_count"))),
			padded(9, show(UNIT_TIME, number_in(sorted[at], "freed_ns"))));
	free(sorted);
}

void observed_print(const json_t *report, FILE *out)
{
	print_head(report, out);
	print_findings(report, out);
	print_registrations(report, out);
	print_peaks(report, out);
	print_memory(report, out);
	print_sizes(report, out);
	if (number_in(report, "lost"))
		fprintf(out,
			"\n%s calls found no room in the tables: they count in the sums, and in no "
			"finding\n",
			show(UNIT_COUNT, number_in(report, "lost")));
}

/* ---- numbers for other programs, and comparisons ---- */

/* The sums of one run: the same rows in a table of numbers, and in a comparison. */
static const struct {
	const char *name, *list, *key;
	enum unit unit;
} sums[] = {
	{ "registrations", "registrations", "count", UNIT_COUNT },
	{ "registration_ns", "registrations", "ns", UNIT_TIME },
	{ "deregistrations", "registrations", "deregistered_count", UNIT_COUNT },
	{ "deregistration_ns", "registrations", "deregistered_ns", UNIT_TIME },
	{ "allocations", "allocations", "count", UNIT_COUNT },
	{ "allocation_ns", "allocations", "ns", UNIT_TIME },
	{ "frees", "allocations", "freed_count", UNIT_COUNT },
	{ "free_ns", "allocations", "freed_ns", UNIT_TIME },
	{ "exports", "callers", "exports_count", UNIT_COUNT },
	{ "export_ns", "callers", "exports_ns", UNIT_TIME },
};
#define SUMS (sizeof(sums) / sizeof(*sums))

static int64_t sum_of(const json_t *report, size_t i)
{
	const json_t *row;
	int64_t sum = 0;
	size_t at;

	json_array_foreach(json_object_get(report, sums[i].list), at, row) {
		sum = add_capped(sum, number_in(row, sums[i].key));
	}
	return sum;
}

static int64_t finding_count(const json_t *report, const char *id)
{
	const json_t *row;
	int64_t sum = 0;
	size_t at;

	json_array_foreach(json_object_get(report, "findings"), at, row) {
		if (!strcmp(text_in(row, "id"), id))
			sum = add_capped(sum, number_in(row, "count"));
	}
	return sum;
}

static const char *const ids[] = {
#define FINDING(id, weight, text, advice) id,
#include "tools/findings.def"
#undef FINDING
};
#define IDS (sizeof(ids) / sizeof(*ids))

void observed_print_csv(const json_t *report, FILE *out)
{
	fprintf(out, "program,processes,process_ns");
	for (size_t i = 0; i < SUMS; i++)
		fprintf(out, ",%s", sums[i].name);
	for (size_t i = 0; i < IDS; i++)
		fprintf(out, ",%s", ids[i]);
	fputs("\n\"", out);
	for (const char *at = text_in(report, "program"); *at; at++)
		fprintf(out, *at == '"' ? "\"\"" : "%c", *at);
	fprintf(out, "\",%lld,%lld", (long long)number_in(report, "processes"),
		(long long)number_in(report, "process_ns"));
	for (size_t i = 0; i < SUMS; i++)
		fprintf(out, ",%lld", (long long)sum_of(report, i));
	for (size_t i = 0; i < IDS; i++)
		fprintf(out, ",%lld", (long long)finding_count(report, ids[i]));
	fputc('\n', out);
}

static void print_change(FILE *out, const char *name, enum unit unit, int64_t before, int64_t after)
{
	fprintf(out, "%-20s %s %s", name, padded(14, show(unit, before)),
		padded(14, show(unit, after)));
	if (before)
		fprintf(out, " %+9.1f %%",
			100.0 * ((double)after - (double)before) / (double)before);
	fputc('\n', out);
}

void observed_print_comparison(const json_t *before, const json_t *after, FILE *out)
{
	fprintf(out, "%-20s %14s %14s %11s\n", "", "before", "after", "change");
	print_change(out, "processes", UNIT_COUNT, number_in(before, "processes"),
		     number_in(after, "processes"));
	print_change(out, "process_ns", UNIT_TIME, number_in(before, "process_ns"),
		     number_in(after, "process_ns"));
	for (size_t i = 0; i < SUMS; i++)
		print_change(out, sums[i].name, sums[i].unit, sum_of(before, i), sum_of(after, i));
	for (size_t i = 0; i < IDS; i++) {
		if (finding_count(before, ids[i]) || finding_count(after, ids[i]))
			print_change(out, ids[i], UNIT_COUNT, finding_count(before, ids[i]),
				     finding_count(after, ids[i]));
	}
}
