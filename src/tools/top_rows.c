/* SPDX-License-Identifier: BSD-3-Clause */
/* top_rows.c -- snapshots of statistics segments, and the rows of peerpin top
 *
 * peerpin top opens files for reading only, takes no lock and sends no signal: no process can
 * notice. A process that exits between two snapshots disappears.
 */
#include "tools/top.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/units.h"

static bool rows_is_chosen(const struct record *record, const struct top_choice *choice)
{
	const char *job = record_text(record, "job");
	bool found = !choice->count;

	for (size_t i = 0; i < choice->count; i++)
		found |= record_number(record, "pid") == choice->processes[i];
	return found && record->end != RECORD_EXIT &&
	       (!choice->job || (job && !strcmp(job, choice->job)));
}

static int rows_compare(const void *a, const void *b)
{
	const struct record *one = a, *other = b;
	const char *one_job = record_text(one, "job"), *other_job = record_text(other, "job");
	int64_t difference = strcmp(one_job ? one_job : "", other_job ? other_job : "");

	if (!difference)
		difference = record_rank(one) - record_rank(other);
	if (!difference)
		difference = record_number(one, "pid") - record_number(other, "pid");
	return (difference > 0) - (difference < 0);
}

static const struct record *rows_find_before(const struct look *before, const struct record *record)
{
	for (size_t i = 0; before && i < before->records.count; i++) {
		const struct record *other = &before->records.list[i];

		if (record_number(other, "pid") == record_number(record, "pid") &&
		    record_number(other, "started_ns") == record_number(record, "started_ns"))
			return other;
	}
	return NULL;
}

static bool rows_job_is_running(const struct look *look, const struct record *record)
{
	const char *job = record_text(record, "job"), *other;

	for (size_t i = 0; job && i < look->records.count; i++) {
		other = record_text(&look->records.list[i], "job");
		if (other && look->records.list[i].end == RECORD_RUNNING && !strcmp(job, other))
			return true;
	}
	return false;
}

/* peerpin report covers processes killed long ago. */
static bool rows_is_current(const struct look *look, const struct look *before,
			    const struct top_choice *choice, const struct record *record)
{
	return record->end == RECORD_RUNNING || choice->count || choice->job ||
	       rows_find_before(before, record) || rows_job_is_running(look, record);
}

void top_look(struct look *look, const struct look *before, const struct top_choice *choice)
{
	*look = (struct look){ .choice = choice };
	records_read_runtime(&look->records);
	clock_gettime(CLOCK_MONOTONIC, &look->at);
	for (size_t i = look->records.count; i > 0; i--) {
		if (!rows_is_chosen(&look->records.list[i - 1], choice))
			records_remove(&look->records, i - 1);
	}
	for (size_t i = look->records.count; i > 0; i--) {
		if (rows_is_current(look, before, choice, &look->records.list[i - 1]))
			continue;
		records_remove(&look->records, i - 1);
		look->left++;
	}
	if (look->records.count)
		qsort(look->records.list, look->records.count, sizeof(*look->records.list),
		      rows_compare);
}

void top_forget(struct look *look)
{
	records_free(&look->records);
}

static double rows_seconds_between(const struct look *before, const struct look *now)
{
	return (double)(now->at.tv_sec - before->at.tv_sec) +
	       (double)(now->at.tv_nsec - before->at.tv_nsec) / 1e9;
}

/* Return the rate per second since `before`; without an earlier record, since the process started
 * to use peerpin. */
static double rows_rate(const struct record *record, const struct look *now,
			const struct look *before, const char *key)
{
	const struct record *earlier = rows_find_before(before, record);
	double seconds, count = (double)record_number(record, key);

	if (record->end != RECORD_RUNNING)
		return 0;
	if (earlier) {
		seconds = rows_seconds_between(before, now);
		count -= (double)record_number(earlier, key);
	} else {
		seconds = (double)record_number(record, "elapsed_ns") / 1e9;
	}
	return seconds > 0 && count > 0 ? count / seconds : 0;
}

static double rows_total_rate(const struct look *now, const struct look *before, const char *key)
{
	double sum = 0;

	for (size_t i = 0; i < now->records.count; i++)
		sum += rows_rate(&now->records.list[i], now, before, key);
	return sum;
}

/* Pinned memory ends with its process; counters remain. */
static int64_t rows_number(const struct record *record, const char *key)
{
	return record->end != RECORD_RUNNING && !strcmp(key, "pinned_bytes")
		       ? 0
		       : record_number(record, key);
}

static int64_t rows_sum(const struct look *look, const char *key)
{
	int64_t sum = 0, value;

	for (size_t i = 0; i < look->records.count; i++) {
		value = rows_number(&look->records.list[i], key);
		if (__builtin_add_overflow(sum, value, &sum))
			return INT64_MAX;
	}
	return sum;
}

