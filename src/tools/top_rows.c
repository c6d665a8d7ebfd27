/* SPDX-License-Identifier: BSD-3-Clause */
/* top_rows.c -- the latest snapshots of the processes, and the rows of peerpin top
 *
 * peerpin top opens files for reading only, takes no lock and sends no signal: no process can
 * notice. A process that exits between two snapshots disappears.
 */
#include "tools/top.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/findings.h"
#include "tools/jobs.h"

static bool snapshot_is_chosen(const struct record *record, void *argument)
{
	const struct top_choice *choice = argument;
	const char *job = record_text(record, "job");
	bool found = !choice->count;

	for (size_t i = 0; i < choice->count; i++)
		found |= record_number(record, "pid") == choice->processes[i];
	return found && record->end != RECORD_EXIT &&
	       (!choice->job || (job && !strcmp(job, choice->job)));
}

static int snapshot_compare(const void *a, const void *b)
{
	const struct record *one = a, *other = b;
	const char *one_job = record_text(one, "job"), *other_job = record_text(other, "job");
	int order = strcmp(one_job ?: "", other_job ?: "");

	if (!order)
		order = compare_numbers(record_rank(one), record_rank(other));
	return order ?: compare_numbers(record_number(one, "pid"), record_number(other, "pid"));
}

static const struct record *snapshot_find(const struct snapshot *snapshot,
					  const struct record *record)
{
	for (size_t i = 0; i < snapshot->records.count; i++) {
		if (record_is_same_process(&snapshot->records.list[i], record))
			return &snapshot->records.list[i];
	}
	return NULL;
}

struct snapshots {
	struct snapshot *now, *before;
};

/* peerpin report covers processes killed long ago. */
static bool snapshot_is_current(const struct record *record, void *argument)
{
	const struct snapshots *snapshots = argument;
	const struct top_choice *choice = snapshots->now->choice;

	return record->end == RECORD_RUNNING || choice->count || choice->job ||
	       snapshot_find(snapshots->before, record) ||
	       records_job_is_running(&snapshots->now->records, record_text(record, "job"));
}

/* Add the rate since the snapshot before; without an earlier record, since the process started to
 * use peerpin. */
static void snapshot_add_rate(const struct snapshots *snapshots, const struct record *record,
			      const char *key)
{
	const struct timespec *now = &snapshots->now->at, *then = &snapshots->before->at;
	const struct record *earlier = snapshot_find(snapshots->before, record);
	double seconds = (double)record_number(record, "elapsed_ns") / 1e9,
	       count = (double)record_number(record, key), rate = 0;

	if (earlier) {
		seconds = (double)(now->tv_sec - then->tv_sec) +
			  (double)(now->tv_nsec - then->tv_nsec) / 1e9;
		count -= (double)record_number(earlier, key);
	}
	if (record->end == RECORD_RUNNING && seconds > 0 && count > 0)
		rate = count / seconds * 1000;
	json_object_set_new(record->json, text_of("%s_per_1000_s", key),
			    json_integer(rate < 9e18 ? (json_int_t)(rate + 0.5) : INT64_MAX));
}

void snapshot_update(struct snapshot *snapshot, const struct top_choice *choice)
{
	struct snapshot before = *snapshot;
	struct snapshots snapshots = { snapshot, &before };

	*snapshot = (struct snapshot){ .choice = choice };
	records_read_runtime(&snapshot->records);
	clock_gettime(CLOCK_MONOTONIC, &snapshot->at);
	records_filter(&snapshot->records, snapshot_is_chosen, (void *)choice);
	snapshot->omitted = records_filter(&snapshot->records, snapshot_is_current, &snapshots);
	for (size_t i = 0; i < snapshot->records.count; i++) {
		snapshot_add_rate(&snapshots, &snapshot->records.list[i], "requests");
		snapshot_add_rate(&snapshots, &snapshot->records.list[i], "registrations");
	}
	if (snapshot->records.count)
		qsort(snapshot->records.list, snapshot->records.count,
		      sizeof(*snapshot->records.list), snapshot_compare);
	snapshot_free(&before);
}

