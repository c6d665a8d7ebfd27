/* SPDX-License-Identifier: BSD-3-Clause */
/* records.c -- finds and reads statistics of processes: JSON files, statistics segments, folders */
#include "tools/records.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/segment_json.h"
#include "tools/units.h"

enum {
	/* Limit of a file in bytes, far above the statistics of one process. */
	MOST_BYTES = 16 << 20,
	/* Files of one folder and one reason that are reported singly. */
	MOST_ALIKE = 3,
};

static void *records_grow(void *list, size_t count, size_t *room, size_t size)
{
	if (count < *room)
		return list;
	*room = *room ? 2 * *room : 16;
	list = reallocarray(list, *room, size);
	if (!list) {
		fputs("peerpin: out of memory\n", stderr);
		exit(1);
	}
	return list;
}

/* Take ownership of `what`. */
static void records_add_problem(struct records *records, const char *source, char *what)
{
	records->problems = records_grow(records->problems, records->problem_count,
					 &records->problem_room, sizeof(*records->problems));
	records->problems[records->problem_count++] =
		(struct problem){ .source = text_of("%s", source), .what = what };
}

static enum record_end records_end(const json_t *json)
{
	const char *ended = json_string_value(json_object_get(json, "ended"));

	if (ended && !strcmp(ended, "running"))
		return RECORD_RUNNING;
	return ended && !strcmp(ended, "killed") ? RECORD_KILLED : RECORD_EXIT;
}

/* Take ownership of `json`. */
static void records_add(struct records *records, const char *source, json_t *json, bool mapped)
{
	char *wrong = record_check(json);

	if (wrong) {
		records_add_problem(records, source, wrong);
		json_decref(json);
		return;
	}
	records->list =
		records_grow(records->list, records->count, &records->room, sizeof(*records->list));
	records->list[records->count++] = (struct record){ .json = json,
							   .source = text_of("%s", source),
							   .end = records_end(json),
							   .mapped = mapped };
}

/* Return the whole file, or NULL with the reason in `*wrong`. A file still being written reads as
 * cut off. */
static char *records_read_whole(int fd, size_t *length, char **wrong)
{
	struct stat stat;
	char *bytes;
	ssize_t now;

	if (fstat(fd, &stat) || !S_ISREG(stat.st_mode)) {
		*wrong = text_of("not a file");
		return NULL;
	}
	if (stat.st_size > MOST_BYTES) {
		*wrong = text_of("larger than the statistics of a process ever are");
		return NULL;
	}
	bytes = zeroed(1, (size_t)stat.st_size + 1);
	for (*length = 0; *length < (size_t)stat.st_size; *length += (size_t)now) {
		now = pread(fd, bytes + *length, (size_t)stat.st_size - *length, (off_t)*length);
		if (now < 0 && errno == EINTR)
			now = 0;
		else if (now <= 0)
			break;
	}
	return bytes;
}

static void records_read_json(struct records *records, const char *path, int fd)
{
	char *wrong = NULL, *bytes, *clean;
	json_error_t error;
	size_t length;
	json_t *json;

	bytes = records_read_whole(fd, &length, &wrong);
	if (!bytes) {
		records_add_problem(records, path, wrong);
		return;
	}
	json = json_loadb(bytes, length, JSON_REJECT_DUPLICATES, &error);
	free(bytes);
	if (json) {
		records_add(records, path, json, false);
	} else if (!length) {
		records_add_problem(records, path,
				    text_of("empty: the process did not come to write it"));
	} else if (json_error_code(&error) == json_error_premature_end_of_input) {
		records_add_problem(records, path, text_of("cut off in line %d", error.line));
	} else {
		clean = clean_text(error.text);
		records_add_problem(records, path,
				    text_of("no JSON in line %d: %s", error.line, clean));
		free(clean);
	}
}

static bool records_begins_with(int fd, const char *begins)
{
	char text[64];
	size_t length = strlen(begins);

	return length <= sizeof(text) && pread(fd, text, length, 0) == (ssize_t)length &&
	       !memcmp(text, begins, length);
}

/* Traces (PEERPIN_TRACE_FILE) may share folder and extension with statistics. */
static bool records_is_trace(int fd)
{
	return records_begins_with(fd, "[\n{\"ph\":\"M\",\"name\":\"process_name\"");
}

