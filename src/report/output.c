/* SPDX-License-Identifier: BSD-3-Clause */
/* output.c -- buffered text output, UTF-8 and JSON strings */
#include "report/output.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/signal_safe_write.h"
#include "base/system.h"

#define ONCE_MAX 1024

static void output_flush(struct output *output)
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
		output_flush(output);
	va_start(arguments, format);
	length = system_format_list(output->bytes + output->used, ONCE_MAX, format, arguments);
	va_end(arguments);
	if (length > 0)
		output->used += length < ONCE_MAX ? (size_t)length : ONCE_MAX - 1;
}

/* Reject overlong forms, UTF-16 surrogates and code points above U+10FFFF: readers refuse the whole
 * file for one of them. */
static bool output_may_follow(unsigned char first, unsigned char second)
{
	unsigned char least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
	unsigned char most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;

	return second >= least && second <= most;
}

unsigned int output_character(const char *text)
{
	unsigned char first = (unsigned char)*text;
	unsigned int length = first < 0x80		      ? 1
			      : first >= 0xf0 && first < 0xf5 ? 4
			      : first >= 0xe0 && first < 0xf0 ? 3
			      : first >= 0xc2 && first < 0xe0 ? 2
							      : 0;

	if (length > 1 && !output_may_follow(first, (unsigned char)text[1]))
		return 0;
	for (unsigned int i = 2; i < length; i++) {
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
		length = output_character(text);
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
	output_flush(output);
	return output->error;
}

int output_to_file(void *argument, const char *bytes, size_t length)
{
	return signal_safe_write((int)(intptr_t)argument, bytes, length);
}
