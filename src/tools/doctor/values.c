/* SPDX-License-Identifier: BSD-3-Clause */
/* values.c -- named values: the tables, and the parsers of readings */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/doctor/rules.h"
#include "tools/units.h"

/* ---- parsers ---- */

typedef const char *parser(const struct reading *reading, const char *argument);

static const char *parse_text(const struct reading *reading, const char *argument)
{
	(void)argument;
	return reading_text(reading);
}

/* The number of a line "NAME: 3", or "NAME 3". */
static const char *parse_line(const struct reading *reading, const char *argument)
{
	const char *at = reading->error ? NULL : strstr(reading->text, argument), *end;

	if (!at)
		return NULL;
	at += strlen(argument);
	at += strspn(at, ": ");
	end = at + strspn(at, "-0123456789");
	return end > at ? text_of("%.*s", (int)(end - at), at) : NULL;
}

/* The last component of a path. */
static const char *parse_base(const struct reading *reading, const char *argument)
{
	const char *slash = reading->error ? NULL : strrchr(reading->text, '/');

	(void)argument;
	return slash ? slash + 1 : NULL;
}

/* The text before a separator; without one, the whole. */
static const char *parse_before(const struct reading *reading, const char *argument)
{
	const char *end = reading->error ? NULL : strstr(reading->text, argument);

	return end ? text_of("%.*s", (int)(end - reading->text), reading->text)
		   : reading_text(reading);
}

/* The text behind a separator; without one, the whole. */
static const char *parse_behind(const struct reading *reading, const char *argument)
{
	const char *at = reading->error ? NULL : strstr(reading->text, argument);

	return at ? at + strlen(argument) : reading_text(reading);
}

/* The first line that starts so, and is not empty. */
static const char *parse_starting(const struct reading *reading, const char *argument)
{
	const char *at = reading_text(reading);
	char line[128];

	while (host_line(&at, line, sizeof(line))) {
		if (*line && !strncmp(line, argument, strlen(argument)))
			return text_of("%s", line);
	}
	return NULL;
}

/* The word with this number, from 0; the first is "ok". */
static const char *parse_field(const struct reading *reading, const char *argument)
{
	const char *at = reading->error || strncmp(reading->text, "ok ", 3) ? "" : reading->text;

	for (int i = atoi(argument); i; i--) {
		at += strcspn(at, " ");
		at += strspn(at, " ");
	}
	return *at ? text_of("%.*s", (int)strcspn(at, " "), at) : NULL;
}

static const char *parse_version(const struct reading *reading, const char *argument)
{
	const char *at =
		reading->error ? NULL : reading->text + strcspn(reading->text, "0123456789");

	(void)argument;
	return at ? text_of("%.*s", (int)strspn(at, "0123456789."), at) : NULL;
}

static const char *parse_lower(const struct reading *reading, const char *argument)
{
	char *copy = reading->error ? NULL : text_of("%s", reading->text);

	(void)argument;
	for (char *at = copy; at && *at; at++)
		*at = (char)tolower((unsigned char)*at);
	return copy;
}

/* The end of a probe process, if it is not normal. */
static const char *parse_lost(const struct reading *reading, const char *argument)
{
	(void)argument;
	return reading->error || !strcmp(reading->text, "ok") ? NULL : end_words(reading->text);
}

/* A device attribute: a driver older than the attribute lacks the feature. */
static const char *parse_attribute(const struct reading *reading, const char *argument)
{
	(void)argument;
	if (reading->error)
		return strstr(reading->text, "INVALID_VALUE") ? "0" : NULL;
	return text_of("%d", atoi(reading->text));
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
		text = readings[i].parse(reading, readings[i].argument);
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
