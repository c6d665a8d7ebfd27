/* SPDX-License-Identifier: BSD-3-Clause */
/* output.h -- text on its way out, without allocation and without a stream
 *
 * What is added is kept until the room is used up, then handed on. Once that has failed nothing more is.
 */
#ifndef PEERPIN_BASE_OUTPUT_H
#define PEERPIN_BASE_OUTPUT_H

#include <stddef.h>

#define OUTPUT_ROOM 8192

struct output {
	/* Takes all of it: 0 or -errno. */
	int (*take)(void *argument, const char *bytes, size_t length);
	void *argument;
	int error; /* the first one */
	size_t used;
	char bytes[OUTPUT_ROOM];
};

/* At most 1024 characters at once; what is longer is cut off. */
void output_add(struct output *output, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Bytes of the UTF-8 character that begins here; 0: none does. */
unsigned int output_character(const char *text);

/* Between quotes, as a JSON string. */
void output_add_string(struct output *output, const char *text);

/* Hands on what is left. Returns the first error, or 0. */
int output_end(struct output *output);

/* For `take`, with `argument` a file descriptor: write(2), as often as it needs, and without the signals of who
 * cannot: the program would end by them, and not with its own status. */
int output_to_file(void *argument, const char *bytes, size_t length);

#endif
