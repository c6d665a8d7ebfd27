/* SPDX-License-Identifier: BSD-3-Clause */
/* observed_read.c -- reads files of peerpin observe, and adds them up */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/observed.h"
#include "tools/records.h"
#include "tools/rows.h"
#include "tools/units.h"

#define MOST_ROWS  100000
#define MOST_BYTES (64 << 20)

/* The lists of a file, and the members that name a row; all others are numbers, which add up, or
 * grow to the largest. */
static const struct {
	const char *list, *keys[6];
} lists[] = {
	{ "callers", { "name", "version" } },
	{ "registrations", { "caller", "adapter", "form", "memory", "access" } },
	{ "allocations", { "kind" } },
	{ "sizes", { "size" } },
	{ "findings", { "id", "caller" } },
};

/* The file, at its beginning, or -1. A FIFO or a device is none. */
static int observed_open(const char *path)
{
	char begin[64] = "";
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	struct stat status;

	if (fd < 0)
		return -1;
	if (!fstat(fd, &status) && S_ISREG(status.st_mode) && status.st_size < MOST_BYTES &&
	    records_read_bytes(fd, begin, sizeof(begin) - 1) &&
	    strstr(begin, "\"" OBSERVED_SCHEMA "\"") && !lseek(fd, 0, SEEK_SET))
		return fd;
	close(fd);
	return -1;
}

bool observed_is_file(const char *path)
{
	int fd = observed_open(path);

	if (fd < 0)
		return false;
	close(fd);
	return true;
}

static void observed_list_one(struct observed_files *files, const char *path)
{
	files->paths = grown(files->paths, files->count, sizeof(*files->paths));
	files->paths[files->count++] = path;
}

/* The texts last until texts_free(). */
void observed_list(struct observed_files *files, char *const *words, int count)
{
	for (int i = 0; i < count; i++) {
		struct dirent **entries = NULL;
		int found = scandir(words[i], &entries, NULL, alphasort);
		size_t before = files->count;

		for (int k = 0; k < found; k++) {
			const char *path = text_of("%s/%s", words[i], entries[k]->d_name);

			if (observed_is_file(path))
				observed_list_one(files, path);
			free(entries[k]);
		}
		free(entries);
		if (files->count == before)
			observed_list_one(files, words[i]);
	}
}

static json_t *observed_load(const char *path, const char **reason)
{
	int fd = observed_open(path);
	json_error_t error;
	json_t *json;

	*reason = "not a file of peerpin observe";
	if (fd < 0)
		return NULL;
	json = json_loadfd(fd, JSON_REJECT_DUPLICATES, &error);
	close(fd);
	if (!json)
		*reason = text_of("%s", clean(error.text));
	return json;
}

static bool is_key(const char *const *keys, const char *key)
{
	for (; *keys; keys++) {
		if (!strcmp(*keys, key))
			return true;
	}
	return false;
}

/* Texts come from a file: no output form cleans them again. */
static bool observed_check_row(json_t *row, const char *const *keys)
{
	const char *key;
	json_t *value;

	for (const char *const *at = keys; *at; at++) {
		value = json_object_get(row, *at);
		if (!json_is_string(value) && !json_is_integer(value))
			return false;
	}
	json_object_foreach(row, key, value) {
		if (json_is_string(value) && is_key(keys, key))
			json_string_set(value, clean(json_string_value(value)));
		else if (!json_is_integer(value) || json_integer_value(value) < 0)
			return false;
	}
	return true;
}

static bool observed_is_number(const json_t *value, int64_t most)
{
	return json_is_integer(value) && json_integer_value(value) >= 0 &&
	       json_integer_value(value) <= most;
}

#define MOST_SAMPLES 256u
#define MOST_NS	     ((int64_t)1 << 62) /* since 1970 */

/* False: a member is wrong. A file may have none. */
static bool observed_check_timeline(const json_t *json)
{
	const json_t *timeline = json_object_get(json, "timeline"), *row, *values, *value;
	const json_t *interval = json_object_get(timeline, "interval_ns");
	size_t at, i;

	if (!timeline)
		return true;
	if (!observed_is_number(interval, MOST_NS / MOST_SAMPLES / 2) ||
	    !json_integer_value(interval) ||
	    !observed_is_number(json_object_get(json, "started_ns"), MOST_NS))
		return false;
	json_array_foreach(json_object_get(timeline, "rows"), at, row) {
		values = json_object_get(row, "values");
		if (at == MOST_SAMPLES || !json_is_string(json_object_get(row, "kind")) ||
		    !json_is_string(json_object_get(row, "caller")) ||
		    json_array_size(values) > MOST_SAMPLES)
			return false;
		json_array_foreach(values, i, value) {
			if (!observed_is_number(value, INT64_MAX))
				return false;
		}
	}
	return true;
}

