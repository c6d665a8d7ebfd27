/* SPDX-License-Identifier: BSD-3-Clause */
/* config_text.c -- writes settings as they would be given
 *
 * The words of a setting are those of its row that the user is told, in the order of its enumeration.
 */
#include "base/config_text.h"

#include "base/system.h"
#include "base/text.h"

/* The word with that number among "one, two or three". */
static const char *word(const char *allowed, unsigned int number, int *length)
{
	const char *end;

	while (number--) {
		while (*allowed && *allowed != ' ')
			allowed++;
		while (*allowed == ' ')
			allowed++;
		if (text_begins(allowed, "or "))
			allowed += 3;
	}
	for (end = allowed; *end && *end != ',' && *end != ' '; end++)
		;
	*length = (int)(end - allowed);
	return allowed;
}

static size_t add(char *to, size_t size, const char *variable, const char *value, int length)
{
	int written = system_format(to, size, " %s=%.*s", variable, length, value);

	return written < 0 ? 0 : (size_t)written;
}

static size_t add_BOOL(char *to, size_t size, const char *variable, const void *field, const char *allowed)
{
	(void)allowed;
	return add(to, size, variable, *(const bool *)field ? "1" : "0", 1);
}

static size_t add_SIZE(char *to, size_t size, const char *variable, const void *field, const char *allowed)
{
	char digits[24];

	(void)allowed;
	return add(
		to, size, variable, digits,
		system_format(digits, sizeof(digits), "%llu", (unsigned long long)*(const uint64_t *)field));
}

static size_t add_TEXT(char *to, size_t size, const char *variable, const void *field, const char *allowed)
{
	const char *value = *(const char *const *)field;

	(void)allowed;
	return add(to, size, variable, value ? value : "", 200);
}

static size_t add_words(char *to, size_t size, const char *variable, const void *field, const char *allowed)
{
	int length;
	const char *value = word(allowed, *(const unsigned int *)field, &length);

	return add(to, size, variable, value, length);
}

#define add_EAGER  add_words
#define add_SMALL  add_words
#define add_RIGHTS add_words
#define add_LEVEL  add_words

unsigned int config_text_changed(const struct config *config, char *to, size_t size)
{
	unsigned int changed = 0;
	size_t used = 0, added;

	if (size)
		*to = '\0';
#define CONFIG(field, variable, kind, initial, allowed, meaning)                                             \
	if (config->field != (__typeof__(config->field))(initial)) {                                         \
		added = add_##kind(to + used, size - used, variable, &config->field, allowed);               \
		used = added < size - used ? used + added : used;                                            \
		to[used] = '\0';                                                                             \
		changed++;                                                                                   \
	}
#include "base/config.def"
#undef CONFIG
	return changed;
}
