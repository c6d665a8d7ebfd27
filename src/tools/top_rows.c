/* SPDX-License-Identifier: BSD-3-Clause */
/* top_rows.c -- looks at the mapped files of running processes, and what is shown of each
 *
 * Files are opened for reading and nothing else: no lock, no signal, nothing that a process could notice. A process that
 * ends between two looks is simply no longer there.
 */
#include "tools/top.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/units.h"

static bool is_chosen(const struct record *record, const struct top_choice *choice)
{
	const char *job = record_text(record, "job");
	bool found = !choice->count;

	for (size_t i = 0; i < choice->count; i++)
		found |= record_number(record, "pid") == choice->processes[i];
	return found && record->end != RECORD_EXIT && (!choice->job || (job && !strcmp(job, choice->job)));
}

static int compare(const void *a, const void *b)
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

static const struct record *find_before(const struct look *before, const struct record *record)
{
	for (size_t i = 0; before && i < before->records.count; i++) {
		const struct record *other = &before->records.list[i];

		if (record_number(other, "pid") == record_number(record, "pid") &&
		    record_number(other, "started_ns") == record_number(record, "started_ns"))
			return other;
	}
	return NULL;
}

static bool job_runs(const struct look *look, const struct record *record)
{
	const char *job = record_text(record, "job"), *other;

	for (size_t i = 0; job && i < look->records.count; i++) {
		other = record_text(&look->records.list[i], "job");
		if (other && look->records.list[i].end == RECORD_RUNNING && !strcmp(job, other))
			return true;
	}
	return false;
}

/* What was killed long ago is for peerpin report. */
static bool is_of_now(const struct look *look, const struct look *before, const struct top_choice *choice,
		      const struct record *record)
{
	return record->end == RECORD_RUNNING || choice->count || choice->job || find_before(before, record) ||
	       job_runs(look, record);
}

void top_look(struct look *look, const struct look *before, const struct top_choice *choice)
{
	*look = (struct look){ .choice = choice };
	records_read_runtime(&look->records);
	clock_gettime(CLOCK_MONOTONIC, &look->at);
	for (size_t i = look->records.count; i > 0; i--) {
		if (!is_chosen(&look->records.list[i - 1], choice))
			records_remove(&look->records, i - 1);
	}
	for (size_t i = look->records.count; i > 0; i--) {
		if (is_of_now(look, before, choice, &look->records.list[i - 1]))
			continue;
		records_remove(&look->records, i - 1);
		look->left++;
	}
	if (look->records.count)
		qsort(look->records.list, look->records.count, sizeof(*look->records.list), compare);
}

void top_forget(struct look *look)
{
	records_free(&look->records);
}

static double seconds_between(const struct look *before, const struct look *now)
{
	return (double)(now->at.tv_sec - before->at.tv_sec) +
	       (double)(now->at.tv_nsec - before->at.tv_nsec) / 1e9;
}

/* Of each second since the look before; without one, since the process began to use peerpin. */
static double rate(const struct record *record, const struct look *now, const struct look *before,
		   const char *key)
{
	const struct record *earlier = find_before(before, record);
	double seconds, count = (double)record_number(record, key);

	if (record->end != RECORD_RUNNING)
		return 0;
	if (earlier) {
		seconds = seconds_between(before, now);
		count -= (double)record_number(earlier, key);
	} else {
		seconds = (double)record_number(record, "elapsed_ns") / 1e9;
	}
	return seconds > 0 && count > 0 ? count / seconds : 0;
}

static double rate_of_all(const struct look *now, const struct look *before, const char *key)
{
	double sum = 0;

	for (size_t i = 0; i < now->records.count; i++)
		sum += rate(&now->records.list[i], now, before, key);
	return sum;
}

/* What a process had registered goes with it, though its counters stay as they were. */
static int64_t number_now(const struct record *record, const char *key)
{
	return record->end != RECORD_RUNNING && !strcmp(key, "pinned_bytes") ? 0 : record_number(record, key);
}

static int64_t sum(const struct look *look, const char *key)
{
	int64_t sum = 0, value;

	for (size_t i = 0; i < look->records.count; i++) {
		value = number_now(&look->records.list[i], key);
		if (__builtin_add_overflow(sum, value, &sum))
			return INT64_MAX;
	}
	return sum;
}

