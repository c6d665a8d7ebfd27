/* SPDX-License-Identifier: BSD-3-Clause */
/* text.h -- text functions that call nothing
 *
 * Code that runs inside dlsym must not call libc. A starting sanitizer looks up through peerpin the
 * libc functions that the sanitizer wraps, and crashes if one is called meanwhile. The rest of the
 * library uses the same functions: each symbol of libc costs a look-up in every process that binds
 * at once (LD_BIND_NOW).
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

	/* Prevent the compiler from replacing the loop by a call of strlen. */
	while (*(const volatile char *)end)
		end++;
	return (size_t)(end - text);
}

/* Copy `from`, truncated to `size` - 1 bytes and terminated. */
static inline void text_copy(char *to, size_t size, const char *from)
{
	char *end = to + size - 1;

	while (to < end && *from)
		*to++ = *from++;
	*to = '\0';
}

/* Hash a text (FNV-1a): equal in every process, never 0. */
static inline uint64_t text_hash(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
	return hash ? hash : 1;
}

/* Return the first such character; NULL: none. */
static inline const char *text_find(const char *text, char character)
{
	while (*text && *text != character)
		text++;
	return *text == character ? text : NULL;
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

/* Parse the decimal number at *text and advance behind its digits; 0 without digits, UINT64_MAX on
 * overflow. Avoid strtoull: with a new glibc the call references a name that older ones lack. */
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

/* Compare ASCII letters in any case, in any locale. */
static inline bool text_equals_in_any_case(const char *one, const char *other)
{
	while (*one && text_lower(*one) == text_lower(*other)) {
		one++;
		other++;
	}
	return text_lower(*one) == text_lower(*other);
}

static inline bool text_begins_in_any_case(const char *text, const char *beginning)
{
	while (*beginning && text_lower(*beginning) == text_lower(*text)) {
		beginning++;
		text++;
	}
	return !*beginning;
}

/* Return the part after the last slash. */
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
