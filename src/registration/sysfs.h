/* SPDX-License-Identifier: BSD-3-Clause */
/* sysfs.h -- what the kernel tells in files below /sys
 *
 * Names are below that folder and without a slash in front. Nothing is allocated, no lock is taken, and errno stays as it
 * is; what is not there is no error, only an answer. Any thread.
 */
#ifndef PEERPIN_REGISTRATION_SYSFS_H
#define PEERPIN_REGISTRATION_SYSFS_H

#include <stdbool.h>
#include <stddef.h>

/* Several of these stand on the stack of the client's thread, which may have no more than 16 KiB. What is longer is not there. */
#define SYSFS_NAME_MAX 512

/* The folder: /sys, unless a test has made one of its own. */
extern const char *topology_sysfs;

bool sysfs_exists(const char *name);

/* The beginning of a file, as much as there is room for, ended by a zero byte and without the line's end. False, and an
 * empty text: it cannot be read. */
bool sysfs_read(const char *name, char *to, size_t size);

/* The folder that `name` leads to in the end, with no link left in its path. False: there is none. */
bool sysfs_resolve(const char *name, char path[SYSFS_NAME_MAX]);

/* Calls visit for each entry of a folder, until it returns false. */
void sysfs_list(const char *name, bool (*visit)(const char *entry, void *argument), void *argument);

#endif
