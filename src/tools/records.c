/* SPDX-License-Identifier: BSD-3-Clause */
/* records.c -- finds and reads what processes left behind: JSON files, mapped files, folders of them */
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
	/* Far more than one process writes, far less than a page of memory for each of a job's ranks matters. */
	MOST_BYTES = 16 << 20,
	/* Files of one folder that are named one by one for the same reason. */
	MOST_ALIKE = 3,
};

static void *one_more(void *list, size_t count, size_t *room, size_t size)
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

/* Takes the text over. */
static void add_problem(struct records *records, const char *source, char *what)
{
	records->problems = one_more(records->problems, records->problem_count, &records->problem_room,
				     sizeof(*records->problems));
	records->problems[records->problem_count++] =
		(struct problem){ .source = text_of("%s", source), .what = what };
}

static enum record_end end_of(const json_t *json)
{
	const char *ended = json_string_value(json_object_get(json, "ended"));

	if (ended && !strcmp(ended, "running"))
		return RECORD_RUNNING;
	return ended && !strcmp(ended, "killed") ? RECORD_KILLED : RECORD_EXIT;
}

/* Takes the object over. */
static void add_record(struct records *records, const char *source, json_t *json, bool mapped)
{
	char *wrong = record_check(json);

	if (wrong) {
		add_problem(records, source, wrong);
		json_decref(json);
		return;
	}
	records->list = one_more(records->list, records->count, &records->room, sizeof(*records->list));
	records->list[records->count++] = (struct record){
		.json = json, .source = text_of("%s", source), .end = end_of(json), .mapped = mapped
	};
}

/* The whole file; NULL with what is wrong. What is still being written reads as cut off, and is said to be. */
static char *read_whole(int fd, size_t *length, char **wrong)
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

static void read_json(struct records *records, const char *path, int fd)
{
	char *wrong = NULL, *bytes, *clean;
	json_error_t error;
	size_t length;
	json_t *json;

	bytes = read_whole(fd, &length, &wrong);
	if (!bytes) {
		add_problem(records, path, wrong);
		return;
	}
	json = json_loadb(bytes, length, JSON_REJECT_DUPLICATES, &error);
	free(bytes);
	if (json) {
		add_record(records, path, json, false);
	} else if (!length) {
		add_problem(records, path, text_of("empty: the process did not come to write it"));
	} else if (json_error_code(&error) == json_error_premature_end_of_input) {
		add_problem(records, path, text_of("cut off in line %d", error.line));
	} else {
		clean = clean_text(error.text);
		add_problem(records, path, text_of("no JSON in line %d: %s", error.line, clean));
		free(clean);
	}
}

static bool begins_with(int fd, const char *begins)
{
	char text[64];
	size_t length = strlen(begins);

	return length <= sizeof(text) && pread(fd, text, length, 0) == (ssize_t)length &&
	       !memcmp(text, begins, length);
}

/* What PEERPIN_TRACE_FILE wrote may lie in the same folder, with the same extension. */
static bool is_trace(int fd)
{
	return begins_with(fd, "[\n{\"ph\":\"M\",\"name\":\"process_name\"");
}

