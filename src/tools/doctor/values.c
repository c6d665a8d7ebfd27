/* SPDX-License-Identifier: BSD-3-Clause */
/* values.c -- named values: the tables, and the parsers of readings */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/doctor/rules.h"
#include "tools/units.h"

/* ---- parsers ---- */

/* From the text of a reading without an error. */
typedef const char *parser(const char *text, const char *argument);

#define PARSER(name)                                                                               \
	static const char *parse_##name(const char *text,                                          \
					__attribute__((unused)) const char *argument)

PARSER(text)
{
	return text;
}

/* The number of a line "NAME: 3", or "NAME 3". */
PARSER(line)
{
	const char *at = strstr(text, argument), *end;

	if (!at)
		return NULL;
	at += strlen(argument);
	at += strspn(at, ": ");
	end = at + strspn(at, "-0123456789");
	return end > at ? text_of("%.*s", (int)(end - at), at) : NULL;
}

/* The last component of a path. */
PARSER(base)
{
	const char *slash = strrchr(text, '/');

	return slash ? slash + 1 : NULL;
}

/* The text before a separator; without one, the whole. */
PARSER(before)
{
	const char *end = strstr(text, argument);

	return end ? text_of("%.*s", (int)(end - text), text) : text;
}

/* The text behind a separator; without one, the whole. */
PARSER(behind)
{
	const char *at = strstr(text, argument);

	return at ? at + strlen(argument) : text;
}

/* The first line that starts so, and is not empty. */
PARSER(starting)
{
	char line[128];

	while (host_line(&text, line, sizeof(line))) {
		if (*line && !strncmp(line, argument, strlen(argument)))
			return text_of("%s", line);
	}
	return NULL;
}

/* The word with this number, from 0; the first is "ok". */
PARSER(field)
{
	const char *at = strncmp(text, "ok ", 3) ? "" : text;

	for (int i = atoi(argument); i; i--) {
		at += strcspn(at, " ");
		at += strspn(at, " ");
	}
	return *at ? text_of("%.*s", (int)strcspn(at, " "), at) : NULL;
}

PARSER(version)
{
	text += strcspn(text, "0123456789");
	return text_of("%.*s", (int)strspn(text, "0123456789."), text);
}

PARSER(lower)
{
	char *copy = text_of("%s", text);

	for (char *at = copy; *at; at++)
		*at = (char)tolower((unsigned char)*at);
	return copy;
}

/* The end of a probe process, if it is not normal. */
PARSER(lost)
{
	return strcmp(text, "ok") ? end_words(text) : NULL;
}

/* A device attribute. */
PARSER(attribute)
{
	return text_of("%d", atoi(text));
}

/* ---- tables ---- */

static const struct {
	const char *name, *reading;
	parser *parse;
	const char *argument;
} readings[] = {
#define READING(name, reading, parser, argument) { #name, reading, parse_##parser, argument },
#include "tools/doctor/readings.def"
#undef READING
};
#define READINGS (sizeof(readings) / sizeof(readings[0]))

static const struct {
	const char *name, *condition, *text;
} words[] = {
#define WORDS(name, condition, text) { #name, condition, text },
#include "tools/doctor/words.def"
#undef WORDS
};
#define WORDS_COUNT (sizeof(words) / sizeof(words[0]))

/* ---- values ---- */

__attribute__((noreturn)) static void values_unknown(const char *name)
{
	fprintf(stderr, "peerpin doctor: no value is named %s\n", name);
	abort();
}

static size_t values_find(const char *name)
{
	size_t i = 0;

	while (i < READINGS && strcmp(readings[i].name, name))
		i++;
	return i;
}

const struct reading *value_reading(const struct subject *subject, const char *name)
{
	size_t i = values_find(name);

	return i == READINGS
		       ? NULL
		       : host_read(subject->host, "%s", rules_expand(subject, readings[i].reading));
}

const char *value_of(const struct subject *subject, const char *name)
{
	const struct reading *reading = value_reading(subject, name);
	size_t i = values_find(name);
	const char *text;
	bool known = false;

	if (reading) {
		text = reading->error ? NULL
				      : readings[i].parse(reading->text, readings[i].argument);
		/* A driver older than the attribute lacks the feature. */
		if (reading->error && readings[i].parse == parse_attribute &&
		    strstr(reading->text, "INVALID_VALUE"))
			text = "0";
		if (!text)
			host_noting(subject->host, reading);
		return text;
	}
	for (const struct fact *fact = facts; fact->name; fact++) {
		if (!strcmp(fact->name, name))
			return fact->compute(subject);
	}
	for (i = 0; i < WORDS_COUNT; i++) {
		if (strcmp(words[i].name, name))
			continue;
		known = true;
		if (rules_match(subject, words[i].condition))
			return rules_expand(subject, words[i].text);
	}
	if (!known)
		values_unknown(name);
	return NULL;
}

const char *host_value(struct host *host, const char *name)
{
	const struct subject subject = { .host = host };

	return value_of(&subject, name);
}

bool value_number(const struct subject *subject, const char *name, int64_t *number)
{
	const char *text = value_of(subject, name);

	return text && reading_number(&(struct reading){ .text = text }, number);
}
