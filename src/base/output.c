/* SPDX-License-Identifier: BSD-3-Clause */
/* output.c -- text on its way out */
#include "base/output.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include "base/quiet.h"

#define ONCE_MAX 1024

static void hand_on(struct output *output)
{
	if (!output->error && output->used)
		output->error = output->take(output->argument, output->bytes, output->used);
	output->used = 0;
}

void output_add(struct output *output, const char *format, ...)
{
	va_list arguments;
	int length;

	if (OUTPUT_ROOM - output->used < ONCE_MAX)
		hand_on(output);
	va_start(arguments, format);
	length = vsnprintf(output->bytes + output->used, ONCE_MAX, format, arguments);
	va_end(arguments);
	if (length > 0)
		output->used += length < ONCE_MAX ? (size_t)length : ONCE_MAX - 1;
}

/* Bytes of the well-formed UTF-8 sequence that begins here; 0: none does. Overlong forms are of no harm to a reader. */
static unsigned int sequence(const char *text)
{
	unsigned char first = (unsigned char)*text;
	unsigned int length = first < 0x80		      ? 1
			      : first >= 0xf0 && first < 0xf5 ? 4
			      : first >= 0xe0 && first < 0xf0 ? 3
			      : first >= 0xc2 && first < 0xe0 ? 2
							      : 0;

	for (unsigned int i = 1; i < length; i++) {
		if (((unsigned char)text[i] & 0xc0) != 0x80)
			return 0;
	}
	return length;
}

void output_add_string(struct output *output, const char *text)
{
	unsigned int length;

	output_add(output, "\"");
	for (; *text; text += length ? length : 1) {
		length = sequence(text);
		if (*text == '"' || *text == '\\')
			output_add(output, "\\%c", *text);
		else if (!length)
			output_add(output, "\\ufffd");
		else if ((unsigned char)*text < 0x20)
			output_add(output, "\\u%04x", (unsigned char)*text);
		else
			output_add(output, "%.*s", (int)length, text);
	}
	output_add(output, "\"");
}

int output_end(struct output *output)
{
	hand_on(output);
	return output->error;
}

int output_to_file(void *argument, const char *bytes, size_t length)
{
	int fd = (int)(intptr_t)argument;
	ssize_t now;

	for (size_t done = 0; done < length; done += (size_t)now) {
		now = quiet_write_some(fd, bytes + done, length - done);
		if (now <= 0)
			return now ? (int)now : -EIO;
	}
	return 0;
}
