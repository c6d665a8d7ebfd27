/* SPDX-License-Identifier: BSD-3-Clause */
/* report_text.c -- the report as a table for people: of a wide job only spreads and outliers */
#include <stdlib.h>
#include <string.h>

#include "tools/report_forms.h"
#include "tools/units.h"

enum {
	WIDTH = 100,
	MOST_RANKS_LISTED = 8,
	MOST_OUTLIERS = 8,
};

static int64_t report_text_number(const json_t *json, const char *key)
{
	return json_integer_value(json_object_get(json, key));
}

static const char *report_text_string(const json_t *json, const char *key)
{
	return json_string_value(json_object_get(json, key));
}

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
	char *name = report_text_string(job, "job") ? clean_text(report_text_string(job, "job"))
						    : NULL,
	     *program = clean_text(report_text_string(job, "program"));
	char *host = clean_text(json_string_value(json_array_get(hosts, 0)));
	int64_t processes = report_text_number(job, "processes");

	fprintf(out, "%s", program);
	if (name)
		fprintf(out, "  job %s", name);
	fprintf(out, "  %s %s on ", show_count(processes).text,
		processes == 1 ? "process" : "processes");
	if (json_array_size(hosts) == 1)
		fprintf(out, "%s", host);
	else
		fprintf(out, "%zu hosts", json_array_size(hosts));
	fprintf(out, "  %s%s",
		json_is_true(json_object_get(job, "elapsed_is_least")) ? "at least " : "",
		show_time(report_text_number(job, "elapsed_ns")).text);
	if (report_text_number(job, "running"))
		fprintf(out, "  %s running", show_count(report_text_number(job, "running")).text);
	if (report_text_number(job, "killed"))
		fprintf(out, "  %s killed", show_count(report_text_number(job, "killed")).text);
	fputc('\n', out);
	free(host);
	free(program);
	free(name);
	report_text_print_wrapped(out, "GPUDirect RDMA   ", 17, report_text_string(job, "verdict"));
}

static enum unit report_text_unit(const json_t *row)
{
	const char *name = report_text_string(row, "unit");

	if (!strcmp(name, "bytes"))
		return UNIT_BYTES;
	if (!strcmp(name, "ns"))
		return UNIT_TIME;
	return strcmp(name, "count") ? UNIT_SHARE : UNIT_COUNT;
}

static void report_text_print_rows(const json_t *job, FILE *out)
{
	const json_t *first = json_array_get(json_object_get(job, "ranks"), 0), *row;
	bool alone = report_text_number(job, "processes") == 1;
	size_t at;

	if (alone)
		fprintf(out, "\n");
	else
		fprintf(out, "\n%-24s %14s %12s %12s %12s %10s\n", "",
			json_is_integer(json_object_get(first, "rank")) ? "all ranks"
									: "all processes",
			"min", "median", "max", "variation");
	json_array_foreach(json_object_get(job, "rows"), at, row) {
		enum unit unit = report_text_unit(row);

		fprintf(out, "%-24s %14s", report_text_string(row, "label"),
			show(unit, report_text_number(row, "total")).text);
		if (!alone)
			fprintf(out, " %12s %12s %12s %8.1f %%",
				show(unit, report_text_number(row, "min")).text,
				show(unit, report_text_number(row, "median")).text,
				show(unit, report_text_number(row, "max")).text,
				(double)report_text_number(row, "variation_thousandths") / 10);
		fputc('\n', out);
	}
}

static void report_text_print_rank(const json_t *rank, FILE *out)
{
	char *host = clean_text(report_text_string(rank, "host")), *name;
	int64_t requests = report_text_number(rank, "requests");

	if (json_is_integer(json_object_get(rank, "rank")))
		name = text_of("rank %lld", (long long)report_text_number(rank, "rank"));
	else
		name = text_of("process");
	fprintf(out, "%-9s %-14.14s %8lld %11s %8s %12s %7s %12s  %s\n", name, host,
		(long long)report_text_number(rank, "pid"), show_count(requests).text,
		requests ? show_share((int64_t)((double)report_text_number(rank, "hits") /
						(double)requests * 10000))
				   .text
			 : "-",
		show_count(report_text_number(rank, "registrations")).text,
		show_count(report_text_number(rank, "registrations_failed")).text,
		show_bytes(report_text_number(rank, "pinned_bytes_peak")).text,
		report_text_string(rank, "ended"));
	free(host);
	free(name);
}

static void report_text_print_ranks(const json_t *job, FILE *out)
{
	const json_t *ranks = json_object_get(job, "ranks"), *rank;
	size_t at;

	if (json_array_size(ranks) < 2 || json_array_size(ranks) > MOST_RANKS_LISTED)
		return;
	fprintf(out, "\n%-9s %-14s %8s %11s %8s %12s %7s %12s  %s\n", "", "host", "pid", "requests",
		"hits", "registered", "failed", "pinned peak", "end");
	json_array_foreach(ranks, at, rank) {
		report_text_print_rank(rank, out);
	}
}

static void report_text_print_outliers(const json_t *job, FILE *out)
{
	const json_t *list = json_object_get(job, "outliers"), *outlier;
	size_t at;

	if (json_array_size(list))
		fprintf(out, "\nunlike the others\n");
	json_array_foreach(list, at, outlier) {
		if (at == MOST_OUTLIERS) {
			fprintf(out, "  and %zu more: --json has all\n",
				json_array_size(list) - at);
			break;
		}
		report_text_print_wrapped(out, "  ", 4, report_text_string(outlier, "text"));
	}
}

static void report_text_print_advice(const json_t *job, FILE *out)
{
	const json_t *list = json_object_get(job, "advice"), *advice;
	size_t at;

	if (json_array_size(list))
		fprintf(out, "\nadvice\n");
	json_array_foreach(list, at, advice) {
		char *first = text_of("  %-5s  ", report_text_string(advice, "weight"));

		report_text_print_wrapped(out, first, 9, report_text_string(advice, "text"));
		if (*report_text_string(advice, "mend"))
			report_text_print_wrapped(out, "         -> ", 12,
						  report_text_string(advice, "mend"));
		free(first);
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
		report_text_print_rows(job, out);
		report_text_print_ranks(job, out);
		report_text_print_outliers(job, out);
		report_text_print_advice(job, out);
	}
}
