/* SPDX-License-Identifier: BSD-3-Clause */
/* runtime.c -- finds, creates and cleans the runtime folder */
#include "base/runtime.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/auxv.h>
#include <sys/vfs.h>

#include "base/kernel.h"
#include "base/shared_memory.h"
#include "base/system.h"
#include "base/text.h"

/* Beyond LEFT_MAX, left files are removed if older than LEFT_SECONDS, or if room is short. */
#define LEFT_MAX     64
#define LEFT_SECONDS 3600

/* No process number is larger. */
#define PROCESS_MAX 999999999

static bool runtime_is_own(int folder)
{
	struct stat status;

	return !kernel_describe(folder, &status) && S_ISDIR(status.st_mode) &&
	       status.st_uid == kernel_user() && !(status.st_mode & 077);
}

/* `length`: of the whole name, which `path` may not hold. */
static int runtime_open(const char *path, int length)
{
	int folder, error;

	if (length < 0 || length >= RUNTIME_PATH)
		return -ENAMETOOLONG;
	error = (int)kernel_call(SYS_mkdirat, AT_FDCWD, path, 0700);
	if (error && error != -EEXIST)
		return error;
	folder = kernel_open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
	if (folder < 0 || runtime_is_own(folder))
		return folder;
	kernel_close(folder);
	return -EPERM;
}

int runtime_folder(char *path)
{
	const char *session = system_environment("XDG_RUNTIME_DIR");
	int folder = -ENOENT;
	char own[RUNTIME_PATH];

	if (!path)
		path = own;
	/* Ignore the environment of a setuid program: its user controls it. */
	if (getauxval(AT_SECURE))
		return -EPERM;
	if (session && *session == '/')
		folder = runtime_open(path,
				      system_format(path, RUNTIME_PATH, "%s/peerpin", session));
	if (folder < 0)
		folder = runtime_open(path, system_format(path, RUNTIME_PATH, "/dev/shm/peerpin-%u",
							  kernel_user()));
	return folder;
}

int runtime_process_of(const char *name)
{
	uint64_t process = text_number(&name);

	if (*name == '-') {
		name++;
		text_number(&name);
	}
	return process <= PROCESS_MAX && text_equals(name, RUNTIME_STATS) ? (int)process : 0;
}

/* Return as shared_memory_read(), or the error of the open. */
static int runtime_read(int folder, const char *name, struct shared_memory *memory)
{
	int fd = kernel_open_at(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
	int error;

	if (fd < 0)
		return fd;
	error = shared_memory_read(fd, memory);
	kernel_close(fd);
	return error;
}

bool runtime_is_used(int folder, const char *name)
{
	struct shared_memory memory;
	int error = runtime_read(folder, name, &memory);

	return error == -EXDEV || (!error && shared_memory_is_used(&memory));
}

int runtime_remove(int folder, const char *name)
{
	struct shared_memory memory;

	if (!runtime_read(folder, name, &memory))
		shared_memory_remove(&memory);
	return kernel_unlink_at(folder, name);
}

/* Return the process that left the file, under its usual name or as a kept file; 0: a foreign
 * file. */
static int runtime_left_by(const char *name)
{
	int process = runtime_process_of(name);
	uint64_t keeper = text_number(&name);

	return process							  ? process
	       : keeper <= PROCESS_MAX && text_begins(name, RUNTIME_KEPT) ? (int)keeper
									  : 0;
}

static bool runtime_is_old(int folder, const char *name)
{
	struct stat status;

	return !kernel_describe_at(folder, name, &status, AT_SYMLINK_NOFOLLOW) &&
	       (uint64_t)status.st_mtime + LEFT_SECONDS < kernel_date();
}

/* Return true if 1/`part` of the file system stays free after `bytes` more. A file system without a
 * size is unlimited. */
static bool runtime_has_free(int folder, uint64_t bytes, uint64_t part)
{
	struct statfs room;

	return kernel_call(SYS_fstatfs, folder, &room) || !room.f_blocks ||
	       (uint64_t)room.f_bavail * (uint64_t)room.f_bsize >=
		       bytes + (uint64_t)room.f_blocks / part * (uint64_t)room.f_bsize;
}

bool runtime_has_room(int folder, uint64_t bytes)
{
	return runtime_has_free(folder, bytes, 8);
}

static bool runtime_is_lock(const char *name)
{
	size_t length = text_length(name), end = sizeof(RUNTIME_LOCK) - 1;

	return length > end && text_begins(name, RUNTIME_JOB) &&
	       text_equals(name + length - end, RUNTIME_LOCK);
}

/* Remove the file under its lock: a rank that opens the file meanwhile opens it again. */
static void runtime_remove_lock(int folder, const char *name)
{
	int fd = kernel_open_at(folder, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);

	if (fd < 0)
		return;
	if (!kernel_lock(fd, F_WRLCK) && runtime_is_old(folder, name))
		kernel_unlink_at(folder, name);
	kernel_close(fd);
}

struct cleaning {
	int folder;
	bool plenty;
	unsigned int left;
};

static bool runtime_clean_entry(const char *name, void *argument)
{
	struct cleaning *cleaning = argument;
	int process = runtime_left_by(name);

	if (runtime_is_lock(name) && runtime_is_old(cleaning->folder, name))
		runtime_remove_lock(cleaning->folder, name);
	if (process && kernel_is_gone(process) && !runtime_is_used(cleaning->folder, name) &&
	    ++cleaning->left > LEFT_MAX &&
	    (!cleaning->plenty || runtime_is_old(cleaning->folder, name)))
		runtime_remove(cleaning->folder, name);
	return true;
}

void runtime_clean(int folder)
{
	struct cleaning cleaning = { folder, runtime_has_free(folder, 0, 4), 0 };

	kernel_walk(folder, runtime_clean_entry, &cleaning);
}