static const char *observed_check(const json_t *json)
{
	static const char *const numbers[] = { "elapsed_ns",
					       "memory_peak_bytes",
					       "pinned_peak_bytes",
					       "contexts_ended",
					       "unknown_frees",
					       "bar1_bytes",
					       "lost" };
	static const char *const none[] = { NULL };
	const json_t *value;
	json_t *row;
	size_t at;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		value = json_object_get(json, numbers[i]);
		if (!json_is_integer(value) || json_integer_value(value) < 0)
			return text_of("%s: not a number", numbers[i]);
	}
	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
		value = json_object_get(json, lists[i].list);
		if (!json_is_array(value) || json_array_size(value) > MOST_ROWS)
			return text_of("%s: not a list", lists[i].list);
		json_array_foreach(value, at, row) {
			if (!json_is_object(row) || !observed_check_row(row, lists[i].keys))
				return text_of("%s[%zu]: a member is wrong", lists[i].list, at);
		}
	}
	if (!json_is_object(json_object_get(json, "saving")) ||
	    !observed_check_row(json_object_get(json, "saving"), none))
		return "saving: a member is wrong";
	if (!observed_check_timeline(json))
		return "timeline: a member is wrong";
	if (!json_is_string(json_object_get(json, "program")) ||
	    !json_is_string(json_object_get(json, "host")))
		return "program or host: not a text";
	return NULL;
}

/* ---- sums ---- */

static void observed_add_members(json_t *to, const json_t *from, const char *const *keys)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)from, key, value) {
		int64_t before = json_integer_value(json_object_get(to, key)),
			number = json_integer_value(value);

		if (is_key(keys, key))
			json_object_set(to, key, value);
		else if (strstr(key, "peak"))
			json_object_set_new(to, key,
					    json_integer(before > number ? before : number));
		else
			add_number(to, key, number);
	}
}

static bool observed_is_same_row(const json_t *one, const json_t *other, const char *const *keys)
{
	for (; *keys; keys++) {
		if (!json_equal(json_object_get(one, *keys), json_object_get(other, *keys)))
			return false;
	}
	return true;
}

static void observed_add_rows(json_t *to, const json_t *from, const char *const *keys)
{
	json_t *row, *sum = NULL;
	size_t at, i;

	json_array_foreach(from, at, row) {
		json_array_foreach(to, i, sum) {
			if (observed_is_same_row(sum, row, keys))
				break;
		}
		if (i == json_array_size(to)) {
			sum = json_object();
			json_array_append_new(to, sum);
		}
		observed_add_members(sum, row, keys);
	}
}

static void observed_add(json_t *sums, const json_t *json)
{
	static const char *const none[] = { NULL };
	static const char *const sizes[] = { "memory_peak_bytes", "pinned_peak_bytes" };
	int64_t elapsed = json_integer_value(json_object_get(json, "elapsed_ns")), number, most;

	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++)
		observed_add_rows(json_object_get(sums, lists[i].list),
				  json_object_get(json, lists[i].list), lists[i].keys);
	observed_add_members(json_object_get(sums, "saving"), json_object_get(json, "saving"),
			     none);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		number = json_integer_value(json_object_get(json, sizes[i]));
		most = json_integer_value(json_object_get(sums, sizes[i]));
		json_object_set_new(sums, sizes[i], json_integer(number > most ? number : most));
	}
	add_number(sums, "processes", 1);
	add_number(sums, "process_ns", elapsed);
	add_number(sums, "lost", json_integer_value(json_object_get(json, "lost")));
	number = json_integer_value(json_object_get(json, "bar1_bytes"));
	most = json_integer_value(json_object_get(sums, "bar1_bytes"));
	json_object_set_new(sums, "bar1_bytes",
			    json_integer(most && most < number ? most : number));
	if (elapsed > json_integer_value(json_object_get(sums, "elapsed_ns")))
		json_object_set_new(sums, "elapsed_ns", json_integer(elapsed));
	if (!json_object_get(sums, "program"))
		json_object_set_new(
			sums, "program",
			json_string(clean(json_string_value(json_object_get(json, "program")))));
}

/* ---- the timeline of all processes ---- */

struct span {
	int64_t start, end; /* ns since 1970 */
	int64_t interval;
};

