/* SPDX-License-Identifier: BSD-3-Clause */
/* output.h -- buffered text output without allocation and without streams; statistics as a table,
 * as one line or as JSON
 *
 * Text is buffered up to OUTPUT_ROOM bytes, then passed to `take`. After an error of `take` nothing
 * more is passed.
 */
#ifndef PEERPIN_REPORT_OUTPUT_H
#define PEERPIN_REPORT_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OUTPUT_ROOM 8192

struct output {
	/* Consume all bytes; return 0 or -errno. */
	int (*take)(void *argument, const char *bytes, size_t length);
	void *argument;
	int error; /* first error of `take` */
	size_t used;
	char bytes[OUTPUT_ROOM];
};

/* Append formatted text, truncated to 1023 bytes. */
void output_add(struct output *output, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Append `text` as a JSON string, with quotes and escaped control characters. */
void output_add_string(struct output *output, const char *text);

/* Flush the buffer. Return the first error or 0. */
int output_end(struct output *output);

/* `take` for a file descriptor in `argument`: repeats write(2) until all is written. Suppresses
 * SIGPIPE and SIGXFSZ, which would end the program with another status than its own. */
int output_to_file(void *argument, const char *bytes, size_t length);

/* ---- statistics of this process ----
 *
 * Nothing is allocated. docs/stats.schema.json describes the JSON. Times are since activation.
 */

/* For output_add(). */
#define llu(value) ((unsigned long long)(value))

void table_write(struct output *output, uint64_t elapsed_ns);
void table_write_line(struct output *output);

/* `ended`: this is the last one, at exit. */
void json_write(struct output *output, bool ended, uint64_t elapsed_ns);

/* ---- shared by the forms (usage.c) ---- */

/* Return true if a request was served or a key looked up, unless every adapter is software. */
bool usage_is_used(void);

/* Write "used: ...", "no request hit: ..." or "not used: REASON". */
void usage_write(char *to, size_t size);

/* Write " (98.9 %)", or nothing without a request. */
void usage_hit_rate(char *to, size_t size);

/* Format bytes in the largest unit that gives a number above 1: "41.2 GiB". */
void usage_bytes(uint64_t bytes, char *to, size_t size);

/* Format nanoseconds in the largest unit that gives a number above 1: "3.1 ms". */
void usage_time(uint64_t nanoseconds, char *to, size_t size);

#endif
