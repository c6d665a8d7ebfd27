/* SPDX-License-Identifier: BSD-3-Clause */
/* units.c -- formats numbers for people, and cleans foreign text for a terminal */
#include "tools/units.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plain_text.h"

static char **texts;
static size_t texts_count;

static void *units_require(void *memory)
{
	if (memory)
		return memory;
	fputs("peerpin: out of memory\n", stderr);
	exit(3);
}

void *zeroed(size_t count, size_t size)
{
	return units_require(calloc(count ? count : 1, size));
}

void *grown(void *list, size_t count, size_t size)
{
	if (count & (count - 1))
		return list;
	return units_require(reallocarray(list, count ? 2 * count : 1, size));
}

static char *units_keep(char *text)
{
	texts = grown(texts, texts_count, sizeof(*texts));
	return texts[texts_count++] = units_require(text);
}

void texts_free(void)
{
	while (texts_count)
		free(texts[--texts_count]);
	free(texts);
	texts = NULL;
}

char *text_print(const char *format, va_list arguments)
{
	char *text;

	return units_keep(vasprintf(&text, format, arguments) < 0 ? NULL : text);
}

char *text_of(const char *format, ...)
{
	va_list arguments;
	char *text;

	va_start(arguments, format);
	text = text_print(format, arguments);
	va_end(arguments);
	return text;
}

char *clean(const char *text)
{
	return units_keep(clean_text(text));
}

static char *units_show_count(int64_t count)
{
	char grouped[40], digits[24];
	size_t length = (size_t)snprintf(digits, sizeof(digits), "%" PRId64, count), out = 0;

	for (size_t i = 0; i < length; i++) {
		if (i && (length - i) % 3 == 0 && digits[i - 1] != '-')
			grouped[out++] = ' ';
		grouped[out++] = digits[i];
	}
	return text_of("%.*s", (int)out, grouped);
}

static char *units_show_scaled(double value, const char *unit)
{
	/* Decide by the rounded value: 9.999 must not become 10.00. */
	return text_of("%.*f %s", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value, unit);
}

static char *units_show_bytes(int64_t bytes)
{
	static const char *const units[] = { "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double value = (double)bytes / 1024;
	size_t unit = 0;

	if (bytes < 1024)
		return text_of("%" PRId64 " B", bytes);
	for (; value >= 1023.5 && unit + 1 < sizeof(units) / sizeof(*units); unit++)
		value /= 1024;
	return units_show_scaled(value, units[unit]);
}

static char *units_show_time(int64_t nanoseconds)
{
	static const struct {
		double end, one;
		const char *name;
	} units[] = {
		{ 999.5e3, 1e3, "µs" },	  { 999.5e6, 1e6, "ms" },    { 600e9, 1e9, "s" },
		{ 36000e9, 60e9, "min" }, { INFINITY, 3600e9, "h" },
	};
	size_t unit = 0;

	if (nanoseconds < 1000)
		return text_of(nanoseconds ? "%" PRId64 " ns" : "0", nanoseconds);
	while ((double)nanoseconds >= units[unit].end)
		unit++;
	return units_show_scaled((double)nanoseconds / units[unit].one, units[unit].name);
}

char *padded(int width, const char *text)
{
	int others = 0; /* bytes that continue a character */

	for (const char *at = text; *at; at++)
		others += (*at & 0xc0) == 0x80;
	return text_of("%*s", width < 0 ? width - others : width + others, text);
}

char *show(enum unit unit, int64_t value)
{
	switch (unit) {
	case UNIT_BYTES:
		return units_show_bytes(value);
	case UNIT_TIME:
		return units_show_time(value);
	case UNIT_SHARE:
		if (value >= 10000)
			return text_of("100 %%");
		/* Rounded down, as in the summary. */
		return value > 9900 ? text_of("%.2f %%", (double)value / 100)
				    : text_of("%.1f %%", (double)(value / 10) / 10);
	case UNIT_RATE:
		if (value && value < 99950)
			return text_of("%.1f", (double)value / 1000);
		return units_show_count(value / 1000 + (value % 1000 >= 500));
	case UNIT_PLAIN:
		return text_of("%" PRId64, value);
	default:
		return units_show_count(value);
	}
}

static int units_ends_with(const char *text, const char *end)
{
	size_t length = strlen(text), wanted = strlen(end);

	return length >= wanted && !strcmp(text + length - wanted, end);
}

enum unit unit_of_key(const char *key)
{
	if (units_ends_with(key, "_bytes") || units_ends_with(key, "_bytes_peak"))
		return UNIT_BYTES;
	return units_ends_with(key, "_ns") ? UNIT_TIME : UNIT_COUNT;
}

char *clean_text(const char *text)
{
	return plain_text(units_require(strdup(text)), '?');
}
