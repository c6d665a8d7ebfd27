/* SPDX-License-Identifier: BSD-3-Clause */
/* sysfs.c -- reads files, links and folders below /sys */
#include "registration/sysfs.h"

#include <errno.h>

#include "base/kernel.h"
#include "base/system.h"
#include "base/text.h"

const char *topology_sysfs = "/sys";

/* A descriptor; -1: there is no such thing, or its name is too long. */
static int open_below(const char *name, int flags)
{
	char whole[SYSFS_NAME_MAX];
	int length = system_format(whole, sizeof(whole), "%s/%s", topology_sysfs, name);

	if (length < 0 || (size_t)length >= sizeof(whole))
		return -1;
	return kernel_open(whole, flags | O_CLOEXEC, 0);
}

bool sysfs_exists(const char *name)
{
	int saved_errno = errno;
	int fd = open_below(name, O_PATH);

	if (fd >= 0)
		kernel_close(fd);
	errno = saved_errno;
	return fd >= 0;
}

bool sysfs_read(const char *name, char *to, size_t size)
{
	int saved_errno = errno;
	int fd = open_below(name, O_RDONLY);
	ssize_t length = -1;

	if (fd >= 0) {
		length = kernel_read(fd, to, size - 1);
		kernel_close(fd);
	}
	to[length > 0 ? length : 0] = '\0';
	if (length > 0 && to[length - 1] == '\n')
		to[length - 1] = '\0';
	errno = saved_errno;
	return length >= 0;
}

/* The kernel follows the links, which are relative, and says where it came out. */
bool sysfs_resolve(const char *name, char path[SYSFS_NAME_MAX])
{
	int saved_errno = errno;
	int fd = open_below(name, O_PATH | O_DIRECTORY);
	ssize_t length = -1;
	char link[40];

	if (fd >= 0) {
		system_format(link, sizeof(link), "/proc/self/fd/%d", fd);
		length = kernel_read_link(link, path, SYSFS_NAME_MAX);
		kernel_close(fd);
	}
	/* Cut off it would be another folder's. */
	if (length == SYSFS_NAME_MAX)
		length = -1;
	path[length > 0 ? length : 0] = '\0';
	errno = saved_errno;
	return length > 0;
}

static bool is_entry(const char *name)
{
	return !text_equals(name, ".") && !text_equals(name, "..");
}

void sysfs_list(const char *name, bool (*visit)(const char *entry, void *argument), void *argument)
{
	char room[2048] __attribute__((aligned(8)));
	int saved_errno = errno;
	int fd = open_below(name, O_RDONLY | O_DIRECTORY);
	bool goes_on = fd >= 0;
	ssize_t length;

	while (goes_on && (length = kernel_entries(fd, room, sizeof(room))) > 0) {
		for (ssize_t at = 0; goes_on && at < length;) {
			const struct kernel_entry *entry = (const struct kernel_entry *)(room + at);

			if (is_entry(entry->name))
				goes_on = visit(entry->name, argument);
			at += entry->length;
		}
	}
	if (fd >= 0)
		kernel_close(fd);
	errno = saved_errno;
}
