/* SPDX-License-Identifier: BSD-3-Clause */
/* units.h -- formats numbers for people, and cleans foreign text for a terminal
 *
 * No function depends on the locale. The library formats its own lines without libc and rounds to 1
 * decimal (report/usage.c). Every function exits without memory.
 */
#ifndef PEERPIN_TOOLS_UNITS_H
#define PEERPIN_TOOLS_UNITS_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

enum unit {
	UNIT_COUNT, /* digits in groups of 3 */
	UNIT_BYTES, /* B to EiB, 3 significant digits or more */
	UNIT_TIME,  /* nanoseconds, as ns to h */
	UNIT_SHARE, /* hundredths of a percent; only a full share is shown as 100 % */
	UNIT_RATE,  /* thousandths per second */
	UNIT_PLAIN, /* digits */
};

/* Texts of show(), text_of(), text_print() and clean() last until texts_free(). */
/* The text, padded to so many characters: at its left; negative: at its right. */
char *padded(int width, const char *text);

char *show(enum unit unit, int64_t value);
char *text_of(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *text_print(const char *format, va_list arguments) __attribute__((format(printf, 1, 0)));
char *clean(const char *text);
void texts_free(void);

/* Unit of a statistics key, from its suffix: _bytes, _bytes_peak, _ns. */
enum unit unit_of_key(const char *key);

/* Copies `text` with control characters and invalid UTF-8 replaced (base/plain_text.h). The caller
 * frees the copy. */
char *clean_text(const char *text);

/* Zeroed memory, which the caller frees. */
void *zeroed(size_t count, size_t size);
/* Room for one more element in a list of `count` elements. The list grows here alone. */
void *grown(void *list, size_t count, size_t size);

#endif
