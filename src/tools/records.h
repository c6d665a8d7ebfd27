/* SPDX-License-Identifier: BSD-3-Clause */
/* records.h -- statistics of processes as checked JSON objects, one record for each process
 *
 * A record comes from the JSON file that a process wrote at its end, or from its latest
 * snapshot (report/statistics.h). An unreadable file becomes a problem with a reason, and reading
 * continues. Input is untrusted. An accepted record holds only whole numbers of 0 or more where the
 * schema has numbers, and its texts are clean_text(): output forms need not clean them.
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
	RECORD_KILLED, /* the snapshot is not the last one, and its process has ended */
};

struct record {
	json_t *json;
	char *source;
	enum record_end end;
	bool is_snapshot;
};

struct records {
	struct record *list;
	size_t count;
	json_t *problems; /* of objects: file, reason */
};

/* Reads a JSON file, a snapshot, or a folder of both. In a folder, only names ending in
 * .json or .stats count, and names of older versions, with a number appended. Traces in a folder do
 * not count. */
void records_read(struct records *records, const char *path);
/* Reads the snapshots of this user's processes on this host. False: no such folder. */
bool records_read_runtime(struct records *records);
/* A sentence if a folder with a usual name is not used; NULL: none. */
const char *records_refused_folder(void);
/* Reads up to `size` bytes from the start of the file, and returns their number. */
size_t records_read_bytes(int fd, void *to, size_t size);
/* Keeps one record of each process: the complete one. */
void records_drop_doubles(struct records *records);
/* Keeps records for which `keep` returns true, and returns the number of the others. */
size_t records_filter(struct records *records, bool (*keep)(const struct record *, void *),
		      void *argument);
void records_free(struct records *records);
/* Reports unreadable files on standard error. */
void records_print_problems(const struct records *records, const char *program);
/* True if a process of `job` runs. NULL: false. */
bool records_job_is_running(const struct records *records, const char *job);

bool record_is_same_process(const struct record *one, const struct record *other);
/* 0: no such number. */
int64_t number_of(const json_t *json, const char *key);
/* NULL: no such text. */
const char *string_of(const json_t *json, const char *key);
/* JSON text of bytes that may be a file name: clean_text(). */
json_t *json_of_bytes(const char *bytes);

static inline int64_t record_number(const struct record *record, const char *key)
{
	return number_of(record->json, key);
}

static inline const char *record_text(const struct record *record, const char *key)
{
	return string_of(record->json, key);
}

/* The line "GPUDirect RDMA" of its summary, without the bytes at the end, which are each process's
 * own; lasts as text_of(). NULL: none. */
const char *record_usage(const struct record *record);

/* -1: no rank. */
int64_t record_rank(const struct record *record);
/* True if the process serves no request (peerpin observe). */
bool record_observes(const struct record *record);
const char *record_end_name(enum record_end end);

#endif
