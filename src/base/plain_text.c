/* SPDX-License-Identifier: BSD-3-Clause */
/* plain_text.c -- finds and replaces control characters and invalid UTF-8 */
#include "base/plain_text.h"

#include <stdbool.h>
#include <stddef.h>

/* Reject overlong forms, UTF-16 surrogates and code points above U+10FFFF: readers refuse the whole
 * file for one of them. */
static bool plain_text_may_follow(unsigned char first, unsigned char second)
{
	unsigned char least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
	unsigned char most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;

	return second >= least && second <= most;
}

unsigned int plain_text_character(const char *text)
{
	unsigned char first = (unsigned char)*text;
	unsigned int length = first < 0x80		      ? 1
			      : first >= 0xf0 && first < 0xf5 ? 4
			      : first >= 0xe0 && first < 0xf0 ? 3
			      : first >= 0xc2 && first < 0xe0 ? 2
							      : 0;

	if (length > 1 && !plain_text_may_follow(first, (unsigned char)text[1]))
		return 0;
	for (unsigned int i = 2; i < length; i++) {
		if (((unsigned char)text[i] & 0xc0) != 0x80)
			return 0;
	}
	return length;
}

unsigned int plain_text_code(const char *text, unsigned int length)
{
	unsigned int code = (unsigned char)*text;

	if (length > 1)
		code &= 0x7fU >> length;
	for (unsigned int i = 1; i < length; i++)
		code = code << 6 | ((unsigned char)text[i] & 0x3f);
	return code;
}

unsigned int plain_text_printable(const char *text)
{
	unsigned int length = plain_text_character(text), code = plain_text_code(text, length);
	bool control = code < 0x20 || (code >= 0x7f && code < 0xa0);
	bool direction = code == 0x61c || code == 0x200e || code == 0x200f ||
			 (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);

	return control || direction ? 0 : length;
}

const char *plain_text_find_other(const char *text)
{
	unsigned int length = 1;

	for (; *text && length; text += length)
		length = plain_text_printable(text);
	return length ? NULL : text;
}

char *plain_text(char *text, char replacement)
{
	for (char *at = text; (at = (char *)plain_text_find_other(at)); at++)
		*at = replacement;
	return text;
}
