/* SPDX-License-Identifier: BSD-3-Clause */
/* output.h -- buffered text output without allocation and without streams
 *
 * Text is buffered up to OUTPUT_ROOM bytes, then passed to `take`. After an error of `take` nothing
 * more is passed.
 */
#ifndef PEERPIN_REPORT_OUTPUT_H
#define PEERPIN_REPORT_OUTPUT_H

#include <stddef.h>

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

#endif
