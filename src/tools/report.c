/* SPDX-License-Identifier: BSD-3-Clause */
/* report.c -- peerpin report: merges, compares and explains the statistics of a job's processes
 *
 * Exit status: 0 all files were read; 1 a file was unreadable, output failed, or there was no
 * record; 2 wrong usage.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/jobs.h"
#include "tools/observed.h"
#include "tools/options.h"
#include "tools/report_forms.h"
#include "tools/units.h"

/* clang-format off */
static const char help[] =
	"usage: peerpin report [options] [FILE...]\n"
	"       peerpin report [--json | --csv] [--html FILE] OBSERVED... [-- OBSERVED...]\n"
	"\n"
	"Merges, compares and explains the statistics of the processes of a job. FILE is a file of\n"
	"PEERPIN_STATS_FILE, a snapshot of a process, or a folder of both. Without FILE: the snapshots\n"
	"of your processes on this host. Those of ended ranks of the same job are added to files.\n"
	"\n"
	"OBSERVED is a file of peerpin observe, or a folder of these: what the program did with GPU\n"
	"memory and registrations, what is wrong there, and what peerpin would save. Files behind -- are\n"
	"compared with those before.\n"
	"\n"
	"  --csv         print a row of numbers in place of the report on observed processes\n"
	"  --html FILE   also write one page with charts, which needs no network\n"
	"  --force       let --html replace a file\n"
	"  --json        print JSON (docs/report.schema.json) instead of the table\n"
	"  --prometheus  print the sums in Prometheus' text format instead of the table\n"
	"  --remove      then remove the reported snapshots of ended processes\n"
	"  -h, --help    print this\n"
	"  --version     print the version\n"
	"\n"
	"Exit status: 0; 1 if an input or output failed, or there was no input; 2 for wrong usage.\n";
/* clang-format on */

static const struct tool tool = { .name = "report", .help = help };

static const char *html_file;
static int force, json, prometheus, do_remove, csv;

/* Return the exit status, or -1 to continue. */
static int report_parse(int count, char **words)
{
	static const struct option known[] = {
		{ "html", required_argument, NULL, OPTION_FIRST },
		{ "force", no_argument, &force, true },
		{ "json", no_argument, &json, true },
		{ "csv", no_argument, &csv, true },
		{ "prometheus", no_argument, &prometheus, true },
		{ "remove", no_argument, &do_remove, true },
		{ "help", no_argument, NULL, OPTION_HELP },
		{ "version", no_argument, NULL, OPTION_VERSION },
		{ NULL, 0, NULL, 0 },
	};
	int option, status = -1;

	while ((option = options_next(&tool, known, count, words, &status)) >= 0) {
		if (option == OPTION_FIRST)
			html_file = optarg;
	}
	if (status < 0 && json && prometheus)
		return options_refuse(&tool, "choose one of --json and --prometheus", "");
	if (status < 0 && force && !html_file)
		return options_refuse(&tool, "--force requires --html", "");
	return status;
}

/* Ranks start within 600 s of each other. Some launchers reuse a job name on another day. */
static bool report_is_concurrent(const struct record *one, const struct record *other)
{
	double difference = (double)record_number(one, "started_ns") -
			    (double)record_number(other, "started_ns");

	return difference > -600e9 &&
	       difference < 600e9 + (double)record_number(other, "elapsed_ns");
}

static bool report_has_job(const struct records *records, const struct record *record)
{
	const char *job = record_text(record, "job"), *program = record_text(record, "program"),
		   *other;

	for (size_t i = 0; job && i < records->count; i++) {
		other = record_text(&records->list[i], "job");
		if (other && !strcmp(job, other) &&
		    !strcmp(program, record_text(&records->list[i], "program")) &&
		    report_is_concurrent(record, &records->list[i]))
			return true;
	}
	return false;
}

/* Add the snapshots of ended ranks of the same jobs: killed ones, and those that wrote no other
 * file. A record without a job name has no known job. */
static void report_add_ended(struct records *records)
{
	struct records left = { 0 };

	records_read_runtime(&left);
	for (size_t i = 0; i < left.count; i++) {
		if (left.list[i].end != RECORD_RUNNING && report_has_job(records, &left.list[i]))
			records_read(records, left.list[i].source);
	}
	records_free(&left);
}

/* peerpin top alone shows a process that only observes: its own file has more. */
static bool report_is_served(const struct record *record, void *unused)
{
	(void)unused;
	return !record_observes(record);
}

