/* SPDX-License-Identifier: BSD-3-Clause */
/* units.c -- formats numbers for people, and cleans foreign text for a terminal */
#include "tools/units.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void units_out_of_memory(void)
{
	fputs("peerpin: out of memory\n", stderr);
	exit(1);
}

void *zeroed(size_t count, size_t size)
{
	void *memory = calloc(count ? count : 1, size);

	if (!memory)
		units_out_of_memory();
	return memory;
}

char *text_of(const char *format, ...)
{
	va_list arguments;
	char *text;
	int length;

	va_start(arguments, format);
	length = vasprintf(&text, format, arguments);
	va_end(arguments);
	if (length < 0)
		units_out_of_memory();
	return text;
}

struct shown show_count(int64_t count)
{
	struct shown shown;
	char digits[24];
	size_t length, out = 0;

	length = (size_t)snprintf(digits, sizeof(digits), "%" PRId64, count);
	for (size_t i = 0; i < length; i++) {
		if (i && (length - i) % 3 == 0 && digits[i - 1] != '-')
			shown.text[out++] = ' ';
		shown.text[out++] = digits[i];
	}
	shown.text[out] = '\0';
	return shown;
}

static struct shown units_show_scaled(double value, const char *unit)
{
	struct shown shown;
	/* Decide by the rounded value: 9.999 must not become 10.00. */
	int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;

	snprintf(shown.text, sizeof(shown.text), "%.*f %s", decimals, value, unit);
	return shown;
}

struct shown show_bytes(int64_t bytes)
{
	static const char *const units[] = { "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double value = (double)bytes;
	size_t unit = 0;
	struct shown shown;

	if (bytes < 1024) {
		snprintf(shown.text, sizeof(shown.text), "%" PRId64 " B", bytes);
		return shown;
	}
	for (value /= 1024; value >= 1023.5 && unit + 1 < sizeof(units) / sizeof(*units); unit++)
		value /= 1024;
	return units_show_scaled(value, units[unit]);
}

struct shown show_time(int64_t nanoseconds)
{
	double value = (double)nanoseconds;
	struct shown shown;

	if (nanoseconds < 1000) {
		snprintf(shown.text, sizeof(shown.text), nanoseconds ? "%" PRId64 " ns" : "0",
			 nanoseconds);
		return shown;
	}
	if (value < 999.5e3)
		return units_show_scaled(value / 1e3, "us");
	if (value < 999.5e6)
		return units_show_scaled(value / 1e6, "ms");
	if (value < 600e9)
		return units_show_scaled(value / 1e9, "s");
	if (value < 36000e9)
		return units_show_scaled(value / 60e9, "min");
	return units_show_scaled(value / 3600e9, "h");
}

struct shown show_share(int64_t hundredths)
{
	struct shown shown;

	if (hundredths >= 10000)
		snprintf(shown.text, sizeof(shown.text), "100 %%");
	else if (hundredths > 9900)
		snprintf(shown.text, sizeof(shown.text), "%.2f %%", (double)hundredths / 100);
	else
		snprintf(shown.text, sizeof(shown.text), "%.1f %%", (double)hundredths / 100);
	return shown;
}

struct shown show(enum unit unit, int64_t value)
{
	switch (unit) {
	case UNIT_BYTES:
		return show_bytes(value);
	case UNIT_TIME:
		return show_time(value);
	case UNIT_SHARE:
		return show_share(value);
	default:
		return show_count(value);
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

struct shown show_setting_size(int64_t bytes)
{
	static const char letters[] = { 'K', 'M', 'G' };
	struct shown shown;
	size_t letter = sizeof(letters);

	while (letter && bytes % (INT64_C(1) << 10 * letter))
		letter--;
	if (letter)
		snprintf(shown.text, sizeof(shown.text), "%" PRId64 "%c", bytes >> 10 * letter,
			 letters[letter - 1]);
	else
		snprintf(shown.text, sizeof(shown.text), "%" PRId64, bytes);
	return shown;
}

char *clean_text(const char *text)
{
	char *clean = text_of("%s", text);
	unsigned char *at;

	for (at = (unsigned char *)clean; *at; at++) {
		if (*at < 0x20 || *at == 0x7f)
			*at = '?';
		else if (at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0) /* C1 controls in UTF-8 */
			at[0] = at[1] = '?';
	}
	return clean;
}
