/* SPDX-License-Identifier: BSD-3-Clause */
/* records.c -- finds and reads statistics of processes: JSON files, snapshots, folders */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/plain_text.h"
#include "base/proc_stat.h"
#include "base/runtime.h"
#include "tools/records.h"
#include "tools/rows.h"
#include "tools/units.h"

#define SCHEMA "peerpin-stats/1"
#define NUMBER "whole number of 0 or more"

enum {
	/* Limit of a file in bytes, far above the statistics of one process. */
	MOST_BYTES = 16 << 20,
	/* Files of one folder and one reason that are reported singly. */
	MOST_ALIKE = 3,
	/* A snapshot of a process whose number is unknown here counts as running for so long. */
	UNKNOWN_SECONDS = 3600,
	MOST_BUCKETS = 64, /* log2 of 64 bits */
	MOST_ITEMS = 4096, /* of a list; the library writes 128 pairs */
};

/* ---- validation: readers may rely on types and texts of a record ---- */

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

/* Cleans the texts of `json`. NULL: it is a record of this schema version. Otherwise the reason.
 *
 * Unknown keys are accepted: a later version may add keys to the schema. Unknown numbers count as
 * counters and must be whole numbers of 0 or more. */
static const char *record_check(json_t *json)
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

/* ---- files and folders ---- */

size_t records_read_bytes(int fd, void *to, size_t size)
{
	size_t done = 0;
	ssize_t now;

	while (done < size) {
		now = pread(fd, (char *)to + done, size - done, (off_t)done);
		if (now < 0 && errno == EINTR)
			continue;
		if (now <= 0)
			break;
		done += (size_t)now;
	}
	return done;
}

/* JSON text of bytes that may be a file name. */
json_t *json_of_bytes(const char *bytes)
{
	return json_string(clean(bytes));
}

static void records_add_problem(struct records *records, const char *source, const char *reason)
{
	if (!records->problems)
		records->problems = json_array();
	json_array_append_new(records->problems,
			      json_pack("{s:o, s:o}", "file", json_of_bytes(source), "reason",
					json_of_bytes(reason)));
}

static bool records_ends_in(const char *name, size_t length, const char *end)
{
	return length >= strlen(end) && !strncmp(name + length - strlen(end), end, strlen(end));
}

/* Folders of snapshots, below RUNTIME_FOLDERS (base/runtime.h). Reader and process may differ in
 * environment, so every folder counts. NULL: no such folder, or not private to this user. */
static const char *records_runtime_folder(unsigned int number)
{
	const char *shared = getenv("PEERPIN_SIM_SHM"); /* set by tests, to hide other processes */
	char path[RUNTIME_PATH];

	if (shared)
		runtime_shared = shared;
	return runtime_find(number, path) ? text_of("%s", path) : NULL;
}

static bool records_is_in_runtime_folder(const char *path)
{
	const char *folder;
	bool found = false;

	for (unsigned int i = 0; i < RUNTIME_FOLDERS && !found; i++) {
		folder = records_runtime_folder(i);
		found = folder && !strncmp(path, folder, strlen(folder)) &&
			path[strlen(folder)] == '/';
	}
	return found;
}

/* True if the process of a snapshot runs. The number of a process in a container is unknown here:
 * its snapshot in this user's folder counts as that of a running one for an hour. */
static bool records_is_running(const char *path, const json_t *json)
{
	char host[256] = "";
	struct stat status;

	gethostname(host, sizeof(host) - 1);
	host[strcspn(host, ".")] = '\0';
	if (!strcmp(host, string_of(json, "host")) && !stat("/proc/self/ns/pid", &status) &&
	    number_of(json, "pid_namespace") == (int64_t)status.st_ino)
		return proc_stat_is_live((int)number_of(json, "pid"),
					 (uint64_t)number_of(json, "start_ticks"));
	return records_is_in_runtime_folder(path) && !stat(path, &status) &&
	       status.st_mtime + UNKNOWN_SECONDS > time(NULL);
}

/* Set the end of a snapshot; and the time of a running process, which is past the snapshot's. */
static void records_find_end(struct record *record)
{
	struct timespec now;
	int64_t elapsed;

	record->end =
		records_is_running(record->source, record->json) ? RECORD_RUNNING : RECORD_KILLED;
	json_object_set_new(record->json, "ended", json_string(record_end_name(record->end)));
	clock_gettime(CLOCK_REALTIME, &now);
	elapsed = now.tv_sec * (int64_t)1000000000 + now.tv_nsec -
		  record_number(record, "started_ns");
	if (record->end == RECORD_RUNNING && elapsed > record_number(record, "elapsed_ns"))
		json_object_set_new(record->json, "elapsed_ns", json_integer(elapsed));
}