/* `found`: listed in a folder. A missing file or a trace is then no problem. */
static void records_read_file(struct records *records, const char *path, bool found)
{
	/* O_NONBLOCK: opening a FIFO must not block. O_NOCTTY: a terminal must not become the
	 * controlling one. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0) {
		if (!found || errno != ENOENT)
			records_add_problem(records, path, text_of("%s", strerror(errno)));
		return;
	}
	if (records_begins_with(fd, SEGMENT_JSON_MAGIC)) {
		char *wrong = NULL;
		json_t *json = segment_to_json(path, fd, &wrong);

		if (json)
			records_add(records, path, json, true);
		else
			records_add_problem(records, path, wrong);
	} else if (records_is_trace(fd)) {
		if (!found)
			records_add_problem(
				records, path,
				text_of("a trace, which Perfetto opens (ui.perfetto.dev)"));
	} else if (records_begins_with(fd, "# HELP peerpin_")) {
		records_add_problem(records, path,
				    text_of("Prometheus' text: a report takes JSON alone"));
	} else {
		records_read_json(records, path, fd);
	}
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

static bool records_ends_in(const char *name, size_t length, const char *end)
{
	return length >= strlen(end) && !strncmp(name + length - strlen(end), end, strlen(end));
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
		records_add_problem(records, path, text_of("%s", strerror(errno)));
		return;
	}
	for (int i = 0; i < count; i++) {
		char *file = text_of("%s/%s", path, names[i]->d_name);

		records_read_file(records, file, true);
		free(file);
		free(names[i]);
	}
	free(names);
}

void records_read(struct records *records, const char *path)
{
	struct stat stat_of;
	size_t before = records->count + records->problem_count;

	if (stat(path, &stat_of) || !S_ISDIR(stat_of.st_mode)) {
		records_read_file(records, path, false);
		return;
	}
	records_read_folder(records, path);
	if (records->count + records->problem_count == before)
		records_add_problem(records, path,
				    text_of("a folder without statistics (*.json, *.stats)"));
}

static char *records_private_folder(char *path)
{
	struct stat stat_of;

	/* The library writes only to a folder that is private to its user (base/runtime.c). Any
	 * other folder is unused or another user's. */
	if (!lstat(path, &stat_of) && S_ISDIR(stat_of.st_mode) && stat_of.st_uid == geteuid() &&
	    !(stat_of.st_mode & 077))
		return path;
	free(path);
	return NULL;
}

char *records_runtime_folder(unsigned int number)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	const char *shared = getenv("PEERPIN_SIM_SHM"); /* set by tests, to hide other processes */

	if (number)
		return records_private_folder(text_of("%s/peerpin-%u", shared ? shared : "/dev/shm",
						      (unsigned)geteuid()));
	return runtime && *runtime == '/' ? records_private_folder(text_of("%s/peerpin", runtime))
					  : NULL;
}

bool records_read_runtime(struct records *records)
{
	bool found = false;

	for (unsigned int i = 0; i < RECORDS_RUNTIME_FOLDERS; i++) {
		char *path = records_runtime_folder(i);

		if (!path)
			continue;
		records_read_folder(records, path);
		free(path);
		found = true;
	}
	return found;
}

static void records_drop(struct record *record)
{
	json_decref(record->json);
	free(record->source);
}

void records_remove(struct records *records, size_t at)
{
	records_drop(&records->list[at]);
	records->count--;
	memmove(&records->list[at], &records->list[at + 1],
		(records->count - at) * sizeof(*records->list));
}

static bool records_same_process(const struct record *one, const struct record *other)
{
	return record_number(one, "pid") == record_number(other, "pid") &&
	       record_number(one, "started_ns") == record_number(other, "started_ns") &&
	       !strcmp(record_text(one, "host"), record_text(other, "host"));
}

void records_drop_doubles(struct records *records)
{
	for (size_t i = 0; i < records->count; i++) {
		for (size_t j = i + 1; j < records->count;) {
			if (!records_same_process(&records->list[i], &records->list[j])) {
				j++;
				continue;
			}
			if (records->list[i].end != RECORD_EXIT &&
			    records->list[j].end == RECORD_EXIT) {
				struct record later = records->list[j];

				records->list[j] = records->list[i];
				records->list[i] = later;
			}
			records_remove(records, j);
		}
	}
}

void records_free(struct records *records)
{
	for (size_t i = 0; i < records->count; i++)
		records_drop(&records->list[i]);
	for (size_t i = 0; i < records->problem_count; i++) {
		free(records->problems[i].source);
		free(records->problems[i].what);
	}
	free(records->list);
	free(records->problems);
	*records = (struct records){ 0 };
}

/* Count the earlier problems with the folder and the reason of problem `which`. */
static size_t records_count_alike(const struct records *records, size_t which)
{
	const struct problem *problem = &records->problems[which], *other;
	const char *name = strrchr(problem->source, '/');
	size_t length = name ? (size_t)(name - problem->source) + 1 : 0, count = 0;

	for (size_t i = 0; i < which; i++) {
		other = &records->problems[i];
		count += !strcmp(other->what, problem->what) &&
			 !strncmp(other->source, problem->source, length) &&
			 !strchr(other->source + length, '/');
	}
	return count;
}

void records_say_problems(const struct records *records, const char *program)
{
	size_t more = 0;

	for (size_t i = 0; i < records->problem_count; i++) {
		char *source;

		if (records_count_alike(records, i) >= MOST_ALIKE) {
			more++;
			continue;
		}
		source = clean_text(records->problems[i].source);
		fprintf(stderr, "%s: %s: %s\n", program, source, records->problems[i].what);
		free(source);
	}
	if (more)
		fprintf(stderr,
			"%s: %zu more %s beside them, for the same reasons (--json names all)\n",
			program, more, more == 1 ? "file" : "files");
}

int64_t record_number(const struct record *record, const char *key)
{
	return json_integer_value(json_object_get(record->json, key));
}

int64_t record_rank(const struct record *record)
{
	const json_t *rank = json_object_get(record->json, "rank");

	return json_is_integer(rank) ? json_integer_value(rank) : -1;
}

const char *record_text(const struct record *record, const char *key)
{
	return json_string_value(json_object_get(record->json, key));
}

const char *record_end_name(enum record_end end)
{
	static const char *const names[] = { "exit", "running", "killed" };

	return names[end];
}