/* found: in a folder, so that nobody wonders if it is gone by now, or is something else of ours. */
static void read_file(struct records *records, const char *path, bool found)
{
	/* A FIFO would block here, a terminal would become ours. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0) {
		if (!found || errno != ENOENT)
			add_problem(records, path, text_of("%s", strerror(errno)));
		return;
	}
	if (begins_with(fd, SEGMENT_JSON_MAGIC)) {
		char *wrong = NULL;
		json_t *json = segment_to_json(path, fd, &wrong);

		if (json)
			add_record(records, path, json, true);
		else
			add_problem(records, path, wrong);
	} else if (is_trace(fd)) {
		if (!found)
			add_problem(records, path,
				    text_of("a trace, which Perfetto opens (ui.perfetto.dev)"));
	} else if (begins_with(fd, "# HELP peerpin_")) {
		add_problem(records, path, text_of("Prometheus' text: a report takes JSON alone"));
	} else {
		read_json(records, path, fd);
	}
	close(fd);
}

/* The name's length without such a mark and a number behind it, if that is how it ends. */
static size_t without_number(const char *name, size_t length, char mark)
{
	size_t digits = length;

	while (digits && name[digits - 1] >= '0' && name[digits - 1] <= '9')
		digits--;
	return digits && digits < length && name[digits - 1] == mark ? digits - 1 : length;
}

static bool ends_in(const char *name, size_t length, const char *end)
{
	return length >= strlen(end) && !strncmp(name + length - strlen(end), end, strlen(end));
}

/* Rank and number are in front of the extension; of older files they are behind it: job.json.3-1. */
static int is_record_name(const struct dirent *entry)
{
	const char *name = entry->d_name;
	size_t length = without_number(name, strlen(name), '-');

	length = without_number(name, length, '.');
	return name[0] != '.' && (ends_in(name, length, ".json") || ends_in(name, length, ".stats"));
}

static void read_folder(struct records *records, const char *path)
{
	struct dirent **names;
	int count = scandir(path, &names, is_record_name, alphasort);

	if (count < 0) {
		add_problem(records, path, text_of("%s", strerror(errno)));
		return;
	}
	for (int i = 0; i < count; i++) {
		char *file = text_of("%s/%s", path, names[i]->d_name);

		read_file(records, file, true);
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
		read_file(records, path, false);
		return;
	}
	read_folder(records, path);
	if (records->count + records->problem_count == before)
		add_problem(records, path, text_of("a folder without statistics (*.json, *.stats)"));
}

static char *folder_if_there(char *path)
{
	struct stat stat_of;

	/* Where the library writes none (base/runtime.c) there is none to be read, or somebody else's. */
	if (!lstat(path, &stat_of) && S_ISDIR(stat_of.st_mode) && stat_of.st_uid == geteuid() &&
	    !(stat_of.st_mode & 077))
		return path;
	free(path);
	return NULL;
}

char *records_runtime_folder(unsigned int number)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	const char *shared =
		getenv("PEERPIN_SIM_SHM"); /* the tests' own, so that they see no other processes */

	if (number)
		return folder_if_there(
			text_of("%s/peerpin-%u", shared ? shared : "/dev/shm", (unsigned)geteuid()));
	return runtime && *runtime == '/' ? folder_if_there(text_of("%s/peerpin", runtime)) : NULL;
}

bool records_read_runtime(struct records *records)
{
	bool found = false;

	for (unsigned int i = 0; i < RECORDS_RUNTIME_FOLDERS; i++) {
		char *path = records_runtime_folder(i);

		if (!path)
			continue;
		read_folder(records, path);
		free(path);
		found = true;
	}
	return found;
}

static void drop(struct record *record)
{
	json_decref(record->json);
	free(record->source);
}

void records_remove(struct records *records, size_t at)
{
	drop(&records->list[at]);
	records->count--;
	memmove(&records->list[at], &records->list[at + 1], (records->count - at) * sizeof(*records->list));
}

static bool same_process(const struct record *one, const struct record *other)
{
	return record_number(one, "pid") == record_number(other, "pid") &&
	       record_number(one, "started_ns") == record_number(other, "started_ns") &&
	       !strcmp(record_text(one, "host"), record_text(other, "host"));
}

void records_drop_doubles(struct records *records)
{
	for (size_t i = 0; i < records->count; i++) {
		for (size_t j = i + 1; j < records->count;) {
			if (!same_process(&records->list[i], &records->list[j])) {
				j++;
				continue;
			}
			if (records->list[i].end != RECORD_EXIT && records->list[j].end == RECORD_EXIT) {
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
		drop(&records->list[i]);
	for (size_t i = 0; i < records->problem_count; i++) {
		free(records->problems[i].source);
		free(records->problems[i].what);
	}
	free(records->list);
	free(records->problems);
	*records = (struct records){ 0 };
}

/* How many of the problems in front of this one are the same, with a file of the same folder. */
static size_t count_before(const struct records *records, size_t which)
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

		if (count_before(records, i) >= MOST_ALIKE) {
			more++;
			continue;
		}
		source = clean_text(records->problems[i].source);
		fprintf(stderr, "%s: %s: %s\n", program, source, records->problems[i].what);
		free(source);
	}
	if (more)
		fprintf(stderr, "%s: %zu more %s beside them, for the same reasons (--json names all)\n",
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