/* Take ownership of `json`. */
static void records_add(struct records *records, const char *source, json_t *json)
{
	struct record record = { .json = json, .source = strdup(source) };
	const char *wrong = record_check(json), *ended = string_of(json, "ended");

	if (wrong || !record.source) {
		records_add_problem(records, source, wrong ?: strerror(ENOMEM));
		json_decref(json);
		free(record.source);
		return;
	}
	record.is_snapshot = records_ends_in(source, strlen(source), RUNTIME_STATS);
	if (ended && !strcmp(ended, record_end_name(RECORD_RUNNING)))
		records_find_end(&record);
	else if (ended && !strcmp(ended, record_end_name(RECORD_KILLED)))
		record.end = RECORD_KILLED;
	records->list = grown(records->list, records->count, sizeof(*records->list));
	records->list[records->count++] = record;
}

static void records_read_json(struct records *records, const char *path, int fd)
{
	struct stat stat;
	json_error_t error;
	size_t length;
	char *bytes;
	json_t *json;

	if (fstat(fd, &stat) || !S_ISREG(stat.st_mode)) {
		records_add_problem(records, path, "not a regular file");
		return;
	}
	if (stat.st_size > MOST_BYTES) {
		records_add_problem(records, path,
				    "larger than 16 MiB: not the statistics of a process");
		return;
	}
	/* A file that is being written reads as truncated. */
	bytes = zeroed(1, (size_t)stat.st_size + 1);
	length = records_read_bytes(fd, bytes, (size_t)stat.st_size);
	json = json_loadb(bytes, length, JSON_REJECT_DUPLICATES, &error);
	free(bytes);
	if (json)
		records_add(records, path, json);
	else if (!length)
		records_add_problem(records, path,
				    "empty: the process ended before it wrote its statistics");
	else if (json_error_code(&error) == json_error_premature_end_of_input)
		records_add_problem(records, path, text_of("truncated in line %d", error.line));
	else
		records_add_problem(records, path,
				    text_of("invalid JSON in line %d: %s", error.line, error.text));
}

static bool records_begins_with(int fd, const char *begins)
{
	char text[64];
	size_t length = strlen(begins);

	return length <= sizeof(text) && pread(fd, text, length, 0) == (ssize_t)length &&
	       !memcmp(text, begins, length);
}

/* `found`: listed in a folder. A missing file or a trace is then no problem. */
static void records_read_file(struct records *records, const char *path, bool found)
{
	/* O_NONBLOCK: opening a FIFO must not block. O_NOCTTY: a terminal must not become the
	 * controlling one. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	const char *wrong = NULL;

	if (fd < 0) {
		if (!found || errno != ENOENT)
			records_add_problem(records, path, strerror(errno));
		return;
	}
	if (records_begins_with(fd, "[\n{\"ph\":\"M\",\"name\":\"process_name\"")) {
		/* Traces (PEERPIN_TRACE_FILE) may share folder and extension with statistics. */
		if (!found)
			wrong = "a trace: open it in Perfetto (ui.perfetto.dev)";
	} else if (records_begins_with(fd, "PEERPIN")) {
		if (!found)
			wrong = "counters of peerpin 0.3 or older: that version reads them";
	} else if (records_begins_with(fd, "# HELP peerpin_")) {
		wrong = "Prometheus text: a report requires JSON";
	} else {
		records_read_json(records, path, fd);
	}
	if (wrong)
		records_add_problem(records, path, wrong);
	close(fd);
}

/* Return the length without a trailing `mark` and number, or `length` if the name has none. */
static size_t records_without_number(const char *name, size_t length, char mark)
{
	size_t digits = length;

	while (digits && name[digits - 1] >= '0' && name[digits - 1] <= '9')
		digits--;
	return digits && digits < length && name[digits - 1] == mark ? digits - 1 : length;
}

/* Rank and number precede the extension; older versions append both: job.json.3-1. */
static int records_is_name(const struct dirent *entry)
{
	const char *name = entry->d_name;
	size_t length = records_without_number(name, strlen(name), '-');

	length = records_without_number(name, length, '.');
	return name[0] != '.' &&
	       (records_ends_in(name, length, ".json") || records_ends_in(name, length, ".stats"));
}

static void records_read_folder(struct records *records, const char *path)
{
	struct dirent **names;
	int count = scandir(path, &names, records_is_name, alphasort);

	if (count < 0) {
		records_add_problem(records, path, strerror(errno));
		return;
	}
	for (int i = 0; i < count; i++) {
		records_read_file(records, text_of("%s/%s", path, names[i]->d_name), true);
		free(names[i]);
	}
	free(names);
}

void records_read(struct records *records, const char *path)
{
	size_t before = records->count + json_array_size(records->problems);
	struct stat stat_of;

	if (stat(path, &stat_of) || !S_ISDIR(stat_of.st_mode)) {
		records_read_file(records, path, false);
		return;
	}
	records_read_folder(records, path);
	if (records->count + json_array_size(records->problems) == before)
		records_add_problem(records, path, "a folder without statistics (*.json, *.stats)");
}

