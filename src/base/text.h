/* SPDX-License-Identifier: BSD-3-Clause */
/* text.h -- what is done with texts, calling nothing
 *
 * For what runs inside dlsym: a sanitizer that is just beginning looks up, by way of us, the very functions of libc
 * that it stands in front of, and crashes if one of them is called meanwhile. For the rest because each function of
 * libc that is referred to costs every process of a job its look-up (kernel.h).
 */
#ifndef PEERPIN_BASE_TEXT_H
#define PEERPIN_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool text_equals(const char *one, const char *other)
{
	while (*one && *one == *other) {
		one++;
		other++;
	}
	return *one == *other;
}

static inline bool text_begins(const char *text, const char *beginning)
{
	while (*beginning && *beginning == *text) {
		beginning++;
		text++;
	}
	return !*beginning;
}

static inline size_t text_length(const char *text)
{
	const char *end = text;

	/* Not a loop that the compiler knows as strlen, and calls. */
	while (*(const volatile char *)end)
		end++;
	return (size_t)(end - text);
}

/* The first such character; NULL if there is none. */
static inline const char *text_find(const char *text, char wanted)
{
	while (*text && *text != wanted)
		text++;
	return *text == wanted ? text : NULL;
}

static inline bool text_contains(const char *text, const char *part)
{
	for (; *text; text++) {
		if (text_begins(text, part))
			return true;
	}
	return !*part;
}

static inline bool text_is_digit(char character)
{
	return character >= '0' && character <= '9';
}

/* The decimal number that the text begins with, 0 if with none; UINT64_MAX if it is larger. *text is behind it then. Not strtoull:
 * built against a new glibc that refers to a name which older ones lack. */
static inline uint64_t text_number(const char **text)
{
	uint64_t number = 0;

	for (; text_is_digit(**text); ++*text) {
		if (__builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, (uint64_t)(**text - '0'), &number))
			number = UINT64_MAX;
	}
	return number;
}

static inline char text_lower(char character)
{
	return character >= 'A' && character <= 'Z' ? (char)(character - 'A' + 'a') : character;
}

/* Of ASCII, whatever the locale. */
static inline bool text_equals_in_any_case(const char *one, const char *other)
{
	while (*one && text_lower(*one) == text_lower(*other)) {
		one++;
		other++;
	}
	return text_lower(*one) == text_lower(*other);
}

/* What follows the last slash. */
static inline const char *text_file_name(const char *path)
{
	const char *name = path;

	for (; *path; path++) {
		if (*path == '/')
			name = path + 1;
	}
	return name;
}

#endif
