/* SPDX-License-Identifier: BSD-3-Clause */
/* segment.c -- places of processes in a shared file, and locks that end with their owners
 *
 * A place is taken by a lock of an open file description on one byte of the file. The mapping of
 * the file keeps this description open: the lock outlasts the descriptor, and thus programs that
 * close all descriptors. It ends with the address space, by exit, execve or SIGKILL, and before the
 * process is reaped; a process identifier says less: it exists for zombies, and differs between
 * containers. MADV_DONTFORK keeps the mapping, and with it the lock, from forked children.
 */
#include "sim/plane/segment.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LAYOUT 1 /* of the layout of all shared files: part of the folder's name */
#define BYTES  (SEGMENT_PROCESSES * sizeof(struct segment_process))

#define NAME_MOST 64

static const char *const folders[] = { "/dev/shm", "/tmp" };
#define FOLDERS (sizeof(folders) / sizeof(folders[0]))

/* Zero in a process that did not join: the kernel clears the page in a forked child. */
static uint32_t *joined;
static char folder[SEGMENT_PATH_MAX - 32];
static struct segment_process *processes;
static unsigned int self;
/* -1: the mapping holds the lock, as on Linux. */
static int lock_descriptor = -1;

uint64_t segment_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

bool segment_joined(void)
{
	uint32_t *page = __atomic_load_n(&joined, __ATOMIC_ACQUIRE);

	return page && __atomic_load_n(page, __ATOMIC_ACQUIRE);
}

unsigned int segment_self(void)
{
	return self;
}

struct segment_process *segment_process(unsigned int place)
{
	return &processes[place];
}

void segment_link_path(unsigned int from, uint32_t incarnation, unsigned int place, char *to)
{
	snprintf(to, SEGMENT_PATH_MAX, "%s/%u.%u.%u", folder, from, incarnation, place);
}

/* ---- the folder ---- */

/* In folders where all users write, another user's folder or link may have the name. */
static int segment_make_folder(const char *in, const char *name)
{
	struct stat status;

	snprintf(folder, sizeof(folder), "%s/peerpin-sim%d-%u%s%s", in, LAYOUT, geteuid(),
		 *name ? "-" : "", name);
	if (mkdir(folder, 0700) && errno != EEXIST)
		return errno;
	if (lstat(folder, &status))
		return errno;
	return S_ISDIR(status.st_mode) && status.st_uid == geteuid() ? 0 : EACCES;
}

