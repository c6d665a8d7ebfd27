/* SPDX-License-Identifier: BSD-3-Clause */
/* own_file.h -- files of this process's own: their names, and one that grows line by line: the log's, the trace's
 *
 * That is opened when the first line is there, never before, as a new file: one that exists is somebody's result,
 * and "-1", "-2", ... is appended to the name. Programs close descriptors that they do not know, and then open files of
 * their own at the same numbers: so before each line it is looked at whether the descriptor is still the file's, and if not, the
 * file is opened again. Between look and write only a program that closes descriptors while others of its threads use CUDA could
 * still come.
 */
#ifndef PEERPIN_BASE_OWN_FILE_H
#define PEERPIN_BASE_OWN_FILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/once.h"

/* Offers `take` the name, and as long as it fails with EEXIST the name with "-1", "-2", ... behind it. Returns what it returns, and
 * the name is then the one that it took; or -errno, and the name is as it was. */
int own_file_number(char *name, size_t size, int (*take)(const char *name, const void *argument),
		    const void *argument);

/* All 0 at first, and static. */
struct own_file {
	once opened;
	_Atomic int fd;
	int error; /* 0 or an errno value: why there is none */
	dev_t device;
	ino_t inode;
	char name[4096]; /* from the root: the program may change its folder */
};

/* Appends the line in one piece; the file's name comes from the pattern (identity.h). Returns 0 or an errno value: there is no
 * such file, or it takes nothing. errno may change. */
int own_file_write(struct own_file *file, const char *pattern, const char *line, size_t length);

#endif
