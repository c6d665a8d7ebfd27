/* SPDX-License-Identifier: BSD-3-Clause */
/* runtime.c -- finds, creates and cleans the runtime folder */
#include "base/runtime.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/vfs.h>

#include "base/identity.h"
#include "base/kernel.h"
#include "base/loaded.h"
#include "base/start.h"
#include "base/text.h"

/* Beyond LEFT_MAX, left files are removed if older than LEFT_SECONDS, or if room is short. */
#define LEFT_MAX     64
#define LEFT_SECONDS 3600

/* No process number is larger. */
#define PROCESS_MAX 999999999

const char *runtime_shared = "/dev/shm";

static bool runtime_is_own(int folder)
{
	struct stat status;

	return !kernel_describe(folder, &status) && S_ISDIR(status.st_mode) &&
	       status.st_uid == kernel_user() && !(status.st_mode & 077);
}

/* Return -EPERM for a folder that is not private to this user, or another file of that name. */
static int runtime_open_existing(const char *path)
{
	int folder = kernel_open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);

	if (folder < 0)
		return folder == -ENOENT || folder == -EMFILE || folder == -ENFILE ? folder
										   : -EPERM;
	if (runtime_is_own(folder))
		return folder;
	kernel_close(folder);
	return -EPERM;
}

/* Put the name of folder `number` into `path`: RUNTIME_PATH bytes. */
static bool runtime_name(unsigned int number, char *path)
{
	const char *session = start_variable("XDG_RUNTIME_DIR"), *parent = runtime_shared;
	int length = -1;

	if (!number && session && *session == '/')
		length = snprintf(path, RUNTIME_PATH, "%s/peerpin", session);
	if (number > 1)
		parent = start_variable("TMPDIR") ?: "/tmp";
	if (number && *parent == '/')
		length = snprintf(path, RUNTIME_PATH, "%s/peerpin-%u", parent, kernel_user());
	return length > 0 && length < RUNTIME_PATH;
}

static int runtime_open(const char *path)
{
	int error = (int)kernel_call(SYS_mkdirat, AT_FDCWD, path, 0700);

	return error && error != -EEXIST ? error : runtime_open_existing(path);
}

int runtime_folder(char *path)
{
	int folder = -ENOENT;
	char own[RUNTIME_PATH];

	/* Ignore the environment of a setuid program: its user controls it. */
	if (loaded_auxiliary(AT_SECURE))
		return -EPERM;
	for (unsigned int i = 0; i < RUNTIME_FOLDERS && folder < 0; i++) {
		if (runtime_name(i, path ?: own))
			folder = runtime_open(path ?: own);
	}
	return folder;
}

bool runtime_find(unsigned int number, char *path)
{
	int folder = runtime_name(number, path) ? runtime_open_existing(path) : -ENOENT;

	if (folder >= 0)
		kernel_close(folder);
	return folder >= 0;
}

bool runtime_is_refused(char *path)
{
	int folder = -ENOENT;

	for (unsigned int i = 0; i < RUNTIME_FOLDERS && folder == -ENOENT; i++) {
		if (runtime_name(i, path))
			folder = runtime_open_existing(path);
	}
	if (folder >= 0)
		kernel_close(folder);
	return folder == -EPERM;
}

/* ---- files of processes ---- */

/* What follows the number in the names of files of this host and PID namespace. */
static void runtime_name_rest(char *to, size_t size)
{
	struct stat status;

	if (kernel_describe_at(AT_FDCWD, "/proc/self/ns/pid", &status, 0))
		status.st_ino = 0;
	snprintf(to, size, "-%x-%x" RUNTIME_STATS, (unsigned int)text_hash(identity_host()),
		 (unsigned int)status.st_ino);
}

void runtime_name_file(const char *path, char *name)
{
	char rest[RUNTIME_NAME - 16];

	runtime_name_rest(rest, sizeof(rest));
	snprintf(name, RUNTIME_PATH + RUNTIME_NAME, "%s/%d%s", path, kernel_process(), rest);
}

static bool runtime_is_old(int folder, const char *name)
{
	struct stat status;

	return !kernel_describe_at(folder, name, &status, AT_SYMLINK_NOFOLLOW) &&
	       (uint64_t)status.st_mtime + LEFT_SECONDS < kernel_date();
}

struct cleaning {
	int folder;
	bool plenty;
	unsigned int left;
	char own_rest[RUNTIME_NAME];
};

/* Return true for a snapshot, or a part of one, of a process that has ended. Names of older
 * versions have a dot behind the number, or no host. */
static bool runtime_is_left(const struct cleaning *cleaning, const char *name)
{
	const char *rest = name;
	uint64_t process = text_number(&rest);

	if (rest == name || process > PROCESS_MAX || (*rest != '-' && *rest != '.') ||
	    !text_contains(rest, RUNTIME_STATS))
		return false;
	if (text_begins(rest, cleaning->own_rest))
		return kernel_is_gone((int)process);
	return runtime_is_old(cleaning->folder, name);
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

static bool runtime_clean_entry(const char *name, void *argument)
{
	struct cleaning *cleaning = argument;

	if (runtime_is_lock(name) && runtime_is_old(cleaning->folder, name))
		runtime_remove_lock(cleaning->folder, name);
	if (runtime_is_left(cleaning, name) && ++cleaning->left > LEFT_MAX &&
	    (!cleaning->plenty || runtime_is_old(cleaning->folder, name)))
		kernel_unlink_at(cleaning->folder, name);
	return true;
}

void runtime_clean(int folder)
{
	struct cleaning cleaning = { folder, runtime_has_free(folder, 0, 4), 0, "" };

	runtime_name_rest(cleaning.own_rest, sizeof(cleaning.own_rest));
	kernel_walk(folder, runtime_clean_entry, &cleaning);
}