void snapshot_free(struct snapshot *snapshot)
{
	records_free(&snapshot->records);
	texts_free();
}

/* Pinned and kept memory end with their process; counters remain. */
static json_t *rows_values(const struct record *record)
{
	bool observed = record->end == RECORD_RUNNING && record_observes(record);
	json_t *values = json_copy(record->json);

	json_object_set_new(values, "ended",
			    json_string(observed ? "observed" : record_end_name(record->end)));
	if (record->end != RECORD_RUNNING) {
		json_object_set_new(values, "pinned_bytes", json_integer(0));
		json_object_set_new(values, "kept_bytes", json_integer(0));
		json_object_set_new(values, "kept_host_bytes", json_integer(0));
		json_object_set_new(values, "elapsed_ns", json_null());
	}
	return values;
}

static const struct column columns[] = {
	{ "rank", "rank", UNIT_PLAIN, 5 },
	{ "pid", "pid", UNIT_PLAIN, 8 },
	{ "job", "job", 0, -12 },
	{ "program", "program", 0, -14 },
	{ "pinned", "pinned_bytes", UNIT_BYTES, 9 },
	{ "peak", "pinned_bytes_peak", UNIT_BYTES, 9 },
	{ "kept", "kept_bytes", UNIT_BYTES, 9 },
	{ "regs", "registrations", UNIT_COUNT, 8 },
	{ "/s", "registrations_per_1000_s", UNIT_RATE, 7 },
	{ "requests/s", "requests_per_1000_s", UNIT_RATE, 10 },
	{ "hits", "hit_rate", UNIT_SHARE, 7 },
	{ "waited", "waited", UNIT_COUNT, 7 },
	{ "failed", "registrations_failed", UNIT_COUNT, 6 },
	{ "age", "elapsed_ns", UNIT_TIME, 8 },
	{ "state", "ended", 0, 0 },
	{ 0 },
};

/* A peak, since kept bytes come and go: a column should not. */
static bool rows_have_kept_memory(const struct snapshot *now)
{
	for (size_t i = 0; i < now->records.count; i++) {
		if (record_number(&now->records.list[i], "kept_bytes_peak"))
			return true;
	}
	return false;
}

static size_t rows_find_column(const char *title)
{
	size_t i = 0;

	while (strcmp(columns[i].title, title))
		i++;
	return i;
}

/* Columns to omit: of kept memory, if no process has kept any; and those that a narrow terminal
 * omits, in the order of `least`. Without a width (--once), none for that reason. */
static unsigned int rows_omit(const struct snapshot *now, int width)
{
	static const char *const least[] = { "age",  "/s",  "peak", "waited",
					     "regs", "job", "kept", "program" };
	/* Each column follows a blank, except the first one; the last one needs room for a state.
	 */
	int needed = (int)strlen(" running") - 1;
	unsigned int omitted = rows_have_kept_memory(now) ? 0 : 1U << rows_find_column("kept");

	for (size_t i = 0; columns[i].title; i++)
		needed += omitted & 1U << i ? 0 : abs(columns[i].width) + 1;
	for (size_t k = 0; width && needed > width && k < sizeof(least) / sizeof(*least); k++) {
		size_t i = rows_find_column(least[k]);

		if (omitted & 1U << i)
			continue;
		omitted |= 1U << i;
		needed -= abs(columns[i].width) + 1;
	}
	return omitted;
}

struct screen {
	FILE *out;
	int width, left; /* lines that still fit; -1: no limit */
	const char *end;
};

/* Cut the line at the width, in whole UTF-8 characters. */
static void rows_print_line(struct screen *screen, const char *line)
{
	int column = 0;
	const char *at = line;

	if (!screen->left)
		return;
	while (*at && (!screen->width || column < screen->width)) {
		at++;
		while ((*at & 0xc0) == 0x80)
			at++;
		column++;
	}
	fprintf(screen->out, "%.*s%s", (int)(at - line), line, screen->end);
	if (screen->left > 0)
		screen->left--;
}

