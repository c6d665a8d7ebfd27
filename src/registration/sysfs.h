/* SPDX-License-Identifier: BSD-3-Clause */
/* sysfs.h -- files, links and folders below /sys
 *
 * A name is /sys/FOLDER/OBJECT/ATTRIBUTE; later parts may be empty. Functions allocate nothing,
 * take no lock and preserve errno. A missing file is a regular result, not an error. Any thread.
 */
#ifndef PEERPIN_REGISTRATION_SYSFS_H
#define PEERPIN_REGISTRATION_SYSFS_H

#include <stdbool.h>
#include <stddef.h>

/* Several such buffers are on the client's stack, which may have only 16 KiB. Longer names are
 * treated as missing. */
#define SYSFS_NAME_MAX 512

/* The folder: /sys; tests set their own. */
extern const char *topology_sysfs;

/* Reads the beginning of a file, up to size - 1 bytes, without the final newline, and adds a zero
 * byte. False, and an empty text: unreadable. */
bool sysfs_read(const char *folder, const char *object, const char *attribute, char *to,
		size_t size);

/* The folder of that name, with all links resolved. False: none. */
bool sysfs_resolve(const char *folder, const char *object, const char *attribute,
		   char path[SYSFS_NAME_MAX]);

/* Calls visit for each entry of a folder, until visit returns false. */
void sysfs_list(const char *folder, bool (*visit)(const char *entry, void *argument),
		void *argument);

#endif
