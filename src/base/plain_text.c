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

unsigned int plain_text_printable(const char *text)
{
	const unsigned char *bytes = (const unsigned char *)text;
	bool control = bytes[0] < 0x20 || bytes[0] == 0x7f ||
		       (bytes[0] == 0xc2 && bytes[1] >= 0x80 && bytes[1] < 0xa0);

	return control ? 0 : plain_text_character(text);
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