static void observed_extend(struct span *span, const json_t *timeline)
{
	int64_t interval = number_of(timeline, "interval_ns"),
		start = number_of(timeline, "started_ns");
	const json_t *row;
	size_t at;

	if (!span->end || start < span->start)
		span->start = start;
	if (interval > span->interval)
		span->interval = interval;
	json_array_foreach(json_object_get(timeline, "rows"), at, row) {
		int64_t end =
			start + interval * (int64_t)json_array_size(json_object_get(row, "values"));

		if (end > span->end)
			span->end = end;
	}
}

/* The row of that kind and caller, which has a value for each interval. */
static json_t *observed_find_values(json_t *rows, const json_t *like, int64_t count)
{
	static const char *const keys[] = { "kind", "caller", NULL };
	json_t *row, *values = json_array();
	size_t at;

	json_array_foreach(rows, at, row) {
		if (observed_is_same_row(row, like, keys)) {
			json_decref(values);
			return json_object_get(row, "values");
		}
	}
	while (count--)
		json_array_append_new(values, json_integer(0));
	json_array_append_new(rows, json_pack("{s:s, s:o, s:o}", "kind", string_of(like, "kind"),
					      "caller", json_of_bytes(string_of(like, "caller")),
					      "values", values));
	return values;
}

/* Levels last for their interval, and the highest of one process counts; counts are those of the
 * interval's begin. */
static void observed_add_values(json_t *to, const json_t *row, const struct span *span,
				int64_t start, int64_t interval)
{
	bool is_level = strcmp(string_of(row, "kind"), "registrations") != 0;
	const json_t *values = json_object_get(row, "values"), *value;
	int64_t *own = zeroed(json_array_size(to), sizeof(*own));
	size_t at, first, last;

	json_array_foreach(values, at, value) {
		int64_t number = json_integer_value(value),
			begin = start - span->start + (int64_t)at * interval;

		first = (size_t)(begin / span->interval);
		last = is_level ? (size_t)((begin + interval - 1) / span->interval) : first;
		for (; first <= last; first++)
			own[first] = !is_level		   ? add_capped(own[first], number)
				     : own[first] < number ? number
							   : own[first];
	}
	for (at = 0; at < json_array_size(to); at++)
		json_array_set_new(to, at,
				   json_integer(add_capped(
					   own[at], json_integer_value(json_array_get(to, at)))));
	free(own);
}

/* `timelines`: of the processes, each with its start. */
static json_t *observed_join_timelines(const json_t *timelines)
{
	json_t *rows = json_array(), *timeline, *row;
	struct span span = { 0 };
	int64_t count;
	size_t at, i;

	json_array_foreach(timelines, at, timeline) {
		observed_extend(&span, timeline);
	}
	count = span.end - span.start;
	if (count / MOST_SAMPLES >= span.interval)
		span.interval = count / MOST_SAMPLES + 1;
	count = span.interval ? (count + span.interval - 1) / span.interval : 0;
	json_array_foreach(timelines, at, timeline) {
		json_array_foreach(json_object_get(timeline, "rows"), i, row) {
			observed_add_values(observed_find_values(rows, row, count), row, &span,
					    number_of(timeline, "started_ns"),
					    number_of(timeline, "interval_ns"));
		}
	}
	return json_pack("{s:I, s:o}", "interval_ns", (json_int_t)span.interval, "rows", rows);
}

static void observed_keep_timeline(json_t *timelines, const json_t *json)
{
	json_t *timeline = json_object_get(json, "timeline");

	if (!timeline)
		return;
	json_object_set(timeline, "started_ns", json_object_get(json, "started_ns"));
	json_array_append(timelines, timeline);
}

json_t *observed_read(const struct observed_files *files, int *problems)
{
	json_t *sums = json_object(), *timelines = json_array(), *json;
	const char *reason;

	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++)
		json_object_set_new(sums, lists[i].list, json_array());
	json_object_set_new(sums, "saving", json_object());
	*problems = 0;
	for (size_t i = 0; i < files->count; i++) {
		json = observed_load(files->paths[i], &reason);
		if (json)
			reason = observed_check(json);
		if (reason) {
			fprintf(stderr, "peerpin report: %s: %s\n", clean(files->paths[i]), reason);
			++*problems;
		} else {
			observed_add(sums, json);
			observed_keep_timeline(timelines, json);
		}
		json_decref(json);
	}
	json_object_set_new(sums, "timeline", observed_join_timelines(timelines));
	json_decref(timelines);
	return sums;
}
