/* SPDX-License-Identifier: BSD-3-Clause */
/* own_file.h -- files of this process's own: their names, and one that grows line by line: the log's, the trace's
 *
 * That is opened when the first line is there, never before, as a new file: one that exists is somebody's result,
 * and "-1", "-2", ... is put in front of the name's extension. Standard output and error are written to as they are; beside any
 * other device, FIFO or folder there is no room for a number: it is refused. Programs close descriptors that they do not know, and then open files of
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

/* The error of a name that is something else's than a file's. */
#define OWN_FILE_SPECIAL 4000

/* system_error_text, and that of the error above. */
const char *own_file_error_text(int error);

/* Whether there is something of that name that is no regular file. */
bool own_file_is_special(const char *name);

/* The name that the pattern (identity.h) becomes, from the root: the program may change its folder. Returns 0 or -errno. */
int own_file_name(const char *pattern, char *name, size_t size);

/* Offers `take` the name, and as long as it fails with EEXIST, for a file, the name with "-1", "-2", ... in front of its extension.
 * Returns what it returns, and the name is then the one that it took; or -errno, and the name is as it was. */
int own_file_number(char *name, size_t size, int (*take)(const char *name, const void *argument),
		    const void *argument);

/* All 0 at first, and static. */
struct own_file {
	once opened;
	_Atomic int fd;
	int error; /* 0 or an errno value: why there is none */
	dev_t device;
	ino_t inode;
	char name[4096];
};

/* Appends the line in one piece; the file's name comes from the pattern. Returns 0 or an errno value: there is no
 * such file, or it takes nothing. errno may change. */
int own_file_write(struct own_file *file, const char *pattern, const char *line, size_t length);

#endif
