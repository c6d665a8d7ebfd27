/* SPDX-License-Identifier: BSD-3-Clause */
/* config_reader.c -- values of each kind, sources of each form, and a hint for what is misspelt */
#include "base/config_reader.h"

#include <errno.h>
#include <fcntl.h>

#include "base/identity.h"
#include "base/kernel.h"
#include "base/system.h"
#include "base/text.h"

/* What is understood by the scripts, the doctor and the simulated driver rather than here, and so
 * is not unknown. */
#define OTHERS_PREFIX "PEERPIN_SIM_"
#define DOCTORS_ROOT  "PEERPIN_SYSROOT="
/* Nor is what the command calls a job for ranks whose launcher has no name for it. */
#define JOB_VARIABLE "PEERPIN_JOB="

static const char config_variable[] =
#define CONFIG_FILE(variable, allowed, meaning) variable;
#include "base/config.def"

	const struct config_row config_table[CONFIG_ROWS] = {
#define CONFIG(field, variable, kind, initial, allowed, meaning)                                   \
	{ variable, kind, offsetof(struct config, field), allowed },
#include "base/config.def"
	};

const struct config config_defaults = {
#define CONFIG(field, variable, kind, initial, allowed, meaning) .field = initial,
#include "base/config.def"
};

const char *config_word(enum config_kind kind, unsigned int value)
{
	switch (kind) {
#define CONFIG_WORDS(kind, ...)                                                                    \
	case kind: {                                                                               \
		static const char words[][12] = { __VA_ARGS__ };                                   \
		return value < sizeof(words) / sizeof(words[0]) ? words[value] : NULL;             \
	}
#include "base/config.def"
	default:
		return NULL;
	}
}

static bool is_any_of(const char *value, const char words[][8], size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (text_equals_in_any_case(value, words[i]))
			return true;
	}
	return false;
}

static int parse_bool(const char *value)
{
	static const char yes[][8] = { "1", "y", "yes", "on", "true" };
	static const char no[][8] = { "0", "n", "no", "off", "false" };

	if (is_any_of(value, yes, sizeof(yes) / sizeof(yes[0])))
		return 1;
	return is_any_of(value, no, sizeof(no) / sizeof(no[0])) ? 0 : -1;
}

/* K, KB and KiB are 1024 bytes, and so on; a fraction has up to 9 digits. */
static bool parse_size(const char *value, uint64_t *size)
{
	static const char suffixes[] = "kmgt";
	uint64_t whole, fraction = 0, unit = 1;
	const char *suffix;
	int shift = 0;

	if (text_equals_in_any_case(value, "inf")) {
		*size = CONFIG_SIZE_MOST;
		return true;
	}
	if (!text_is_digit(*value))
		return false;
	whole = text_number(&value);
	if (*value == '.' && text_is_digit(value[1])) {
		for (value++; text_is_digit(*value) && unit < 1000000000; value++, unit *= 10)
			fraction = fraction * 10 + (uint64_t)(*value - '0');
	}
	suffix = *value ? text_find(suffixes, text_lower(*value)) : NULL;
	if (suffix) {
		shift = 10 * (int)(suffix - suffixes + 1);
		value++;
		if (text_lower(*value) == 'i' && text_lower(value[1]) == 'b')
			value++;
	}
	if (text_lower(*value) == 'b')
		value++;
	if (*value || (fraction && !shift) || whole > CONFIG_SIZE_MOST >> shift)
		return false;
	/* Below 2^30 * 2^20, then the rest: no product overflows. */
	*size = (whole << shift) +
		(((fraction << (shift > 20 ? 20 : shift)) / unit) << (shift > 20 ? shift - 20 : 0));
	return *size <= CONFIG_SIZE_MOST;
}

/* Enumerations have the order of their words. */
static bool parse_word(void *field, const char *value, enum config_kind kind)
{
	const char *word;
	int number = 0;

	while ((word = config_word(kind, (unsigned int)number)) &&
	       !text_equals_in_any_case(value, word))
		number++;
	/* It was 0 or 1 before it had words. */
	if (!word)
		number = kind == SUMMARY ? parse_bool(value) : -1;
	if (number >= 0)
		*(unsigned int *)field = (unsigned int)number;
	return number >= 0;
}

