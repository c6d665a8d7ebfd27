/* SPDX-License-Identifier: BSD-3-Clause */
/* units.h -- formats numbers for people, and cleans foreign text for a terminal
 *
 * Functions return results by value, so that one printf can take several. No function depends on
 * the locale. The library formats its own lines without libc and rounds to 1 decimal
 * (report/usage.c).
 */
#ifndef PEERPIN_TOOLS_UNITS_H
#define PEERPIN_TOOLS_UNITS_H

#include <stddef.h>
#include <stdint.h>

enum unit {
	UNIT_COUNT,
	UNIT_BYTES,
	UNIT_TIME,  /* nanoseconds */
	UNIT_SHARE, /* hundredths of a percent */
};

struct shown {
	char text[32];
};

/* Digits in groups of 3. */
struct shown show_count(int64_t count);
/* 3 significant digits or more, in B to EiB. */
struct shown show_bytes(int64_t bytes);
/* In ns, us, ms, s, min or h. */
struct shown show_time(int64_t nanoseconds);
/* 99.95 %; only a full share is shown as 100 %. */
struct shown show_share(int64_t hundredths);
struct shown show(enum unit unit, int64_t value);
/* Unit of a statistics key, from its suffix: _bytes, _bytes_peak, _ns. */
enum unit unit_of_key(const char *key);
/* Size in the form of settings: 4M, 512K, 1G; only for powers of 2. */
struct shown show_setting_size(int64_t bytes);

/* Copies `text` with control characters replaced, so that no byte moves the cursor or changes the
 * terminal. The caller frees the copy. Exits without memory. */
char *clean_text(const char *text);

/* sprintf into new memory, which the caller frees. Exits without memory. */
char *text_of(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Zeroed memory, which the caller frees. Exits without memory. */
void *zeroed(size_t count, size_t size);

#endif