static struct shown show_rate(double rate)
{
	struct shown shown;

	if (rate > 0 && rate < 99.95)
		snprintf(shown.text, sizeof(shown.text), "%.1f", rate);
	else
		shown = show_count(rate < 9e18 ? (int64_t)(rate + 0.5) : INT64_MAX);
	return shown;
}

static struct shown share(int64_t hits, int64_t requests)
{
	struct shown none = { "-" };

	return requests ? show_share((int64_t)((double)hits / (double)requests * 10000)) : none;
}

struct paper {
	FILE *out;
	int width, left; /* lines that still fit, -1: any number */
	const char *end;
};

/* Cut off at the width, in whole characters. */
static void print_line(struct paper *paper, const char *line)
{
	int columns = 0;
	const char *at = line;

	if (!paper->left)
		return;
	while (*at && (!paper->width || columns < paper->width)) {
		at++;
		while ((*at & 0xc0) == 0x80)
			at++;
		columns++;
	}
	fprintf(paper->out, "%.*s%s", (int)(at - line), line, paper->end);
	if (paper->left > 0)
		paper->left--;
}

/* Takes the line over. */
static void print_made(struct paper *paper, char *line)
{
	print_line(paper, line);
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

/* A width below 0: it begins at the left. The last one has no end. */
static const struct {
	const char *title;
	int width;
} columns[COLUMNS] = {
	{ "rank", 5 },	 { "pid", 8 },	  { "job", -12 }, { "program", -14 },	{ "pinned", 9 },
	{ "peak", 9 },	 { "regs", 8 },	  { "/s", 7 },	  { "requests/s", 10 }, { "hits", 7 },
	{ "waited", 7 }, { "failed", 6 }, { "age", 8 },	  { " state", 8 },
};

/* What a narrow terminal has no room for, the first of them first. --once shows everything. */
static const enum column left_out[] = { AGE, REGISTRATION_RATE, PEAK, WAITED, REGISTRATIONS, JOB, PROGRAM };

static void choose_columns(bool shown[COLUMNS], int width)
{
	int needed = -1;

	for (int i = 0; i < COLUMNS; i++) {
		shown[i] = true;
		needed += abs(columns[i].width) + 1;
	}
	for (size_t i = 0; width && needed > width && i < sizeof(left_out) / sizeof(*left_out); i++) {
		shown[left_out[i]] = false;
		needed -= abs(columns[left_out[i]].width) + 1;
	}
}

/* Takes the cells over. */
static void print_row(struct paper *paper, char *cells[COLUMNS])
{
	bool shown[COLUMNS];
	char *line = text_of("%s", ""), *longer;

	choose_columns(shown, paper->width);
	for (int i = 0; i < COLUMNS; i++) {
		int width = i == STATE ? 0 : columns[i].width;

		if (shown[i]) {
			longer = text_of("%s%s%*.*s", line, *line ? " " : "", width, width < 0 ? -width : 100,
					 cells[i]);
			free(line);
			line = longer;
		}
		free(cells[i]);
	}
	print_made(paper, line);
}

static void print_titles(struct paper *paper)
{
	char *cells[COLUMNS];

	for (int i = 0; i < COLUMNS; i++)
		cells[i] = text_of("%s", columns[i].title);
	print_row(paper, cells);
}

static char *cell(struct shown shown)
{
	return text_of("%s", shown.text);
}

static void print_record(struct paper *paper, const struct look *now, const struct look *before,
			 const struct record *record)
{
	bool running = record->end == RECORD_RUNNING;
	char *cells[COLUMNS] = {
		[RANK] = record_rank(record) >= 0 ? text_of("%lld", (long long)record_rank(record))
						  : text_of("-"),
		[PID] = text_of("%lld", (long long)record_number(record, "pid")),
		[JOB] = clean_text(record_text(record, "job") ?: "-"),
		[PROGRAM] = clean_text(record_text(record, "program")),
		[PINNED] = cell(show_bytes(number_now(record, "pinned_bytes"))),
		[PEAK] = cell(show_bytes(record_number(record, "pinned_bytes_peak"))),
		[REGISTRATIONS] = cell(show_count(record_number(record, "registrations"))),
		[REGISTRATION_RATE] = cell(show_rate(rate(record, now, before, "registrations"))),
		[REQUEST_RATE] = cell(show_rate(rate(record, now, before, "requests"))),
		[HITS] = cell(share(record_number(record, "hits"), record_number(record, "requests"))),
		[WAITED] = cell(show_count(record_number(record, "waited"))),
		[FAILED] = cell(show_count(record_number(record, "registrations_failed"))),
		[AGE] = running ? cell(show_time(record_number(record, "elapsed_ns"))) : text_of("-"),
		[STATE] = text_of(" %s", record_end_name(record->end)),
	};

	print_row(paper, cells);
}

static void print_totals(struct paper *paper, const struct look *now, const struct look *before)
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
	print_made(paper, text_of("peerpin top  %.16s  %s  %zu running, %zu killed  pinned %s", host, clock,
				  running, count - running, show_bytes(sum(now, "pinned_bytes")).text));
	print_made(paper, text_of("registrations %s (%s/s)  failed %s  missed frees %s",
				  show_count(sum(now, "registrations")).text,
				  show_rate(rate_of_all(now, before, "registrations")).text,
				  show_count(sum(now, "registrations_failed")).text,
				  show_count(sum(now, "missed_frees")).text));
	print_made(paper,
		   text_of("requests %s (%s/s)  hits %s  waited %s  passed through %s",
			   show_count(sum(now, "requests")).text,
			   show_rate(rate_of_all(now, before, "requests")).text,
			   share(sum(now, "hits"), sum(now, "requests")).text,
			   show_count(sum(now, "waited")).text, show_count(sum(now, "bypassed")).text));
}