static struct shown rows_show_rate(double rate)
{
	struct shown shown;

	if (rate > 0 && rate < 99.95)
		snprintf(shown.text, sizeof(shown.text), "%.1f", rate);
	else
		shown = show_count(rate < 9e18 ? (int64_t)(rate + 0.5) : INT64_MAX);
	return shown;
}

static struct shown rows_share(int64_t hits, int64_t requests)
{
	struct shown none = { "-" };

	return requests ? show_share((int64_t)((double)hits / (double)requests * 10000)) : none;
}

struct screen {
	FILE *out;
	int width, left; /* lines that still fit; -1: no limit */
	const char *end;
};

/* Cut the line at the width, in whole UTF-8 characters. */
static void rows_print_line(struct screen *screen, const char *line)
{
	int columns = 0;
	const char *at = line;

	if (!screen->left)
		return;
	while (*at && (!screen->width || columns < screen->width)) {
		at++;
		while ((*at & 0xc0) == 0x80)
			at++;
		columns++;
	}
	fprintf(screen->out, "%.*s%s", (int)(at - line), line, screen->end);
	if (screen->left > 0)
		screen->left--;
}

/* Take ownership of `line`. */
static void rows_print_owned(struct screen *screen, char *line)
{
	rows_print_line(screen, line);
	free(line);
}

enum column {
	RANK,
	PID,
	JOB,
	PROGRAM,
	PINNED,
	PEAK,
	REGISTRATIONS,
	REGISTRATION_RATE,
	REQUEST_RATE,
	HITS,
	WAITED,
	FAILED,
	AGE,
	STATE,
	COLUMNS
};

/* Negative width: left-aligned. STATE, the last column, is not padded. */
static const struct {
	const char *title;
	int width;
} columns[COLUMNS] = {
	{ "rank", 5 },	 { "pid", 8 },	  { "job", -12 }, { "program", -14 },	{ "pinned", 9 },
	{ "peak", 9 },	 { "regs", 8 },	  { "/s", 7 },	  { "requests/s", 10 }, { "hits", 7 },
	{ "waited", 7 }, { "failed", 6 }, { "age", 8 },	  { " state", 8 },
};

/* Columns that a narrow terminal omits, in this order. Without a width (--once), all are shown. */
static const enum column left_out[] = { AGE,	REGISTRATION_RATE, PEAK, WAITED, REGISTRATIONS, JOB,
					PROGRAM };

static void rows_choose_columns(bool shown[COLUMNS], int width)
{
	int needed = -1;

	for (int i = 0; i < COLUMNS; i++) {
		shown[i] = true;
		needed += abs(columns[i].width) + 1;
	}
	for (size_t i = 0; width && needed > width && i < sizeof(left_out) / sizeof(*left_out);
	     i++) {
		shown[left_out[i]] = false;
		needed -= abs(columns[left_out[i]].width) + 1;
	}
}

/* Take ownership of the cells. */
static void rows_print_row(struct screen *screen, char *cells[COLUMNS])
{
	bool shown[COLUMNS];
	char *line = text_of("%s", ""), *longer;

	rows_choose_columns(shown, screen->width);
	for (int i = 0; i < COLUMNS; i++) {
		int width = i == STATE ? 0 : columns[i].width;

		if (shown[i]) {
			longer = text_of("%s%s%*.*s", line, *line ? " " : "", width,
					 width < 0 ? -width : 100, cells[i]);
			free(line);
			line = longer;
		}
		free(cells[i]);
	}
	rows_print_owned(screen, line);
}

static void rows_print_titles(struct screen *screen)
{
	char *cells[COLUMNS];

	for (int i = 0; i < COLUMNS; i++)
		cells[i] = text_of("%s", columns[i].title);
	rows_print_row(screen, cells);
}

static char *rows_cell(struct shown shown)
{
	return text_of("%s", shown.text);
}

static void rows_print_record(struct screen *screen, const struct look *now,
			      const struct look *before, const struct record *record)
{
	bool running = record->end == RECORD_RUNNING;
	char *cells[COLUMNS] = {
		[RANK] = record_rank(record) >= 0 ? text_of("%lld", (long long)record_rank(record))
						  : text_of("-"),
		[PID] = text_of("%lld", (long long)record_number(record, "pid")),
		[JOB] = clean_text(record_text(record, "job") ?: "-"),
		[PROGRAM] = clean_text(record_text(record, "program")),
		[PINNED] = rows_cell(show_bytes(rows_number(record, "pinned_bytes"))),
		[PEAK] = rows_cell(show_bytes(record_number(record, "pinned_bytes_peak"))),
		[REGISTRATIONS] = rows_cell(show_count(record_number(record, "registrations"))),
		[REGISTRATION_RATE] =
			rows_cell(rows_show_rate(rows_rate(record, now, before, "registrations"))),
		[REQUEST_RATE] =
			rows_cell(rows_show_rate(rows_rate(record, now, before, "requests"))),
		[HITS] = rows_cell(rows_share(record_number(record, "hits"),
					      record_number(record, "requests"))),
		[WAITED] = rows_cell(show_count(record_number(record, "waited"))),
		[FAILED] = rows_cell(show_count(record_number(record, "registrations_failed"))),
		[AGE] = running ? rows_cell(show_time(record_number(record, "elapsed_ns")))
				: text_of("-"),
		[STATE] = text_of(" %s", record_end_name(record->end)),
	};

	rows_print_row(screen, cells);
}

