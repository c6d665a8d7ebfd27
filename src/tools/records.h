/* SPDX-License-Identifier: BSD-3-Clause */
/* records.h -- statistics of processes as checked JSON objects, one record for each process
 *
 * A record comes from the JSON file that a process wrote at its end, or from its statistics
 * segment. An unreadable file becomes a problem with a reason, and reading continues. Input is
 * untrusted. An accepted record holds only whole numbers of 0 or more where the schema has numbers.
 */
#ifndef PEERPIN_TOOLS_RECORDS_H
#define PEERPIN_TOOLS_RECORDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum record_end {
	RECORD_EXIT, /* the process wrote its results */
	RECORD_RUNNING,
	RECORD_KILLED,
};

struct record {
	json_t *json;
	char *source;
	enum record_end end;
	bool mapped;
};

struct problem {
	char *source;
	char *what;
};

struct records {
	struct record *list;
	size_t count, room;
	struct problem *problems;
	size_t problem_count, problem_room;
};

/* Reads a JSON file, a statistics segment, or a folder of both. In a folder, only names ending in
 * .json or .stats count, and names of older versions, with a number appended. Traces in a folder do
 * not count. */
void records_read(struct records *records, const char *path);
/* Reads the statistics segments of this user's processes on this host. False: no such folder. */
bool records_read_runtime(struct records *records);
/* Folders of statistics segments. Reader and process may differ in environment, so every folder
 * counts. NULL: no such folder, or not private to this user. The caller frees the path. */
#define RECORDS_RUNTIME_FOLDERS 2
char *records_runtime_folder(unsigned int number);
/* Keeps one record of each process: the complete one. */
void records_drop_doubles(struct records *records);
void records_remove(struct records *records, size_t at);
void records_free(struct records *records);
/* Reports unreadable files on standard error. */
void records_say_problems(const struct records *records, const char *program);

/* 0: no such number. */
int64_t record_number(const struct record *record, const char *key);
/* -1: no rank. */
int64_t record_rank(const struct record *record);
/* NULL: no such text. */
const char *record_text(const struct record *record, const char *key);
const char *record_end_name(enum record_end end);

/* NULL: `json` is a record of this schema version. Otherwise the reason, which the caller frees
 * (record_check.c). */
char *record_check(const json_t *json);

#endif
