/* SPDX-License-Identifier: BSD-3-Clause */
/* records.h -- what processes left behind: their statistics, wherever they lie, as JSON objects that were checked
 *
 * A record is one process. It comes from a JSON file that the process wrote at its end, or from its mapped file. What
 * cannot be read becomes a problem, named with what is wrong, and the rest is read on: input is never trusted, and
 * what was accepted holds only whole numbers that are not negative where the schema has numbers.
 */
#ifndef PEERPIN_TOOLS_RECORDS_H
#define PEERPIN_TOOLS_RECORDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum record_end {
	RECORD_EXIT, /* it wrote its results itself */
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

/* A file, JSON or mapped, or a folder of them: there only names that end in .json and .stats are looked at, and those of older
 * versions, which have a number behind that. Traces are passed over. */
void records_read(struct records *records, const char *path);
/* The mapped files of this user's processes on this host. False if there is no such folder. */
bool records_read_runtime(struct records *records);
/* Where the mapped files may lie: who looks may have another environment than who counted, so that both places count. Freed by the
 * caller; NULL if there is no such folder. */
#define RECORDS_RUNTIME_FOLDERS 2
char *records_runtime_folder(unsigned int number);
/* Records of one process that was found twice become one: the complete one. */
void records_drop_doubles(struct records *records);
void records_remove(struct records *records, size_t at);
void records_free(struct records *records);
/* Tells on standard error what could not be read. */
void records_say_problems(const struct records *records, const char *program);

/* 0 if there is no such number. */
int64_t record_number(const struct record *record, const char *key);
/* -1 if the process had no rank. */
int64_t record_rank(const struct record *record);
/* NULL if there is no such text. */
const char *record_text(const struct record *record, const char *key);
const char *record_end_name(enum record_end end);

/* NULL if the object is a record of this version; otherwise what is wrong, freed by the caller (record_check.c). */
char *record_check(const json_t *json);

#endif
