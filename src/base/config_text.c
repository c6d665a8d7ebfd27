/* SPDX-License-Identifier: BSD-3-Clause */
/* config_text.c -- converts values of settings from and to text */
#include "base/config_reader.h"

#include <stdio.h>

#include "base/text.h"

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

/* Return 0 or 1; -1: no boolean. */
static int config_text_parse_bool(const char *value)
{
	static const char words[][2][8] = {
		{ "0", "1" }, { "n", "y" }, { "no", "yes" }, { "off", "on" }, { "false", "true" }
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (text_equals_in_any_case(value, words[i][0]))
			return 0;
		if (text_equals_in_any_case(value, words[i][1]))
			return 1;
	}
	return -1;
}

/* K, KB and KiB are 1024 bytes; a fraction has up to 9 digits. */
static bool config_text_parse_size(const char *value, uint64_t *size)
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
	/* Shift by at most 20 bits before the division: no product overflows. */
	*size = (whole << shift) +
		(((fraction << (shift > 20 ? 20 : shift)) / unit) << (shift > 20 ? shift - 20 : 0));
	return *size <= CONFIG_SIZE_MOST;
}

static bool config_text_parse_limit(const char *value, uint64_t *limit)
{
	if (!text_equals_in_any_case(value, "auto"))
		return config_text_parse_size(value, limit);
	*limit = CONFIG_AUTO;
	return true;
}

/* A size, or a percentage without a fraction, or "auto". */
static bool config_text_parse_share(const char *value, uint64_t *share)
{
	const char *end = value;
	uint64_t percent;

	if (text_is_digit(*value)) {
		percent = text_number(&end);
		if (*end == '%' && !end[1] && percent <= 100) {
			*share = percent ? CONFIG_SHARE | percent : 0;
			return true;
		}
	}
	return config_text_parse_limit(value, share);
}

/* Enumerations have the order of their words. PEERPIN_SUMMARY is also a boolean. */
static bool config_text_parse_word(void *field, const char *value, enum config_kind kind)
{
	const char *word;
	int number = 0;

	while ((word = config_word(kind, (unsigned int)number)) &&
	       !text_equals_in_any_case(value, word))
		number++;
	if (!word)
		number = kind == SUMMARY ? config_text_parse_bool(value) : -1;
	if (number >= 0)
		*(unsigned int *)field = (unsigned int)number;
	return number >= 0;
}

static bool config_text_parse_amount(uint64_t *amount, const char *value, enum config_kind kind)
{
	switch (kind) {
	case SIZE:
		return config_text_parse_size(value, amount);
	case LIMIT:
		return config_text_parse_limit(value, amount);
	default:
		return kind == SHARE && config_text_parse_share(value, amount);
	}
}

static bool config_text_is_mistake(uint64_t amount, enum config_kind kind)
{
	return amount && amount < (kind == SHARE ? CONFIG_KEEP_LEAST : CONFIG_SIZE_LEAST);
}

bool config_parse(struct config *config, const struct config_row *row, const char *value)
{
	void *field = (char *)config + row->offset;
	uint64_t amount;
	int number;

	switch (row->kind) {
	case BOOL:
		number = config_text_parse_bool(value);
		if (number < 0)
			return false;
		*(bool *)field = number;
		return true;
	case SIZE:
	case LIMIT:
	case SHARE:
		if (!config_text_parse_amount(&amount, value, row->kind) ||
		    config_text_is_mistake(amount, row->kind))
			return false;
		*(uint64_t *)field = amount;
		return true;
	case TEXT:
	case FILE_NAME:
		*(const char **)field = *value ? value : NULL;
		return true;
	default:
		return config_text_parse_word(field, value, row->kind);
	}
}

const char *config_mistake(const struct config_row *row, const char *value, char *to, size_t size)
{
	uint64_t amount;

	*to = '\0';
	if (config_text_parse_amount(&amount, value, row->kind) &&
	    config_text_is_mistake(amount, row->kind))
		snprintf(to, size, " (%llu byte%s)", (unsigned long long)amount,
			 amount == 1 ? "" : "s");
	return to;
}

/* Return the value as text; `room` holds the text of a number. */
static const char *config_text_value(const struct config *config, const struct config_row *row,
				     char *room, size_t size)
{
	const void *field = (const char *)config + row->offset;
	uint64_t number;
	const char *text;

	switch (row->kind) {
	case BOOL:
		return *(const bool *)field ? "1" : "0";
	case LIMIT:
	case SHARE:
		if (*(const uint64_t *)field == CONFIG_AUTO)
			return "auto";
		/* fall through */
	case SIZE:
		number = *(const uint64_t *)field;
		snprintf(room, size, "%llu%s", (unsigned long long)(number & ~CONFIG_SHARE),
			 number & CONFIG_SHARE ? "%" : "");
		return room;
	case TEXT:
	case FILE_NAME:
		text = *(const char *const *)field;
		return text ? text : "";
	default:
		return config_word(row->kind, *(const unsigned int *)field);
	}
}

unsigned int config_text_changed(const struct config *config, char separator, char *to, size_t size)
{
	unsigned int changed = 0;
	char room[24], other[24];
	size_t used = 0;

	if (size)
		*to = '\0';
	for (unsigned int i = 0; i < CONFIG_ROWS; i++) {
		const struct config_row *row = &config_table[i];
		const char *value = config_text_value(config, row, room, sizeof(room));
		int added;

		if (text_equals(value,
				config_text_value(&config_defaults, row, other, sizeof(other))))
			continue;
		added = snprintf(to + used, size - used, "%s%s=%s",
				 changed ? (const char[]){ separator, '\0' } : "", row->variable,
				 value);
		changed++;
		/* Omit a setting that does not fit: a cut value would be wrong. */
		if (added > 0 && (size_t)added < size - used)
			used += (size_t)added;
		else
			to[used] = '\0';
	}
	return changed;
}
