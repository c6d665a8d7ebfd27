/* SPDX-License-Identifier: BSD-3-Clause */
/* own_file.c -- creates a file under a free name and appends lines to it */
#include "base/own_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/atomics.h"
#include "base/identity.h"
#include "base/kernel.h"
#include "base/signal_safe_write.h"
#include "base/start.h"
#include "base/text.h"

#define NUMBERS 100

const char *own_file_error_text(int error)
{
	if (error == OWN_FILE_SPECIAL)
		return "there is something of that name already which is no regular file";
	if (error == OWN_FILE_UNKNOWN)
		return "fstat failed, which a seccomp profile must allow";
	return strerror(error);
}

const char *own_file_error_fix(int error)
{
	return error == ENOSPC || error == EDQUOT
		       ? "Make room, or name a file on another file system"
		       : "Name a file in a writable folder";
}

bool own_file_is_special(const char *name, int flags)
{
	struct stat status;

	return !kernel_describe_at(AT_FDCWD, name, &status, flags) && !S_ISREG(status.st_mode);
}

int own_file_name(const char *pattern, char *name, size_t size)
{
	ssize_t length = start_folder(pattern, name, size);

	if (length < 0)
		return (int)length;
	return identity_file_name(pattern, name + length, size - (size_t)length);
}

static int own_file_create(const char *name, const void *argument)
{
	(void)argument;
	return kernel_open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_APPEND | O_CLOEXEC,
			   0600);
}

int own_file_number(char *name, size_t size, int (*take)(const char *name, const void *argument),
		    const void *argument)
{
	size_t at = identity_extension(name), put = 0;
	int taken = take(name, argument), error;
	char number[16] = "";

	for (int i = 1; taken == -EEXIST && i < NUMBERS; i++) {
		if (own_file_is_special(name, 0)) {
			taken = -OWN_FILE_SPECIAL;
			break;
		}
		snprintf(number, sizeof(number), "-%d", i);
		error = identity_insert(name, size, at, put, number);
		put = error ? put : text_length(number);
		taken = error ? error : take(name, argument);
	}
	if (taken < 0)
		identity_insert(name, size, at, put, "");
	return taken;
}

/* ---- a file that is written at once ---- */

/* Take a free name; return -EEXIST if the name exists. Some file systems (object stores, foreign
 * systems) have no links: create an empty file there, and rename over that file. */
static int own_file_take_name(const char *name, const void *partial)
{
	int error = kernel_link(partial, name), fd;

	if (error != -EPERM && error != -EOPNOTSUPP && error != -ENOSYS)
		return error;
	fd = kernel_open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return fd;
	kernel_close(fd);
	return kernel_rename_at(AT_FDCWD, partial, name);
}

/* Number the name if taken: two processes may use one name. */
static int own_file_give_name(const char *name, const char *partial)
{
	char numbered[sizeof(((struct own_file *)0)->name)];

	text_copy(numbered, sizeof(numbered), name);
	return own_file_number(numbered, sizeof(numbered), own_file_take_name, partial);
}

int own_file_write_whole(const char *name, int (*write)(int fd, void *argument), void *argument)
{
	char partial[sizeof(((struct own_file *)0)->name)];
	int fd = identity_stream(name), error, closed;

	if (fd >= 0)
		return start_has_stream(fd) ? write(fd, argument) : -EBADF;
	if (own_file_is_special(name, 0))
		return -OWN_FILE_SPECIAL;
	/* Add the time: containers reuse small process numbers. A killed or a concurrent process
	 * may have an equal number. */
	if ((size_t)snprintf(partial, sizeof(partial), "%s.partial.%d.%llx", name, kernel_process(),
			     (unsigned long long)kernel_time(CLOCK_REALTIME)) >= sizeof(partial))
		return -ENAMETOOLONG;
	fd = kernel_open(partial, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return fd;
	error = write(fd, argument);
	closed = kernel_close(fd);
	if (!error)
		error = closed;
	if (!error)
		error = own_file_give_name(name, partial);
	kernel_unlink_at(AT_FDCWD, partial);
	return error;
}

/* ---- a file that grows ---- */

static void own_file_open_first(struct own_file *file, const char *pattern)
{
	struct stat status;
	int fd;

	file->error = own_file_name(pattern, file->name, sizeof(file->name));
	if (file->error)
		return;
	fd = identity_stream(file->name);
	if (fd >= 0)
		fd = start_has_stream(fd) ? fd : -EBADF;
	else
		fd = own_file_number(file->name, sizeof(file->name), own_file_create, NULL);
	file->error = fd < 0 ? fd : kernel_describe(fd, &status) ? -OWN_FILE_UNKNOWN : 0;
	if (file->error)
		return;
	file->device = status.st_dev;
	file->inode = status.st_ino;
	store_seq_cst(&file->fd, fd);
}

/* Return -errno if the file is gone. Two threads may reopen at once: one descriptor is kept. */
static int own_file_open_again(struct own_file *file, int lost)
{
	int fd = kernel_open(file->name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_APPEND | O_CLOEXEC,
			     0);
	int error = fd < 0 ? 0 : kernel_check_file(fd, file->device, file->inode);

	if (fd < 0)
		return fd;
	if (error) {
		kernel_close(fd);
		return error == -EBADF ? -ESTALE : -OWN_FILE_UNKNOWN;
	}
	if (replace_seq_cst(&file->fd, &lost, fd))
		return fd;
	kernel_close(fd);
	return lost;
}

/* Retry: another thread may close the descriptor between check and write. */
static int own_file_write_line(struct own_file *file, const char *line, size_t length)
{
	int error = 0, fd;

	for (int i = 0; i < 3; i++) {
		fd = load_seq_cst(&file->fd);
		if (kernel_check_file(fd, file->device, file->inode))
			fd = own_file_open_again(file, fd);
		if (fd < 0)
			return fd;
		error = signal_safe_write(fd, line, length);
		if (error != -EBADF)
			break;
	}
	return error;
}

int own_file_write(struct own_file *file, const char *pattern, const char *line, size_t length)
{
	if (once_begin(&file->opened)) {
		own_file_open_first(file, pattern);
		once_end(&file->opened);
	}
	return file->error ? file->error : own_file_write_line(file, line, length);
}
