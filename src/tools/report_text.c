/* SPDX-License-Identifier: BSD-3-Clause */
/* report_text.c -- the report as a table for people: of a wide job only spreads and outliers */
#include <stdlib.h>
#include <string.h>

#include "tools/findings.h"
#include "tools/records.h"
#include "tools/report_forms.h"
#include "tools/rows.h"

enum {
	WIDTH = 100,
	MOST_RANKS_LISTED = 8,
	MOST_OUTLIERS = 8,
};

/* Break lines at blanks, and indent continuation lines by `indent` columns. */
static void report_text_print_wrapped(FILE *out, const char *first, size_t indent,
				      const char *words)
{
	size_t column = (size_t)fprintf(out, "%s", first);
	bool begun = false;

	while (*words) {
		size_t length = strcspn(words, " ");

		if (begun && column + 1 + length > WIDTH) {
			column = (size_t)fprintf(out, "\n%*s", (int)indent, "") - 1;
			begun = false;
		}
		column += (size_t)fprintf(out, "%s%.*s", begun ? " " : "", (int)length, words);
		begun = true;
		words += length;
		words += strspn(words, " ");
	}
	fputc('\n', out);
}

static void report_text_print_head(const json_t *job, FILE *out)
{
	const json_t *hosts = json_object_get(job, "hosts");
	const char *name = string_of(job, "job");
	int64_t processes = number_of(job, "processes"), running = number_of(job, "running"),
		killed = number_of(job, "killed");

	fprintf(out, "%s%s%s  %s %s on ", string_of(job, "program"), name ? "  job " : "",
		name ?: "", show(UNIT_COUNT, processes), processes == 1 ? "process" : "processes");
	if (json_array_size(hosts) == 1)
		fprintf(out, "%s", json_string_value(json_array_get(hosts, 0)));
	else
		fprintf(out, "%zu hosts", json_array_size(hosts));
	fprintf(out, "  %s%s",
		json_is_true(json_object_get(job, "elapsed_is_least")) ? "at least " : "",
		show(UNIT_TIME, number_of(job, "elapsed_ns")));
	if (running)
		fprintf(out, "  %s running", show(UNIT_COUNT, running));
	if (killed)
		fprintf(out, "  %s killed", show(UNIT_COUNT, killed));
	fputc('\n', out);
	report_text_print_wrapped(out, "GPUDirect RDMA   ", 17, string_of(job, "usage"));
}

static void report_text_print_rows(const json_t *job, FILE *out)
{
	const json_t *first = json_array_get(json_object_get(job, "ranks"), 0);
	bool alone = number_of(job, "processes") == 1;
	json_t *row;
	size_t at;

	if (alone)
		fprintf(out, "\n");
	else
		fprintf(out, "\n%-24s %14s %12s %12s %12s %10s\n", "",
			json_is_integer(json_object_get(first, "rank")) ? "all ranks"
									: "all processes",
			"min", "median", "max", "variation");
	json_array_foreach(json_object_get(job, "rows"), at, row) {
		const struct metric *metric = metrics;
		json_int_t total, min, median, max, variation;
		const char *key;

		json_unpack(row, "{s:s, s:I, s:I, s:I, s:I, s:I}", "key", &key, "total", &total,
			    "min", &min, "median", &median, "max", &max, "variation_thousandths",
			    &variation);
		while (strcmp(metric->key, key))
			metric++;
		fprintf(out, "%-24s %s", metric->label, padded(14, show(metric->unit, total)));
		if (!alone)
			fprintf(out, " %s %s %s %8.1f %%", padded(12, show(metric->unit, min)),
				padded(12, show(metric->unit, median)),
				padded(12, show(metric->unit, max)), (double)variation / 10);
		fputc('\n', out);
	}
}

static void report_text_print_ranks(const json_t *job, FILE *out)
{
	static const struct column columns[] = {
		{ "", "name", 0, -9 },
		{ "host", "host", 0, -14 },
		{ "pid", "pid", UNIT_PLAIN, 8 },
		{ "requests", "requests", UNIT_COUNT, 11 },
		{ "hits", "hit_rate", UNIT_SHARE, 8 },
		{ "registered", "registrations", UNIT_COUNT, 12 },
		{ "failed", "registrations_failed", UNIT_COUNT, 7 },
		{ "pinned peak", "pinned_bytes_peak", UNIT_BYTES, 12 },
		{ "end", "ended", 0, 0 },
		{ 0 },
	};
	const json_t *ranks = json_object_get(job, "ranks");
	json_t *rank;
	size_t at;

	if (json_array_size(ranks) < 2 || json_array_size(ranks) > MOST_RANKS_LISTED)
		return;
	fprintf(out, "\n%s\n", row_of(columns, NULL, 0));
	json_array_foreach(ranks, at, rank) {
		bool numbered = json_is_integer(json_object_get(rank, "rank"));
		const char *name =
			numbered ? text_of("rank %lld", (long long)number_of(rank, "rank"))
				 : "process";
		json_t *process = json_copy(rank);

		json_object_set_new(process, "name", json_string(name));
		fprintf(out, "%s\n", row_of(columns, process, 0));
		json_decref(process);
	}
}

static void report_text_print_outliers(const json_t *job, FILE *out)
{
	const json_t *list = json_object_get(job, "outliers"), *outlier;
	size_t at;

	if (json_array_size(list))
		fprintf(out, "\noutliers\n");
	json_array_foreach(list, at, outlier) {
		if (at == MOST_OUTLIERS) {
			fprintf(out, "  and %zu more: --json has all\n",
				json_array_size(list) - at);
			break;
		}
		report_text_print_wrapped(out, "  ", 4, string_of(outlier, "text"));
	}
}

static void report_text_print_advice(const json_t *job, FILE *out)
{
	const json_t *list = json_object_get(job, "advice"), *advice;
	size_t at;

	if (json_array_size(list))
		fprintf(out, "\nadvice\n");
	json_array_foreach(list, at, advice) {
		report_text_print_wrapped(out, text_of("  %-5s  ", string_of(advice, "weight")), 9,
					  string_of(advice, "text"));
		if (*string_of(advice, "fix"))
			report_text_print_wrapped(out, "         -> ", 12,
						  string_of(advice, "fix"));
	}
}

static void report_text_print_findings(const json_t *job, FILE *out)
{
	const json_t *list = json_object_get(job, "findings"), *row;
	size_t at;

	if (json_array_size(list))
		fprintf(out, "\nfindings\n");
	json_array_foreach(list, at, row) {
		report_text_print_wrapped(out, "  ", 4,
					  findings_text(row, string_of(row, "caller"), 0));
		report_text_print_wrapped(out, "    -> ", 7,
					  text_of("%s.", string_of(row, "advice")));
	}
}

void report_text(const json_t *report, FILE *out)
{
	const json_t *job;
	size_t at;

	json_array_foreach(json_object_get(report, "jobs"), at, job) {
		if (at)
			fputc('\n', out);
		report_text_print_head(job, out);
		report_text_print_advice(job, out);
		report_text_print_findings(job, out);
		report_text_print_rows(job, out);
		report_text_print_ranks(job, out);
		report_text_print_outliers(job, out);
	}
}