/* Sums over all processes, with `running`, the number of running ones. */
static json_t *rows_sum(const struct snapshot *now)
{
	static const char *const keys[] = {
		"pinned_bytes",
		"registrations",
		"registrations_per_1000_s",
		"requests",
		"hits",
		"requests_per_1000_s",
		"waited",
		"forwarded",
		"registrations_failed",
		"missed_frees",
		"kept",
		"reused",
		"kept_bytes",
		"kept_host_bytes",
		"kept_released",
		"allocations",
		"frees",
		"program_ns",
	};
	json_t *sums = json_object();

	for (size_t i = 0; i < now->records.count; i++) {
		json_t *values = rows_values(&now->records.list[i]);

		add_number(sums, "running", now->records.list[i].end == RECORD_RUNNING);
		add_number(sums, "observed", record_observes(&now->records.list[i]));
		for (size_t k = 0; k < sizeof(keys) / sizeof(*keys); k++)
			add_number(sums, keys[k], number_of(values, keys[k]));
		json_decref(values);
	}
	return sums;
}

#define SUM(unit, key) show(UNIT_##unit, number_of(sums, key))

static void rows_print_first_line(struct screen *screen, const struct snapshot *now,
				  const json_t *sums)
{
	size_t running = (size_t)number_of(sums, "running");
	char clock[32], host[65] = "";
	time_t second = time(NULL);
	struct tm local;

	localtime_r(&second, &local);
	strftime(clock, sizeof(clock), "%H:%M:%S", &local);
	gethostname(host, sizeof(host) - 1);
	host[strcspn(host, ".")] = '\0';
	rows_print_line(screen,
			text_of("peerpin top  %.16s  %s  %zu running, %zu killed  pinned %s",
				clean(host), clock, running, now->records.count - running,
				SUM(BYTES, "pinned_bytes")));
}

/* Delays of the worker in jobs where it found no idle CPU, as words. */
static const char *rows_delays(const struct jobs *jobs)
{
	int64_t delays = 0;

	for (size_t i = 0; i < jobs->count; i++) {
		if (job_lacks_idle_cpu(&jobs->list[i]))
			delays = add_capped(delays, job_total(&jobs->list[i], "background_delays"));
	}
	return delays ? text_of("  no idle CPU (delays: %s)", show(UNIT_COUNT, delays)) : "";
}

static void rows_print_totals(struct screen *screen, const struct snapshot *now,
			      const struct jobs *jobs)
{
	json_t *sums = rows_sum(now);
	int64_t share;

	rows_print_first_line(screen, now, sums);
	rows_print_line(screen,
			text_of("registrations %s (%s/s)  failed %s  missed frees %s%s",
				SUM(COUNT, "registrations"), SUM(RATE, "registrations_per_1000_s"),
				SUM(COUNT, "registrations_failed"), SUM(COUNT, "missed_frees"),
				rows_delays(jobs)));
	rows_print_line(
		screen,
		text_of("requests %s (%s/s)  hits %s  waited %s  forwarded %s",
			SUM(COUNT, "requests"), SUM(RATE, "requests_per_1000_s"),
			metric_value(sums, "hit_rate", &share) ? show(UNIT_SHARE, share) : "-",
			SUM(COUNT, "waited"), SUM(COUNT, "forwarded")));
	if (number_of(sums, "kept"))
		rows_print_line(screen,
				text_of("frees kept %s  reused %s  released %s  kept now %s  of "
					"the host %s",
					SUM(COUNT, "kept"), SUM(COUNT, "reused"),
					SUM(COUNT, "kept_released"), SUM(BYTES, "kept_bytes"),
					SUM(BYTES, "kept_host_bytes")));
	if (number_of(sums, "observed"))
		rows_print_line(screen,
				text_of("allocations %s  frees %s  time in registrations %s",
					SUM(COUNT, "allocations"), SUM(COUNT, "frees"),
					SUM(TIME, "program_ns")));
	json_decref(sums);
}