static void rows_print_totals(struct screen *screen, const struct look *now,
			      const struct look *before)
{
	size_t count = now->records.count, running = 0;
	char clock[32], host[65] = "";
	time_t second = time(NULL);
	struct tm local;

	for (size_t i = 0; i < count; i++)
		running += now->records.list[i].end == RECORD_RUNNING;
	localtime_r(&second, &local);
	strftime(clock, sizeof(clock), "%H:%M:%S", &local);
	gethostname(host, sizeof(host) - 1);
	host[strcspn(host, ".")] = '\0';
	rows_print_owned(screen,
			 text_of("peerpin top  %.16s  %s  %zu running, %zu killed  pinned %s", host,
				 clock, running, count - running,
				 show_bytes(rows_sum(now, "pinned_bytes")).text));
	rows_print_owned(screen,
			 text_of("registrations %s (%s/s)  failed %s  missed frees %s",
				 show_count(rows_sum(now, "registrations")).text,
				 rows_show_rate(rows_total_rate(now, before, "registrations")).text,
				 show_count(rows_sum(now, "registrations_failed")).text,
				 show_count(rows_sum(now, "missed_frees")).text));
	rows_print_owned(screen,
			 text_of("requests %s (%s/s)  hits %s  waited %s  passed through %s",
				 show_count(rows_sum(now, "requests")).text,
				 rows_show_rate(rows_total_rate(now, before, "requests")).text,
				 rows_share(rows_sum(now, "hits"), rows_sum(now, "requests")).text,
				 show_count(rows_sum(now, "waited")).text,
				 show_count(rows_sum(now, "bypassed")).text));
}

static void rows_print_empty(struct screen *screen, const struct look *now)
{
	char *job = now->choice->job ? clean_text(now->choice->job) : NULL;

	if (now->choice->count)
		rows_print_line(screen,
				now->choice->count == 1
					? "That process does not use peerpin on this host now."
					: "None of these processes uses peerpin on this host now.");
	else if (job)
		rows_print_owned(
			screen,
			text_of("No process of job %s uses peerpin on this host now.", job));
	else
		rows_print_line(screen, "No process of yours uses peerpin on this host now.");
	free(job);
	if (now->left)
		rows_print_owned(screen,
				 text_of(now->left == 1 ? "%zu process was killed earlier and left "
							  "its counters: peerpin "
							  "report"
							: "%zu processes were killed earlier and "
							  "left their counters: "
							  "peerpin report",
					 now->left));
}

void top_rows(const struct look *now, const struct look *before, int width, int height,
	      const char *end, FILE *out)
{
	struct screen screen = {
		.out = out, .width = width, .left = height ? height : -1, .end = end
	};

	rows_print_totals(&screen, now, before);
	rows_print_line(&screen, "");
	if (!now->records.count) {
		rows_print_empty(&screen, now);
		return;
	}
	rows_print_titles(&screen);
	for (size_t i = 0; i < now->records.count; i++) {
		size_t rest = now->records.count - i;

		if (screen.left == 1 && rest > 1) {
			rows_print_owned(&screen, text_of("and %zu more: a larger window, --once "
							  "or --json shows them",
							  rest));
			return;
		}
		rows_print_record(&screen, now, before, &now->records.list[i]);
	}
}

json_t *top_json(const struct look *now, const struct look *before)
{
	json_t *json = json_object(), *list = json_array();

	for (size_t i = 0; i < now->records.count; i++) {
		const struct record *record = &now->records.list[i];

		json_object_set_new(
			record->json, "requests_per_1000_s",
			json_integer(
				(json_int_t)(rows_rate(record, now, before, "requests") * 1000)));
		json_object_set_new(
			record->json, "registrations_per_1000_s",
			json_integer((json_int_t)(rows_rate(record, now, before, "registrations") *
						  1000)));
		json_array_append(list, record->json);
	}
	json_object_set_new(json, "schema", json_string("peerpin-top/1"));
	json_object_set_new(json, "version", json_string(PACKAGE_VERSION));
	json_object_set_new(json, "at_ns", json_integer((json_int_t)time(NULL) * 1000000000));
	json_object_set_new(json, "processes", list);
	return json;
}
