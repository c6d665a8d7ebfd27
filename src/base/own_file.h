/* SPDX-License-Identifier: BSD-3-Clause */
/* own_file.h -- files of this process: their names, and a file that grows by lines (log, trace)
 *
 * The first line creates the file, always as a new one: an existing file is a former result, and
 * "-1", "-2", ... is inserted before the extension. Standard output and error are written directly.
 * Any other device, FIFO or folder of that name is refused.
 *
 * Programs close descriptors that they did not open, and reuse the numbers for their own files.
 * Each write therefore checks that the descriptor still belongs to the file, and otherwise reopens
 * the file. Hazard: a program that closes descriptors while its other threads use CUDA can still
 * interfere between check and write.
 */
#ifndef PEERPIN_BASE_OWN_FILE_H
#define PEERPIN_BASE_OWN_FILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/once.h"

/* Error: the name exists and is not a regular file. */
#define OWN_FILE_SPECIAL 4000
/* Error: fstat(2) failed, so the file could not be recognized later. */
#define OWN_FILE_UNKNOWN 4001

/* Return the text of an errno value or of one of these. */
const char *own_file_error_text(int error);
/* Return what to do about it, as a sentence without its full stop. */
const char *own_file_error_fix(int error);

/* Return true if the name exists and is not a regular file. `flags`: AT_SYMLINK_NOFOLLOW if a link
 * is none, for a name that is to be replaced; else 0. */
bool own_file_is_special(const char *name, int flags);

/* Expand the pattern (identity.h) to an absolute name, in the folder of the start (start.h). Return
 * 0 or -errno. */
int own_file_name(const char *pattern, char *name, size_t size);

/* Call `take` with the name; while it returns -EEXIST for a regular file, retry with "-1", "-2",
 * ... before the extension. Return the result of `take` and the name used; or -errno and the name
 * unchanged. */
int own_file_number(char *name, size_t size, int (*take)(const char *name, const void *argument),
		    const void *argument);

/* Write a whole new file by `write`, which returns 0 or -errno: under a temporary name, then under
 * the absolute `name`, or one with a number as by own_file_number(). No reader finds a half.
 * Standard output and error are written directly. Return 0 or -errno (or one of these). */
int own_file_write_whole(const char *name, int (*write)(int fd, void *argument), void *argument);

/* Static objects only, zero-initialized. */
struct own_file {
	once opened;
	_Atomic int fd;
	int error; /* 0, or -errno of the first open */
	dev_t device;
	ino_t inode;
	char name[4096];
};

/* Append the line with one write(2); the first call creates the file from the pattern. Return 0 or
 * -errno (or one of these): no such file, or the write failed. */
int own_file_write(struct own_file *file, const char *pattern, const char *line, size_t length);

#endif