static void report_read_all(struct records *records, char **files)
{
	const char *refused = records_refused_folder();

	if (refused)
		fprintf(stderr, "peerpin report: %s\n", clean(refused));
	if (*files) {
		for (; *files; files++)
			records_read(records, *files);
		report_add_ended(records);
	} else if (!records_read_runtime(records)) {
		fputs("peerpin report: no process of yours has used peerpin on this host since "
		      "boot: "
		      "pass the files of PEERPIN_STATS_FILE\n",
		      stderr);
	} else if (!records->count && !records->problems) {
		fputs("peerpin report: this host has no snapshots of processes: pass the files of "
		      "PEERPIN_STATS_FILE\n",
		      stderr);
	}
	records_filter(records, report_is_served, NULL);
	records_drop_doubles(records);
}

/* True if the process has ended. Read the file again: another process may have its process number
 * by now. */
static bool report_is_removable(const struct record *record)
{
	struct records now = { 0 };
	bool ended;

	records_read(&now, record->source);
	ended = now.count == 1 && now.list[0].end != RECORD_RUNNING &&
		record_is_same_process(&now.list[0], record);
	records_free(&now);
	return ended;
}

/* Remove reported snapshots only. */
static void report_remove_snapshots(const struct records *records)
{
	for (size_t i = 0; i < records->count; i++) {
		const struct record *record = &records->list[i];

		if (record->is_snapshot && report_is_removable(record) && unlink(record->source))
			fprintf(stderr, "peerpin report: %s: %s\n", clean(record->source),
				strerror(errno));
	}
}

/* ---- files of peerpin observe ---- */

/* The number of words behind the first "--", which getopt moves; 0: none. */
static int report_count_behind(int count, char **words)
{
	for (int i = 1; i < count; i++) {
		if (!strcmp(words[i], "--"))
			return count - i - 1;
	}
	return 0;
}

/* --html. Behind the table, which may be long. */
static bool report_page(const json_t *report)
{
	if (!html_file)
		return true;
	if (!report_html(report, html_file, force))
		return false;
	fprintf(stderr, "peerpin report: wrote %s\n", clean(html_file));
	return true;
}

static json_t *report_judge(const struct observed_files *files, int *problems)
{
	json_t *sums = observed_read(files, problems), *report = observed_judge(sums);

	json_decref(sums);
	return report;
}

/* Return the exit status. `later`: of the run to compare with, if any. */
static int report_observed(const struct observed_files *files, const struct observed_files *later)
{
	int problems, more = 0;
	json_t *before = report_judge(files, &problems);
	json_t *after = later->count ? report_judge(later, &more) : NULL;
	bool printed;

	if (json) {
		json_dumpf(before, stdout, JSON_INDENT(1));
		putchar('\n');
	} else if (csv) {
		observed_print_csv(before, stdout);
	} else if (after) {
		observed_print_comparison(before, after, stdout);
	} else {
		observed_print(before, stdout);
	}
	printed = options_print_out(&tool) & report_page(before);
	json_decref(before);
	json_decref(after);
	texts_free();
	return printed && !problems && !more ? 0 : 1;
}

int main(int count, char **words)
{
	struct records records = { 0 };
	struct jobs jobs = { 0 };
	struct observed_files observed = { 0 }, later = { 0 };
	json_t *report;
	bool printed, all;
	int behind = report_count_behind(count, words);
	int status = report_parse(count, words);

	if (status >= 0)
		return status;
	if (behind >= count - optind)
		behind = 0;
	observed_list(&observed, words + optind, count - optind - behind);
	observed_list(&later, words + count - behind, behind);
	if (observed.count && observed_is_file(observed.paths[0]))
		status = report_observed(&observed, &later);
	free(observed.paths);
	free(later.paths);
	if (status >= 0)
		return status;
	if (csv)
		return options_refuse(&tool, "--csv requires files of peerpin observe", "");
	report_read_all(&records, words + optind);
	jobs_make(&jobs, &records);
	report = report_json(&jobs, &records);
	if (json) {
		json_dumpf(report, stdout, JSON_INDENT(1));
		putchar('\n');
	} else if (prometheus) {
		report_prometheus(report, stdout);
	} else {
		report_text(report, stdout);
	}
	printed = options_print_out(&tool);
	records_print_problems(&records, "peerpin report");
	/* A page without records would make a later page require --force. */
	if (records.count && !report_page(report))
		printed = false;
	all = printed && records.count && !records.problems;
	if (printed && do_remove)
		report_remove_snapshots(&records);
	json_decref(report);
	jobs_free(&jobs);
	records_free(&records);
	texts_free();
	return all ? 0 : 1;
}
