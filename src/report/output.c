/* SPDX-License-Identifier: BSD-3-Clause */
/* output.c -- buffered text output and JSON strings */
#include "report/output.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include "base/plain_text.h"
#include "base/signal_safe_write.h"

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
	length = vsnprintf(output->bytes + output->used, ONCE_MAX, format, arguments);
	va_end(arguments);
	if (length > 0)
		output->used += length < ONCE_MAX ? (size_t)length : ONCE_MAX - 1;
}

void output_add_string(struct output *output, const char *text)
{
	unsigned int length;

	output_add(output, "\"");
	for (; *text; text += length ? length : 1) {
		length = plain_text_character(text);
		if (*text == '"' || *text == '\\')
			output_add(output, "\\%c", *text);
		else if (!length)
			output_add(output, "\\ufffd");
		else if (!plain_text_printable(text))
			output_add(output, "\\u%04x", plain_text_code(text, length));
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