static bool parse(struct config *config, const struct config_row *row, const char *value)
{
	void *field = (char *)config + row->offset;
	int number;

	switch (row->kind) {
	case BOOL:
		number = parse_bool(value);
		if (number < 0)
			return false;
		*(bool *)field = number;
		return true;
	case SIZE:
		return parse_size(value, field);
	case LIMIT:
		if (!text_equals_in_any_case(value, "auto"))
			return parse_size(value, field);
		*(uint64_t *)field = CONFIG_AUTO;
		return true;
	case TEXT:
	case FILE_NAME:
		*(const char **)field = *value ? value : NULL;
		return true;
	default:
		return parse_word(field, value, row->kind);
	}
}

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

const char *config_renamed(const char *name, size_t length)
{
	static const char names[][2][28] = {
		{ "PEERPIN_EAGER", "PEERPIN_PREREGISTER" },
		{ "PEERPIN_SMALL", "PEERPIN_GRANULARITY" },
		{ "PEERPIN_RIGHTS", "PEERPIN_ACCESS_MATCH" },
		{ "PEERPIN_KEYS", "PEERPIN_UNIQUE_KEYS" },
		{ "PEERPIN_BUDGET", "PEERPIN_PIN_LIMIT" },
		{ "PEERPIN_QUERIES", "PEERPIN_POINTER_QUERIES" },
		{ "PEERPIN_LOG", "PEERPIN_LOG_LEVEL" },
		{ "PEERPIN_STATS", "PEERPIN_STATS_FILE" },
		{ "PEERPIN_TRACE", "PEERPIN_TRACE_FILE" },
		{ "PEERPIN_CONFIG", "PEERPIN_CONFIG_FILE" },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (text_length(names[i][0]) == length && text_begins(name, names[i][0]))
			return names[i][1];
	}
	return NULL;
}

const char *config_nearest(const char *name, size_t length)
{
	const char *renamed = config_renamed(name, length);
	unsigned int best = config_distance(name, length, config_variable);
	const char *answer = config_variable;

	if (renamed)
		return renamed;
	for (size_t i = 0; i < CONFIG_ROWS; i++) {
		unsigned int apart = config_distance(name, length, config_table[i].variable);

		if (apart < best) {
			best = apart;
			answer = config_table[i].variable;
		}
	}
	return best < 4 ? answer : NULL;
}

/* Where the complaint is about, before it. */
static void complain(struct config_reader *reader, const char *what)
{
	char line[512];

	reader->complaints++;
	if (!reader->complain)
		return;
	switch (reader->place.origin) {
	case CONFIG_FROM_FILE:
		if (reader->place.line)
			system_format(line, sizeof(line), "%s:%u: %s", reader->place.file,
				      reader->place.line, what);
		else
			system_format(line, sizeof(line), "%s: %s", reader->place.file, what);
		break;
	case CONFIG_FROM_OPTION:
		system_format(line, sizeof(line), "option: %s", what);
		break;
	default:
		system_format(line, sizeof(line), "environment: %s", what);
	}
	reader->complain(line);
}

static void complain_unknown(struct config_reader *reader, const char *name, size_t length)
{
	const char *hint = config_nearest(name, length);
	char what[256];

	if (length > 80)
		length = 80;
	if (hint)
		system_format(what, sizeof(what), "%.*s is unknown: did you mean %s?", (int)length,
			      name, hint);
	else
		system_format(what, sizeof(what), "%.*s is unknown: it is ignored", (int)length,
			      name);
	complain(reader, what);
}

/* It is used all the same: whoever meant it so has the file. */
static void doubt(struct config_reader *reader, const struct config_row *row, const char *value)
{
	const char *unknown = row->kind == FILE_NAME ? identity_unknown_conversion(value) : NULL;
	char what[384];

	if (!unknown)
		return;
	system_format(what, sizeof(what), "%s=%.80s: %.2s stands for itself (allowed: %s)",
		      row->variable, value, unknown, row->allowed);
	complain(reader, what);
}