static void print_nobody(struct paper *paper, const struct look *now)
{
	char *job = now->choice->job ? clean_text(now->choice->job) : NULL;

	if (now->choice->count)
		print_line(paper, now->choice->count == 1
					  ? "That process does not use peerpin on this host now."
					  : "None of these processes uses peerpin on this host now.");
	else if (job)
		print_made(paper, text_of("No process of job %s uses peerpin on this host now.", job));
	else
		print_line(paper, "No process of yours uses peerpin on this host now.");
	free(job);
	if (now->left)
		print_made(paper,
			   text_of(now->left == 1
					   ? "%zu process was killed earlier and left its counters: peerpin "
					     "report"
					   : "%zu processes were killed earlier and left their counters: "
					     "peerpin report",
				   now->left));
}

void top_rows(const struct look *now, const struct look *before, int width, int height, const char *end,
	      FILE *out)
{
	struct paper paper = { .out = out, .width = width, .left = height ? height : -1, .end = end };

	print_totals(&paper, now, before);
	print_line(&paper, "");
	if (!now->records.count) {
		print_nobody(&paper, now);
		return;
	}
	print_titles(&paper);
	for (size_t i = 0; i < now->records.count; i++) {
		size_t rest = now->records.count - i;

		if (paper.left == 1 && rest > 1) {
			print_made(
				&paper,
				text_of("and %zu more: a larger window, --once or --json shows them", rest));
			return;
		}
		print_record(&paper, now, before, &now->records.list[i]);
	}
}

json_t *top_json(const struct look *now, const struct look *before)
{
	json_t *json = json_object(), *list = json_array();

	for (size_t i = 0; i < now->records.count; i++) {
		const struct record *record = &now->records.list[i];

		json_object_set_new(record->json, "requests_per_1000_s",
				    json_integer((json_int_t)(rate(record, now, before, "requests") * 1000)));
		json_object_set_new(
			record->json, "registrations_per_1000_s",
			json_integer((json_int_t)(rate(record, now, before, "registrations") * 1000)));
		json_array_append(list, record->json);
	}
	json_object_set_new(json, "schema", json_string("peerpin-top/1"));
	json_object_set_new(json, "version", json_string(PACKAGE_VERSION));
	json_object_set_new(json, "at_ns", json_integer((json_int_t)time(NULL) * 1000000000));
	json_object_set_new(json, "processes", list);
	return json;
}
