/* SPDX-License-Identifier: BSD-3-Clause */
/* config_reader.c -- reads settings from each source; hints for misspelt names */
#include "base/config_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/identity.h"
#include "base/kernel.h"
#include "base/start.h"
#include "base/text.h"

/* Variables of the simulated driver, of the doctor, and of identity.c. */
#define SIM_PREFIX   "PEERPIN_SIM_"
#define DOCTOR_ROOT  "PEERPIN_SYSROOT="
#define JOB_VARIABLE "PEERPIN_JOB="

static const char config_variable[] =
#define CONFIG_FILE(variable, allowed, meaning) variable;
#include "base/config.def"

	const struct config_row config_table[CONFIG_ROWS] = {
#define CONFIG(field, variable, kind, initial, allowed, meaning)                                   \
	{ variable, kind, offsetof(struct config, field), allowed },
#include "base/config.def"
	};

static const struct config_gone config_gone[] = {
#define GONE(variable, instead) { variable, instead },
#include "base/config.def"
};

const struct config config_defaults = {
#define CONFIG(field, variable, kind, initial, allowed, meaning) .field = initial,
#include "base/config.def"
};

unsigned int config_distance(const char *one, size_t length, const char *other)
{
	unsigned int row[64], previous, above;
	size_t other_length = text_length(other);

	if (length >= 64 || other_length >= 64)
		return 64;
	for (size_t j = 0; j <= other_length; j++)
		row[j] = (unsigned int)j;
	for (size_t i = 1; i <= length; i++) {
		previous = row[0];
		row[0] = (unsigned int)i;
		for (size_t j = 1; j <= other_length; j++) {
			above = row[j];
			row[j] = previous + (one[i - 1] != other[j - 1]);
			if (above + 1 < row[j])
				row[j] = above + 1;
			if (row[j - 1] + 1 < row[j])
				row[j] = row[j - 1] + 1;
			previous = above;
		}
	}
	return row[other_length];
}

static bool config_reader_is_name(const char *name, size_t length, const char *variable)
{
	return text_length(variable) == length && text_begins(name, variable);
}

const char *config_nearest(const char *name, size_t length)
{
	unsigned int best = config_distance(name, length, config_variable);
	const char *answer = config_variable;

	for (size_t i = 0; i < CONFIG_ROWS; i++) {
		unsigned int apart = config_distance(name, length, config_table[i].variable);

		if (apart < best) {
			best = apart;
			answer = config_table[i].variable;
		}
	}
	return best < 4 ? answer : NULL;
}

/* Prefix the message with its source. Without a receiver do not format: the dlsym path must not
 * enter libc. */
static __attribute__((format(printf, 2, 3))) void config_reader_report(struct config_reader *reader,
								       const char *format, ...)
{
	const struct config_place *place = &reader->place;
	char line[512], what[384];
	va_list arguments;

	reader->complaints++;
	if (!reader->complain)
		return;
	va_start(arguments, format);
	vsnprintf(what, sizeof(what), format, arguments);
	va_end(arguments);
	if (place->line)
		snprintf(line, sizeof(line), "%s:%u: %s", place->file, place->line, what);
	else
		snprintf(line, sizeof(line), "%s: %s",
			 place->origin == CONFIG_FROM_FILE     ? place->file
			 : place->origin == CONFIG_FROM_OPTION ? "option"
							       : "environment",
			 what);
	reader->complain(line);
}

/* Report an unknown conversion; the value is used. */
static void config_reader_report_doubt(struct config_reader *reader, const struct config_row *row,
				       const char *value)
{
	const char *unknown = row->kind == FILE_NAME ? identity_unknown_conversion(value) : NULL;

	if (unknown)
		config_reader_report(reader, "%s=%.80s: %.2s stands for itself (allowed: %s)",
				     row->variable, value, unknown, row->allowed);
}

/* Report a name that is no setting. */
static void config_reader_report_name(struct config_reader *reader, const char *name, size_t length)
{
	const char *hint;

	for (size_t i = 0; i < sizeof(config_gone) / sizeof(config_gone[0]); i++) {
		if (!config_reader_is_name(name, length, config_gone[i].variable))
			continue;
		config_reader_report(reader, "%s is no longer a setting, and is ignored: %s",
				     config_gone[i].variable, config_gone[i].instead);
		return;
	}
	hint = reader->complain ? config_nearest(name, length) : NULL;
	config_reader_report(reader, "%.*s is unknown: %s%s%s", length > 80 ? 80 : (int)length,
			     name, hint ? "did you mean " : "it is ignored", hint ? hint : "",
			     hint ? "?" : "");
}

