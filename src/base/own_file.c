/* SPDX-License-Identifier: BSD-3-Clause */
/* own_file.c -- opens a file under a name that is free, and keeps to it */
#include "base/own_file.h"

#include <errno.h>

#include "base/identity.h"
#include "base/kernel.h"
#include "base/signal_safe_write.h"
#include "base/system.h"
#include "base/text.h"

#define NUMBERS 100

const char *own_file_error_text(int error)
{
	return error == OWN_FILE_SPECIAL ? "there is something of that name already which is no regular file"
					 : system_error_text(error);
}

bool own_file_is_special(const char *name)
{
	struct stat what;

	return !kernel_describe_name(name, &what) && !S_ISREG(what.st_mode);
}

/* The current folder and a slash in front of a name that has none. */
int own_file_name(const char *pattern, char *name, size_t size)
{
	ssize_t length = 0;

	if (*pattern != '/') {
		length = kernel_current_folder(name, size);
		if (length < 0)
			return -errno;
		if ((size_t)length >= size)
			return -ENAMETOOLONG;
		name[length - 1] = '/';
	}
	return process_file_name(pattern, name + length, size - (size_t)length);
}

static int create(const char *name, const void *argument)
{
	(void)argument;
	return kernel_keep_clear(
		kernel_open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_APPEND | O_CLOEXEC, 0600));
}

int own_file_number(char *name, size_t size, int (*take)(const char *name, const void *argument),
		    const void *argument)
{
	size_t at = identity_extension(name), put = 0;
	int taken = take(name, argument), error = errno;
	char number[16] = "";

	for (int i = 1; taken < 0 && error == EEXIST && i < NUMBERS; i++) {
		if (own_file_is_special(name)) {
			error = OWN_FILE_SPECIAL;
			break;
		}
		system_format(number, sizeof(number), "-%d", i);
		error = -identity_insert(name, size, at, put, number);
		if (error)
			break;
		put = text_length(number);
		taken = take(name, argument);
		error = errno;
	}
	if (taken >= 0)
		return taken;
	identity_insert(name, size, at, put, "");
	return -error;
}

static void open_first(struct own_file *file, const char *pattern)
{
	struct stat what;
	int fd;

	file->error = -own_file_name(pattern, file->name, sizeof(file->name));
	if (file->error)
		return;
	fd = identity_stream(file->name);
	if (fd < 0)
		fd = own_file_number(file->name, sizeof(file->name), create, NULL);
	if (fd < 0 || kernel_describe(fd, &what)) {
		file->error = fd < 0 ? -fd : errno;
		return;
	}
	file->device = what.st_dev;
	file->inode = what.st_ino;
	atomic_store(&file->fd, fd);
}

static bool is_ours(const struct own_file *file, int fd)
{
	struct stat what;

	return !kernel_describe(fd, &what) && what.st_dev == file->device && what.st_ino == file->inode;
}

/* -1 and errno: it is not there any more. Two threads may both do it: one descriptor stays. */
static int open_again(struct own_file *file, int lost)
{
	int fd = kernel_keep_clear(
		kernel_open(file->name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_APPEND | O_CLOEXEC, 0));

	if (fd < 0)
		return -1;
	if (!is_ours(file, fd)) {
		kernel_close(fd);
		errno = ESTALE;
		return -1;
	}
	if (atomic_compare_exchange_strong(&file->fd, &lost, fd))
		return fd;
	kernel_close(fd);
	return lost;
}

/* Another thread may close it between look and write: once more, then. */
static int write_line(struct own_file *file, const char *line, size_t length)
{
	int error = 0, fd;

	for (int i = 0; i < 3; i++) {
		fd = atomic_load(&file->fd);
		if (!is_ours(file, fd))
			fd = open_again(file, fd);
		if (fd < 0)
			return errno;
		error = signal_safe_write(fd, line, length);
		if (error != EBADF)
			break;
	}
	return error;
}

int own_file_write(struct own_file *file, const char *pattern, const char *line, size_t length)
{
	if (once_begin(&file->opened)) {
		open_first(file, pattern);
		once_end(&file->opened);
	}
	return file->error ? file->error : write_line(file, line, length);
}
