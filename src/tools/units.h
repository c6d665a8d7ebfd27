/* SPDX-License-Identifier: BSD-3-Clause */
/* units.h -- numbers as people read them, and text from elsewhere made fit for a terminal
 *
 * Returned by value, so that several fit into one printf. Nothing here depends on the locale. The library's own lines are
 * written without libc and round in another way, to one digit behind the point (base/usage.c).
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

/* Digits in groups of three. */
struct shown show_count(int64_t count);
/* At least three digits that say something, in B to EiB. */
struct shown show_bytes(int64_t bytes);
/* In ns, us, ms, s, min or h. */
struct shown show_time(int64_t nanoseconds);
/* 99.95 %; what is not all is never shown as 100 %. */
struct shown show_share(int64_t hundredths);
struct shown show(enum unit unit, int64_t value);
/* The unit that a key of the statistics names by its end. */
enum unit unit_of_key(const char *key);
/* As settings take it: 4M, 512K, 1G; only for powers of two. */
struct shown show_setting_size(int64_t bytes);

/* A copy in which no byte moves the cursor or changes the terminal; freed by the caller. Exits without memory. */
char *clean_text(const char *text);

/* sprintf into memory of its own; freed by the caller. Exits without memory. */
char *text_of(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Memory that is zero; exits without memory. */
void *zeroed(size_t count, size_t size);

#endif
