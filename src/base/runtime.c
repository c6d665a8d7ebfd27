/* SPDX-License-Identifier: BSD-3-Clause */
/* runtime.c -- finds, creates and cleans the runtime folder */
#include "base/runtime.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/vfs.h>

#include "base/kernel.h"
#include "base/loaded.h"
#include "base/shared_memory.h"
#include "base/start.h"
#include "base/text.h"

/* Beyond LEFT_MAX, left files are removed if older than LEFT_SECONDS, or if room is short. */
#define LEFT_MAX     64
#define LEFT_SECONDS 3600

/* No process number is larger. */
#define PROCESS_MAX 999999999

/* Tries for the lock of another process: 1 s. A preempted holder needs more than a few ms. */
#define FOLDER_LOCK_TRIES   10000
#define FOLDER_LOCK_WAIT_NS 100000

const char *runtime_shared = "/dev/shm";

static bool runtime_is_own(int folder)
{
	struct stat status;

	return !kernel_describe(folder, &status) && S_ISDIR(status.st_mode) &&
	       status.st_uid == kernel_user() && !(status.st_mode & 077);
}

/* Return -EPERM for a folder that is not private to this user, or another file of that name. */
static int runtime_open_existing(int parent, const char *path)
{
	int folder =
		kernel_open_at(parent, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);

	if (folder < 0)
		return folder == -ENOENT || folder == -EMFILE || folder == -ENFILE ? folder
										   : -EPERM;
	if (runtime_is_own(folder))
		return folder;
	kernel_close(folder);
	return -EPERM;
}

/* Names of the folder, in order of preference. */
enum { OF_SESSION, SHARED, FOLDER_NAMES };

static bool runtime_name(unsigned int which, char *path)
{
	const char *session = start_variable("XDG_RUNTIME_DIR");
	int length = -1;

	if (which == OF_SESSION && session && *session == '/')
		length = snprintf(path, RUNTIME_PATH, "%s/peerpin", session);
	if (which == SHARED)
		length = snprintf(path, RUNTIME_PATH, "%s/peerpin-%u", runtime_shared,
				  kernel_user());
	return length > 0 && length < RUNTIME_PATH;
}

static int runtime_open(const char *path)
{
	int error = (int)kernel_call(SYS_mkdirat, AT_FDCWD, path, 0700);

	return error && error != -EEXIST ? error : runtime_open_existing(AT_FDCWD, path);
}

/* ---- private folders: /dev/shm/peerpin-UID.NUMBER, where another user has the usual name ---- */

struct runtime_search {
	int parent;
	char begins[32];
	unsigned int number;	   /* private folders that precede the wanted one */
	char after[64], found[64]; /* names; "": none */
};

static bool runtime_precedes(const char *one, const char *other)
{
	while (*one && *one == *other) {
		one++;
		other++;
	}
	return (unsigned char)*one < (unsigned char)*other;
}

/* Find the first name after `after`. Other users may make folders of such names as well. */
static bool runtime_search_entry(const char *name, void *argument)
{
	struct runtime_search *search = argument;
	int folder;

	if (!text_begins(name, search->begins) || text_length(name) >= sizeof(search->found) ||
	    !runtime_precedes(search->after, name) ||
	    (*search->found && !runtime_precedes(name, search->found)))
		return true;
	folder = runtime_open_existing(search->parent, name);
	if (folder >= 0) {
		kernel_close(folder);
		text_copy(search->found, sizeof(search->found), name);
	}
	return true;
}

/* Find private folder `number`, in the order of names. `parent`: open folder runtime_shared. */
static bool runtime_search(int parent, unsigned int number, char *path)
{
	struct runtime_search search = { .parent = parent };

	snprintf(search.begins, sizeof(search.begins), "peerpin-%u.", kernel_user());
	for (unsigned int i = 0; i <= number; i++) {
		text_copy(search.after, sizeof(search.after), search.found);
		search.found[0] = '\0';
		kernel_call(SYS_lseek, parent, 0, SEEK_SET);
		kernel_walk(parent, runtime_search_entry, &search);
		if (!*search.found)
			return false;
	}
	return snprintf(path, RUNTIME_PATH, "%s/%s", runtime_shared, search.found) < RUNTIME_PATH;
}

/* Keeps the ranks of a job together until `parent` is closed. Another user may hold the lock:
 * without it each rank may make a folder. */
static void runtime_lock(int parent)
{
	for (int i = 0; i < FOLDER_LOCK_TRIES; i++) {
		if (!kernel_call(SYS_flock, parent, 2 | 4 /* LOCK_EX | LOCK_NB */))
			return;
		kernel_sleep(FOLDER_LOCK_WAIT_NS);
	}
}

/* Other users cannot make the folder in advance: its name has the time in ns. */
static int runtime_open_private(char *path)
{
	int parent = kernel_open(runtime_shared, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0), folder;

	if (parent < 0)
		return parent;
	if (!runtime_search(parent, 0, path)) {
		runtime_lock(parent);
		if (!runtime_search(parent, 0, path))
			snprintf(path, RUNTIME_PATH, "%s/peerpin-%u.%llx-%x", runtime_shared,
				 kernel_user(), (unsigned long long)kernel_time(CLOCK_REALTIME),
				 (unsigned int)kernel_process());
	}
	folder = runtime_open(path);
	kernel_close(parent);
	return folder;
}

int runtime_folder(char *path)
{
	int folder = -ENOENT;
	bool refused = false;
	char own[RUNTIME_PATH];

	if (!path)
		path = own;
	/* Ignore the environment of a setuid program: its user controls it. */
	if (loaded_auxiliary(AT_SECURE))
		return -EPERM;
	for (unsigned int i = 0; i < FOLDER_NAMES && folder < 0; i++) {
		if (!runtime_name(i, path))
			continue;
		folder = runtime_open(path);
		refused = folder == -EPERM;
	}
	return refused ? runtime_open_private(path) : folder;
}

bool runtime_find(unsigned int number, char *path)
{
	int parent, folder;
	bool found;

	if (number < FOLDER_NAMES) {
		folder = runtime_name(number, path) ? runtime_open_existing(AT_FDCWD, path)
						    : -ENOENT;
		if (folder >= 0)
			kernel_close(folder);
		return folder >= 0;
	}
	parent = kernel_open(runtime_shared, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	found = parent >= 0 && runtime_search(parent, number - FOLDER_NAMES, path);
	if (parent >= 0)
		kernel_close(parent);
	return found;
}

bool runtime_is_refused(char *path)
{
	int folder = -ENOENT;

	for (unsigned int i = 0; i < FOLDER_NAMES && folder == -ENOENT; i++) {
		if (runtime_name(i, path))
			folder = runtime_open_existing(AT_FDCWD, path);
	}
	if (folder >= 0)
		kernel_close(folder);
	return folder == -EPERM;
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
