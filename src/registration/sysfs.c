/* SPDX-License-Identifier: BSD-3-Clause */
/* sysfs.c -- reads files, links and folders below /sys */
#include "registration/sysfs.h"

#include <stdio.h>

#include "base/kernel.h"
#include "base/text.h"

const char *topology_sysfs = "/sys";

/* A file descriptor; -1: not found, or the name is too long. */
static int sysfs_open(const char *folder, const char *object, const char *attribute, int flags)
{
	char path[SYSFS_NAME_MAX];
	int length = snprintf(path, sizeof(path), "%s/%s/%s/%s", topology_sysfs, folder, object,
			      attribute);

	if (length < 0 || (size_t)length >= sizeof(path))
		return -1;
	return kernel_open(path, flags | O_CLOEXEC, 0);
}

bool sysfs_read(const char *folder, const char *object, const char *attribute, char *to,
		size_t size)
{
	int fd = sysfs_open(folder, object, attribute, O_RDONLY);
	ssize_t length = -1;

	if (fd >= 0) {
		length = kernel_read(fd, to, size - 1);
		kernel_close(fd);
	}
	to[length > 0 ? length : 0] = '\0';
	if (length > 0 && to[length - 1] == '\n')
		to[length - 1] = '\0';
	return length >= 0;
}

/* The kernel follows the relative links, and /proc/self/fd gives the resulting path. */
bool sysfs_resolve(const char *folder, const char *object, const char *attribute,
		   char path[SYSFS_NAME_MAX])
{
	int fd = sysfs_open(folder, object, attribute, O_PATH | O_DIRECTORY);
	ssize_t length = -1;
	char link[40];

	if (fd >= 0) {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		length = kernel_read_link(link, path, SYSFS_NAME_MAX);
		kernel_close(fd);
	}
	/* A truncated path would be another folder's. */
	if (length == SYSFS_NAME_MAX)
		length = -1;
	path[length > 0 ? length : 0] = '\0';
	return length > 0;
}

void sysfs_list(const char *folder, bool (*visit)(const char *entry, void *argument),
		void *argument)
{
	int fd = sysfs_open(folder, "", "", O_RDONLY | O_DIRECTORY);

	if (fd >= 0) {
		kernel_walk(fd, visit, argument);
		kernel_close(fd);
	}
}