bool config_put(struct config_reader *reader, const char *name, size_t length, const char *value)
{
	char mistake[32];

	for (size_t i = 0; i < CONFIG_ROWS; i++) {
		const struct config_row *row = &config_table[i];

		if (!config_reader_is_name(name, length, row->variable))
			continue;
		if (!config_parse(reader->config, row, value)) {
			config_reader_report(
				reader, "%s=%.80s%s is not allowed (%s): it is ignored",
				row->variable, value,
				config_mistake(row, value, mistake, sizeof(mistake)), row->allowed);
			return false;
		}
		config_reader_report_doubt(reader, row, value);
		if (reader->places)
			reader->places[i] = reader->place;
		return true;
	}
	if (config_reader_is_name(name, length, config_variable)) {
		if (reader->place.origin != CONFIG_FROM_FILE)
			return true;
		config_reader_report(reader,
				     "PEERPIN_CONFIG_FILE in a file leads nowhere: it is ignored");
		return false;
	}
	config_reader_report_name(reader, name, length);
	return false;
}

AT_START void config_read_environment(struct config_reader *reader, char *const *environment)
{
	reader->place = (struct config_place){ .origin = CONFIG_FROM_ENVIRONMENT };
	for (; environment && *environment; environment++) {
		const char *entry = *environment, *equals;

		if (!text_begins(entry, "PEERPIN_") || text_begins(entry, SIM_PREFIX) ||
		    text_begins(entry, DOCTOR_ROOT) || text_begins(entry, JOB_VARIABLE))
			continue;
		equals = text_find(entry, '=');
		if (equals)
			config_put(reader, entry, (size_t)(equals - entry), equals + 1);
	}
}

static bool config_reader_is_blank(char character)
{
	return character == ' ' || character == '\t' || character == '\r';
}

static char *config_reader_skip_blanks(char *text)
{
	while (config_reader_is_blank(*text))
		text++;
	return text;
}

/* `line` is terminated. */
static void config_reader_read_line(struct config_reader *reader, char *line)
{
	char *name = config_reader_skip_blanks(line), *name_end = name, *value, *end;

	if (!*name || *name == '#')
		return;
	while (*name_end && *name_end != '=' && !config_reader_is_blank(*name_end))
		name_end++;
	value = config_reader_skip_blanks(name_end);
	if (*value != '=') {
		config_reader_report(reader,
				     "no setting: a line is NAME = VALUE, or a # and a comment");
		return;
	}
	value = config_reader_skip_blanks(value + 1);
	end = value + text_length(value);
	while (end > value && config_reader_is_blank(end[-1]))
		*--end = '\0';
	config_put(reader, name, (size_t)(name_end - name), value);
}

void config_read_text(struct config_reader *reader, const char *name, char *text)
{
	reader->place = (struct config_place){ .origin = CONFIG_FROM_FILE, .file = name };
	while (*text) {
		char *line = text;

		while (*text && *text != '\n')
			text++;
		if (*text)
			*text++ = '\0';
		reader->place.line++;
		config_reader_read_line(reader, line);
	}
}

/* O_NONBLOCK: a pipe without a writer must not block the program. */
static int config_reader_fill(const char *name, char *text, size_t *used)
{
	int fd = kernel_open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
	ssize_t got = 1;

	*used = 0;
	if (fd < 0)
		return fd;
	while ((got > 0 || got == -EINTR) && *used <= CONFIG_FILE_MOST) {
		got = kernel_read(fd, text + *used, CONFIG_FILE_MOST + 1 - *used);
		if (got > 0)
			*used += (size_t)got;
	}
	kernel_close(fd);
	return got < 0 ? (int)got : 0;
}

int config_read_file(struct config_reader *reader, const char *name, char *text)
{
	size_t used;
	int error = config_reader_fill(name, text, &used);

	if (error)
		return error;
	if (used > CONFIG_FILE_MOST) {
		reader->place = (struct config_place){ .origin = CONFIG_FROM_FILE, .file = name };
		config_reader_report(reader, "longer than %d bytes: what follows is ignored",
				     CONFIG_FILE_MOST);
		used = CONFIG_FILE_MOST;
		/* Drop the line that was cut. */
		while (used && text[used - 1] != '\n')
			used--;
	}
	text[used] = '\0';
	config_read_text(reader, name, text);
	return 0;
}