const char *records_refused_folder(void)
{
	char path[RUNTIME_PATH];

	return runtime_is_refused(path)
		       ? text_of("%s is not private to you: peerpin uses another folder", path)
		       : NULL;
}

bool records_read_runtime(struct records *records)
{
	const char *path;
	bool found = false;

	for (unsigned int i = 0; i < RUNTIME_FOLDERS; i++) {
		path = records_runtime_folder(i);
		if (!path)
			continue;
		records_read_folder(records, path);
		found = true;
	}
	return found;
}

static void record_free(struct record *record)
{
	json_decref(record->json);
	free(record->source);
}

size_t records_filter(struct records *records, bool (*keep)(const struct record *, void *),
		      void *argument)
{
	size_t kept = 0, count = records->count;

	for (size_t i = 0; i < count; i++) {
		if (keep(&records->list[i], argument))
			records->list[kept++] = records->list[i];
		else
			record_free(&records->list[i]);
	}
	records->count = kept;
	return count - kept;
}

bool record_is_same_process(const struct record *one, const struct record *other)
{
	return record_number(one, "pid") == record_number(other, "pid") &&
	       record_number(one, "started_ns") == record_number(other, "started_ns") &&
	       !strcmp(record_text(one, "host"), record_text(other, "host"));
}

void records_drop_doubles(struct records *records)
{
	size_t kept = 0, k;

	for (size_t i = 0; i < records->count; i++) {
		struct record record = records->list[i], *known = records->list;

		for (k = 0; k < kept && !record_is_same_process(&known[k], &record); k++)
			;
		if (k == kept) {
			records->list[kept++] = record;
			continue;
		}
		if (known[k].end != RECORD_EXIT && record.end == RECORD_EXIT) {
			record = known[k];
			known[k] = records->list[i];
		}
		record_free(&record);
	}
	records->count = kept;
}

void records_free(struct records *records)
{
	for (size_t i = 0; i < records->count; i++)
		record_free(&records->list[i]);
	free(records->list);
	json_decref(records->problems);
	*records = (struct records){ 0 };
}

/* Count the earlier problems with the folder and the reason of problem `which`. */
static size_t records_count_alike(const struct records *records, size_t which)
{
	const json_t *problem = json_array_get(records->problems, which), *other;
	const char *file = string_of(problem, "file"), *name = strrchr(file, '/');
	size_t length = name ? (size_t)(name - file) + 1 : 0, count = 0;

	for (size_t i = 0; i < which; i++) {
		other = json_array_get(records->problems, i);
		count += !strcmp(string_of(other, "reason"), string_of(problem, "reason")) &&
			 !strncmp(string_of(other, "file"), file, length) &&
			 !strchr(string_of(other, "file") + length, '/');
	}
	return count;
}

void records_print_problems(const struct records *records, const char *program)
{
	const json_t *problem;
	size_t more = 0, at;

	json_array_foreach(records->problems, at, problem) {
		if (records_count_alike(records, at) >= MOST_ALIKE)
			more++;
		else
			fprintf(stderr, "%s: %s: %s\n", program, string_of(problem, "file"),
				string_of(problem, "reason"));
	}
	if (more)
		fprintf(stderr, "%s: %zu more %s for these reasons (--json lists all)\n", program,
			more, more == 1 ? "file" : "files");
}

bool records_job_is_running(const struct records *records, const char *job)
{
	const char *other;

	for (size_t i = 0; job && i < records->count; i++) {
		other = record_text(&records->list[i], "job");
		if (records->list[i].end == RECORD_RUNNING && other && !strcmp(job, other))
			return true;
	}
	return false;
}

int64_t number_of(const json_t *json, const char *key)
{
	return json_integer_value(json_object_get(json, key));
}

const char *string_of(const json_t *json, const char *key)
{
	return json_string_value(json_object_get(json, key));
}

const char *record_usage(const struct record *record)
{
	const char *usage = record_text(record, "usage"),
		   *bytes = usage ? strrchr(usage, ';') : NULL;

	return bytes && strstr(bytes, " registered at peak")
		       ? text_of("%.*s", (int)(bytes - usage), usage)
		       : usage;
}

int64_t record_rank(const struct record *record)
{
	const json_t *rank = json_object_get(record->json, "rank");

	return json_is_integer(rank) ? json_integer_value(rank) : -1;
}

bool record_observes(const struct record *record)
{
	return json_object_get(json_object_get(record->json, "settings"), "PEERPIN_OBSERVE");
}

const char *record_end_name(enum record_end end)
{
	static const char *const end_names[] = { "exit", "running", "killed" };

	return end_names[end];
}