#undef SUM

/* Of each job that is only observed, worst first. */
static void rows_print_findings(struct screen *screen, const struct jobs *jobs)
{
	for (size_t i = 0; i < jobs->count; i++) {
		json_t *list = findings_judge(jobs->list[i].findings), *row;
		size_t at;

		json_array_foreach(list, at, row) {
			if (!record_observes(jobs->list[i].ranks[0]))
				break;
			rows_print_line(screen, findings_text(row, string_of(row, "caller"), 0));
		}
		json_decref(list);
	}
}

/* The hint of each job, its fix in a line of its own. */
static void rows_print_hints(struct screen *screen, const struct jobs *jobs)
{
	for (size_t i = 0; i < jobs->count; i++) {
		const struct job *job = &jobs->list[i];
		struct hint hint = job_main_hint(job);
		const char *name = jobs->count > 1 ? job->name ?: job->program : NULL;

		if (!hint.requests)
			continue;
		rows_print_line(screen,
				text_of("hint  %s%s%s", name ?: "", name ? ": " : "", hint.text));
		if (*hint.fix)
			rows_print_line(screen, text_of("      %s", hint.fix));
	}
}

static void rows_print_empty(struct screen *screen, const struct snapshot *now)
{
	const struct top_choice *choice = now->choice;

	if (choice->count == 1)
		rows_print_line(screen, "That process does not use peerpin on this host now.");
	else if (choice->count)
		rows_print_line(screen, "None of these processes uses peerpin on this host now.");
	else if (choice->job)
		rows_print_line(screen,
				text_of("No process of job %s uses peerpin on this host now.",
					choice->job));
	else
		rows_print_line(screen, "No process of yours uses peerpin on this host now.");
	if (now->omitted)
		rows_print_line(screen,
				text_of("%zu %s killed earlier and left %s counters: "
					"peerpin report",
					now->omitted,
					now->omitted == 1 ? "process was" : "processes were",
					now->omitted == 1 ? "its" : "their"));
}

void top_rows(const struct snapshot *now, int width, int height, const char *end, FILE *out)
{
	struct screen screen = {
		.out = out, .width = width, .left = height ? height : -1, .end = end
	};
	const char *refused = records_refused_folder();
	unsigned int omitted = rows_omit(now, width);
	struct jobs jobs;

	jobs_make(&jobs, &now->records);
	rows_print_totals(&screen, now, &jobs);
	rows_print_findings(&screen, &jobs);
	rows_print_hints(&screen, &jobs);
	jobs_free(&jobs);
	if (refused)
		rows_print_line(&screen, clean(refused));
	rows_print_line(&screen, "");
	if (!now->records.count) {
		rows_print_empty(&screen, now);
		return;
	}
	rows_print_line(&screen, row_of(columns, NULL, omitted));
	for (size_t i = 0; i < now->records.count; i++) {
		size_t rest = now->records.count - i;
		json_t *values;

		if (screen.left == 1 && rest > 1) {
			rows_print_line(&screen, text_of("and %zu more: a larger window, --once "
							 "or --json shows them",
							 rest));
			return;
		}
		values = rows_values(&now->records.list[i]);
		rows_print_line(&screen, row_of(columns, values, omitted));
		json_decref(values);
	}
}

json_t *top_json(const struct snapshot *now)
{
	json_t *list = json_array();

	for (size_t i = 0; i < now->records.count; i++)
		json_array_append(list, now->records.list[i].json);
	return json_pack("{s:s, s:s, s:I, s:o}", "schema", "peerpin-top/1", "version",
			 PACKAGE_VERSION, "at_ns", (json_int_t)time(NULL) * 1000000000, "processes",
			 list);
}
