/* SPDX-License-Identifier: BSD-3-Clause */
/* plain_text.h -- text of other programs: readers require UTF-8, and a terminal obeys control
 * characters
 *
 * Control characters are those of C0 and C1 (below U+0020, U+0080 to U+009F), DEL, and those that
 * change the direction of text (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069): a name
 * could show as another one. A C1 byte on its own is invalid UTF-8. No function allocates or calls
 * libc.
 */
#ifndef PEERPIN_BASE_PLAIN_TEXT_H
#define PEERPIN_BASE_PLAIN_TEXT_H

/* Return the bytes of the UTF-8 character at `text`; 0: invalid. */
unsigned int plain_text_character(const char *text);

/* Return the code point of the character at `text`, of `length` bytes. */
unsigned int plain_text_code(const char *text, unsigned int length);

/* Return the bytes of the UTF-8 character at `text`; 0: invalid, or a control character. */
unsigned int plain_text_printable(const char *text);

/* Return the first byte for which plain_text_printable() returns 0; NULL: none. */
const char *plain_text_find_other(const char *text);

/* Replace each such byte by `replacement`, in place. Return `text`. */
char *plain_text(char *text, char replacement);

#endif
