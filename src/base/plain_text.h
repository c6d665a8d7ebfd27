/* SPDX-License-Identifier: BSD-3-Clause */
/* plain_text.h -- text of other programs: readers require UTF-8, and a terminal obeys control
 * characters
 *
 * Control characters are those of C0 and C1 (below U+0020, U+0080 to U+009F) and DEL. A C1 byte on
 * its own is invalid UTF-8. No function allocates or calls libc.
 */
#ifndef PEERPIN_BASE_PLAIN_TEXT_H
#define PEERPIN_BASE_PLAIN_TEXT_H

/* Return the bytes of the UTF-8 character at `text`; 0: invalid. */
unsigned int plain_text_character(const char *text);

/* Return the bytes of the UTF-8 character at `text`; 0: invalid, or a control character. */
unsigned int plain_text_printable(const char *text);

/* Return the first byte for which plain_text_printable() returns 0; NULL: none. */
const char *plain_text_find_other(const char *text);

/* Replace each such byte by `replacement`, in place. Return `text`. */
char *plain_text(char *text, char replacement);

#endif
