/* SPDX-License-Identifier: BSD-3-Clause */
/* text.h -- comparisons that call nothing
 *
 * For what runs inside dlsym: a sanitizer that is just beginning looks up, by way of us, the very functions of libc
 * that it stands in front of, and crashes if one of them is called meanwhile.
 */
#ifndef PEERPIN_BASE_TEXT_H
#define PEERPIN_BASE_TEXT_H

#include <stdbool.h>

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
