/* SPDX-License-Identifier: BSD-3-Clause */
/* config.c -- PEERPIN_ variables to settings, with a hint for those that are misspelt */
#include "base/config.h"

#include <stddef.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/log.h"
#include "base/system.h"
#include "base/text.h"

enum config_kind { BOOL, SIZE, TEXT, EAGER, SMALL, RIGHTS, LEVEL, SUMMARY };

/* What is understood by the scripts and the simulated driver rather than here, and so is not unknown. */
#define OTHERS_PREFIX "PEERPIN_SIM_"

struct config_row {
	const char *variable;
	enum config_kind kind;
	size_t offset;
	const char *allowed;
};

static const struct config_row rows[] = {
#define CONFIG(field, variable, kind, initial, allowed, meaning)                                             \
	{ variable, kind, offsetof(struct config, field), allowed },
#include "base/config.def"
#undef CONFIG
};

static const struct config defaults = {
#define CONFIG(field, variable, kind, initial, allowed, meaning) .field = initial,
#include "base/config.def"
#undef CONFIG
};

static const char *const eager_words[] = { "async", "sync", "off", "all", NULL };
static const char *const small_words[] = { "granule", "block", NULL };
static const char *const rights_words[] = { "exact", "superset", NULL };
static const char *const summary_words[] = { "none", "auto", "table", "line", NULL };
static const char *const level_words[] = { "none", "error", "warn", "info", "debug", "trace", NULL };

static int word_index(const char *value, const char *const *words)
{
	for (int i = 0; words[i]; i++) {
		if (text_equals_in_any_case(value, words[i]))
			return i;
	}
	return -1;
}

static int parse_bool(const char *value)
{
	static const char *const yes[] = { "1", "y", "yes", "on", "true", NULL };
	static const char *const no[] = { "0", "n", "no", "off", "false", NULL };

	if (word_index(value, yes) >= 0)
		return 1;
	return word_index(value, no) >= 0 ? 0 : -1;
}

static bool parse_size(const char *value, uint64_t *size)
{
	static const char suffixes[] = "kmgt";
	uint64_t number = 0;
	const char *suffix;
	int shift = 0;

	if (!text_is_digit(*value))
		return false;
	for (; text_is_digit(*value); value++) {
		if (__builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, (uint64_t)(*value - '0'), &number))
			return false;
	}
	if (*value) {
		suffix = text_find(suffixes, text_lower(*value));
		if (!suffix || value[1])
			return false;
		shift = 10 * (int)(suffix - suffixes + 1);
	}
	if (shift && number >> (64 - shift))
		return false;
	*size = number << shift;
	return true;
}

/* Enumerations have the order of their words. */
static bool set_word(void *field, const char *value, const char *const *words)
{
	int number = word_index(value, words);

	if (number >= 0)
		*(unsigned int *)field = (unsigned int)number;
	return number >= 0;
}

static bool set(struct config *config, const struct config_row *row, const char *value)
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
	case EAGER:
		return set_word(field, value, eager_words);
	case SMALL:
		return set_word(field, value, small_words);
	case RIGHTS:
		return set_word(field, value, rights_words);
	case SUMMARY:
		/* As long as it was a switch. */
		number = parse_bool(value);
		if (number >= 0)
			*(enum summary_mode *)field = number ? SUMMARY_AUTO : SUMMARY_NONE;
		return number >= 0 || set_word(field, value, summary_words);
	case LEVEL:
		return set_word(field, value, level_words);
	case SIZE:
		return parse_size(value, field);
	case TEXT:
		*(const char **)field = *value ? value : NULL;
		return true;
	}
	return false;
}

/* Edit distance, for "did you mean"; names longer than the row are too far off to matter. */
static unsigned int distance(const char *a, size_t a_length, const char *b)
{
	unsigned int row[64], previous, above;
	size_t b_length = text_length(b);

	if (a_length >= 64 || b_length >= 64)
		return 64;
	for (size_t j = 0; j <= b_length; j++)
		row[j] = (unsigned int)j;
	for (size_t i = 1; i <= a_length; i++) {
		previous = row[0];
		row[0] = (unsigned int)i;
		for (size_t j = 1; j <= b_length; j++) {
			above = row[j];
			row[j] = previous + (a[i - 1] != b[j - 1]);
			if (above + 1 < row[j])
				row[j] = above + 1;
			if (row[j - 1] + 1 < row[j])
				row[j] = row[j - 1] + 1;
			previous = above;
		}
	}
	return row[b_length];
}

static const char *nearest(const char *name, size_t length)
{
	unsigned int best = 4;
	const char *answer = NULL;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		unsigned int apart = distance(name, length, rows[i].variable);

		if (apart < best) {
			best = apart;
			answer = rows[i].variable;
		}
	}
	return answer;
}

static unsigned int complain_unknown(const char *name, size_t length, void (*complain)(const char *line))
{
	char line[256];
	const char *hint = nearest(name, length);

	if (complain) {
		if (hint)
			system_format(line, sizeof(line), "unknown variable %.*s: did you mean %s?",
				      (int)length, name, hint);
		else
			system_format(line, sizeof(line), "unknown variable %.*s is ignored", (int)length,
				      name);
		complain(line);
	}
	return 1;
}

static unsigned int read_variable(struct config *config, const char *entry,
				  void (*complain)(const char *line))
{
	const char *equals = text_find(entry, '=');
	size_t length;
	char line[256];

	if (!equals || !text_begins(entry, "PEERPIN_") || text_begins(entry, OTHERS_PREFIX))
		return 0;
	length = (size_t)(equals - entry);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (text_length(rows[i].variable) != length || !text_begins(entry, rows[i].variable))
			continue;
		if (set(config, &rows[i], equals + 1))
			return 0;
		system_format(line, sizeof(line), "%s=%.80s is not allowed (%s): the default is used",
			      rows[i].variable, equals + 1, rows[i].allowed);
		if (complain)
			complain(line);
		return 1;
	}
	return complain_unknown(entry, length, complain);
}

unsigned int config_parse(struct config *config, char *const *environment, void (*complain)(const char *line))
{
	unsigned int complaints = 0;

	*config = defaults;
	for (; environment && *environment; environment++)
		complaints += read_variable(config, *environment, complain);
	return complaints;
}

static struct config current;
static int reading; /* 0 not yet, 1 somebody is, 2 done */

static char *const *trusted_environment(void)
{
	return getauxval(AT_SECURE) ? NULL : environ;
}

const struct config *config_get(void)
{
	int state = 0;

	if (__builtin_expect(__atomic_load_n(&reading, __ATOMIC_ACQUIRE) == 2, 1))
		return &current;
	if (__atomic_compare_exchange_n(&reading, &state, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		config_parse(&current, trusted_environment(), NULL);
		__atomic_store_n(&reading, 2, __ATOMIC_RELEASE);
		return &current;
	}
	/* Another thread is at it; it calls nothing that could wait for us. */
	while (__atomic_load_n(&reading, __ATOMIC_ACQUIRE) != 2)
		;
	return &current;
}

static void complain_to_log(const char *line)
{
	log_write(LOG_WARN, "%s", line);
}

void config_report(void)
{
	struct config ignored;

	config_parse(&ignored, trusted_environment(), complain_to_log);
}