/* Return a descriptor above the standard streams, or a negative errno. */
static int segment_open_file(int flags)
{
	char path[SEGMENT_PATH_MAX];
	int low, descriptor;

	snprintf(path, sizeof(path), "%s/processes", folder);
	low = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
	if (low < 0)
		return -errno;
	if (low > STDERR_FILENO)
		return low;
	/* Keeps the description: each has its own locks. */
	descriptor = fcntl(low, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	descriptor = descriptor < 0 ? -errno : descriptor;
	close(low);
	return descriptor;
}

static int segment_open_in(const char *in, const char *name, int flags)
{
	int descriptor, error = segment_make_folder(in, name);
	char path[SEGMENT_PATH_MAX];

	if (error)
		return -error;
	descriptor = segment_open_file(flags);
	if (descriptor < 0)
		return descriptor;
	error = posix_fallocate(descriptor, 0, BYTES);
	if (!error)
		return descriptor;
	close(descriptor);
	/* Other processes take another folder, too, even if there is room by then. */
	snprintf(path, sizeof(path), "%s/processes", folder);
	unlink(path);
	rmdir(folder);
	return -error;
}

static const char *segment_name(void)
{
	const char *name = getenv("PEERPIN_SIM_ADAPTER_SEGMENT");

	if (!name || (strlen(name) <= NAME_MOST && !strchr(name, '/')))
		return name ? name : "";
	fprintf(stderr,
		"peerpin simulated adapter: PEERPIN_SIM_ADAPTER_SEGMENT=%s is ignored: a name has "
		"at most %d bytes and no slash\n",
		name, NAME_MOST);
	return "";
}

/* A fabric that exists is joined wherever it is: /dev/shm may have filled or emptied since. */
static int segment_open(void)
{
	const char *name = segment_name();
	int descriptor = -ENOENT;

	for (unsigned int i = 0; i < 2 * FOLDERS && descriptor < 0; i++)
		descriptor = segment_open_in(folders[i % FOLDERS], name, i < FOLDERS ? 0 : O_CREAT);
	return descriptor;
}

/* ---- places ---- */

static struct flock segment_lock_of(unsigned int place)
{
	return (struct flock){
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = place, .l_len = 1
	};
}

static bool segment_is_locked(unsigned int place)
{
	int descriptor = segment_open_file(0);
	struct flock lock = segment_lock_of(place);
	bool locked;

	/* Without descriptors nothing is known: a live process must not be taken for a dead one. */
	if (descriptor < 0)
		return true;
	locked = fcntl(descriptor, F_OFD_GETLK, &lock) || lock.l_type != F_UNLCK;
	close(descriptor);
	return locked;
}

bool segment_is_alive(unsigned int place, uint32_t incarnation)
{
	return __atomic_load_n(&processes[place].incarnation, __ATOMIC_ACQUIRE) == incarnation &&
	       segment_is_locked(place);
}

static int segment_take_place(int descriptor)
{
	for (unsigned int place = 0; place < SEGMENT_PROCESSES; place++) {
		struct flock lock = segment_lock_of(place);

		if (!fcntl(descriptor, F_OFD_SETLK, &lock)) {
			self = place;
			return 0;
		}
		if (errno != EAGAIN && errno != EACCES)
			return errno;
	}
	return EAGAIN;
}

void segment_unlink(const char *path)
{
	char target[SEGMENT_PATH_MAX];
	ssize_t length = readlink(path, target, sizeof(target) - 1);

	if (length > 0) {
		target[length] = '\0';
		unlink(target);
	}
	unlink(path);
}

/* Remove a link of a process that had this place and ended, which was never opened. The
 * place is held meanwhile, as the process that takes it makes links at once. */
static void segment_remove_link_of(int descriptor, unsigned int place, const char *path)
{
	struct flock lock = segment_lock_of(place);

	if (place != self && fcntl(descriptor, F_OFD_SETLK, &lock))
		return;
	segment_unlink(path);
	lock.l_type = F_UNLCK;
	if (place != self)
		fcntl(descriptor, F_OFD_SETLK, &lock);
}

/* Processes that were killed leave links behind, half a MiB each. One process at a time removes
 * them: two would take each other for the process of a place. */
static void segment_remove_links(void)
{
	/* A description of its own: locks are the description's. */
	int descriptor = segment_open_file(0);
	struct flock turn = segment_lock_of(SEGMENT_PROCESSES);
	DIR *files = opendir(folder);
	char path[SEGMENT_PATH_MAX];
	unsigned int from, incarnation, place;
	struct dirent *file;

	while (descriptor >= 0 && fcntl(descriptor, F_OFD_SETLKW, &turn) && errno == EINTR)
		;
	while (files && descriptor >= 0 && (file = readdir(files))) {
		if (sscanf(file->d_name, "%u.%u.%u", &from, &incarnation, &place) != 3 ||
		    from >= SEGMENT_PROCESSES || place >= SEGMENT_PROCESSES)
			continue;
		segment_link_path(from, incarnation, place, path);
		segment_remove_link_of(descriptor, from, path);
	}
	if (files)
		closedir(files);
	if (descriptor >= 0)
		close(descriptor);
}

/* A peer that still has a link to the former process of this place compares incarnations. */
static void segment_begin(void)
{
	struct segment_process *process = &processes[self];

	__atomic_store_n(&process->polled, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&process->sleeping, 0, __ATOMIC_RELAXED);
	for (unsigned int i = 0; i < SEGMENT_PROCESSES / 64; i++)
		__atomic_store_n(&process->links[i], 0, __ATOMIC_RELAXED);
	if (!__atomic_add_fetch(&process->incarnation, 1, __ATOMIC_RELEASE))
		__atomic_add_fetch(&process->incarnation, 1, __ATOMIC_RELEASE);
}

static int segment_mark_joined(void)
{
	uint32_t *page = joined;

	if (!page) {
		page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (page == MAP_FAILED)
			return errno;
		if (madvise(page, 1, MADV_WIPEONFORK)) {
			munmap(page, 1);
			return errno;
		}
		__atomic_store_n(&joined, page, __ATOMIC_RELEASE);
	}
	__atomic_store_n(page, 1, __ATOMIC_RELEASE);
	return 0;
}

static int segment_report(int error)
{
	if (error == EAGAIN)
		fprintf(stderr,
			"peerpin simulated adapter: no queue pairs: %d processes have them in %s\n",
			SEGMENT_PROCESSES, folder);
	else
		fprintf(stderr,
			"peerpin simulated adapter: no queue pairs: no files in /dev/shm and /tmp: "
			"%s\n",
			strerror(error));
	return error;
}

int segment_join(void)
{
	int descriptor, error;

	if (segment_joined())
		return 0;
	descriptor = segment_open();
	if (descriptor < 0)
		return segment_report(-descriptor);
	processes = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
	if (processes == MAP_FAILED) {
		error = errno;
		close(descriptor);
		return error;
	}
	madvise(processes, BYTES, MADV_DONTFORK);
	error = segment_take_place(descriptor);
	if (!error)
		error = segment_mark_joined();
	if (error) {
		munmap(processes, BYTES);
		close(descriptor);
		return segment_report(error);
	}
	segment_remove_links();
	segment_begin();
	close(descriptor);
	/* A kernel whose mappings do not keep the lock, as some sandboxes: take it again. */
	if (!segment_is_locked(self)) {
		struct flock lock = segment_lock_of(self);

		lock_descriptor = segment_open_file(0);
		if (lock_descriptor >= 0)
			fcntl(lock_descriptor, F_OFD_SETLK, &lock);
	}
	return 0;
}

void segment_ring(unsigned int place)
{
	struct segment_process *process = &processes[place];

	if (!__atomic_load_n(&process->sleeping, __ATOMIC_RELAXED) ||
	    !__atomic_exchange_n(&process->sleeping, 0, __ATOMIC_ACQ_REL))
		return;
	__atomic_add_fetch(&process->doorbell, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &process->doorbell, FUTEX_WAKE, 1, NULL, NULL, 0);
}