static bool names(const char *name, size_t length, const char *variable)
{
	return text_length(variable) == length && text_begins(name, variable);
}

bool config_put(struct config_reader *reader, const char *name, size_t length, const char *value)
{
	char what[384];

	for (size_t i = 0; i < CONFIG_ROWS; i++) {
		const struct config_row *row = &config_table[i];

		if (!names(name, length, row->variable))
			continue;
		if (!parse(reader->config, row, value)) {
			/* Formatting enters libc, which the dlsym path must not. */
			what[0] = '\0';
			if (reader->complain)
				system_format(what, sizeof(what),
					      "%s=%.80s is not allowed (%s): it is ignored",
					      row->variable, value, row->allowed);
			complain(reader, what);
			return false;
		}
		if (reader->complain)
			doubt(reader, row, value);
		if (reader->places)
			reader->places[i] = reader->place;
		return true;
	}
	if (names(name, length, config_variable)) {
		if (reader->place.origin != CONFIG_FROM_FILE)
			return true;
		complain(reader, "PEERPIN_CONFIG_FILE in a file leads nowhere: it is ignored");
		return false;
	}
	if (reader->complain)
		complain_unknown(reader, name, length);
	else
		reader->complaints++;
	return false;
}

void config_read_environment(struct config_reader *reader, char *const *environment)
{
	reader->place = (struct config_place){ .origin = CONFIG_FROM_ENVIRONMENT };
	for (; environment && *environment; environment++) {
		const char *entry = *environment, *equals;

		if (!text_begins(entry, "PEERPIN_") || text_begins(entry, OTHERS_PREFIX) ||
		    text_begins(entry, DOCTORS_ROOT) || text_begins(entry, JOB_VARIABLE))
			continue;
		equals = text_find(entry, '=');
		if (equals)
			config_put(reader, entry, (size_t)(equals - entry), equals + 1);
	}
}

static bool is_blank(char character)
{
	return character == ' ' || character == '\t' || character == '\r';
}

/* One line, ended by a zero byte. */
static void read_line(struct config_reader *reader, char *line)
{
	char *name, *name_end, *value, *end;

	while (is_blank(*line))
		line++;
	if (!*line || *line == '#')
		return;
	name = line;
	while (*line && *line != '=' && !is_blank(*line))
		line++;
	name_end = line;
	while (is_blank(*line))
		line++;
	if (*line != '=') {
		complain(reader, "no setting: a line is NAME = VALUE, or a # and a comment");
		return;
	}
	value = line + 1;
	while (is_blank(*value))
		value++;
	end = value + text_length(value);
	while (end > value && is_blank(end[-1]))
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
		read_line(reader, line);
	}
}

/* What does not begin a read may not block it either: a pipe without a writer would hold the
 * program up. */
static int fill(const char *name, char *text, size_t *used)
{
	int fd = kernel_open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0), error = 0;
	ssize_t got = 1;

	*used = 0;
	if (fd < 0)
		return errno;
	while (got && !error && *used <= CONFIG_FILE_MOST) {
		got = kernel_read(fd, text + *used, CONFIG_FILE_MOST + 1 - *used);
		if (got > 0)
			*used += (size_t)got;
		else if (got < 0 && errno != EINTR)
			error = errno;
	}
	kernel_close(fd);
	return error;
}

int config_read_file(struct config_reader *reader, const char *name, char *text)
{
	int saved_errno = errno, error;
	char what[80];
	size_t used;

	error = fill(name, text, &used);
	errno = saved_errno;
	if (error)
		return error;
	if (used > CONFIG_FILE_MOST) {
		reader->place = (struct config_place){ .origin = CONFIG_FROM_FILE, .file = name };
		system_format(what, sizeof(what), "longer than %d bytes: what follows is ignored",
			      CONFIG_FILE_MOST);
		complain(reader, what);
		used = CONFIG_FILE_MOST;
		/* Not half a line. */
		while (used && text[used - 1] != '\n')
			used--;
	}
	text[used] = '\0';
	config_read_text(reader, name, text);
	return 0;
}
