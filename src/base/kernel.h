/* SPDX-License-Identifier: BSD-3-Clause */
/* kernel.h -- system calls by their numbers
 *
 * No call of libc: its functions for files, memory and sleep are cancellation points, and preloads
 * replace them. A thread cancelled inside a free would leave a lock taken, MPI libraries hook mmap
 * and munmap and take their own locks there, and profilers count the files of a program. The
 * functions return -errno on failure, and keep errno for the caller of a hook.
 */
#ifndef PEERPIN_BASE_KERNEL_H
#define PEERPIN_BASE_KERNEL_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* Up to 6 arguments, as the kernel takes them; missing ones are 0. */
#define kernel_call(...) KERNEL_CALL(__VA_ARGS__, 0, 0, 0, 0, 0, 0, 0)
#define KERNEL_CALL(number, a, b, c, d, e, f, ...)                                                 \
	kernel_enter(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

long kernel_enter(long number, long a, long b, long c, long d, long e, long f);

static inline ssize_t kernel_read(int fd, void *to, size_t size)
{
	return kernel_call(SYS_read, fd, to, size);
}

static inline int kernel_close(int fd)
{
	return (int)kernel_call(SYS_close, fd);
}

/* Move a descriptor above 2. A program that closed a standard stream may open the stream again, or
 * write to its number. On failure, too, `fd` is closed. */
static inline int kernel_keep_clear(int fd)
{
	int kept;

	if (fd < 0 || fd > 2)
		return fd;
	kept = (int)kernel_call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 3);
	kernel_close(fd);
	return kept;
}

/* `flags`: with O_CLOEXEC. The descriptor is never that of a standard stream. */
static inline int kernel_open_at(int folder, const char *name, int flags, mode_t mode)
{
	return kernel_keep_clear((int)kernel_call(SYS_openat, folder, name, flags, mode));
}

static inline int kernel_open(const char *name, int flags, mode_t mode)
{
	return kernel_open_at(AT_FDCWD, name, flags, mode);
}

static inline int kernel_link(const char *from, const char *to)
{
	return (int)kernel_call(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}

static inline int kernel_unlink_at(int folder, const char *name)
{
	return (int)kernel_call(SYS_unlinkat, folder, name, 0);
}

static inline int kernel_rename_at(int folder, const char *from, const char *to)
{
	return (int)kernel_call(SYS_renameat, folder, from, folder, to);
}

static inline ssize_t kernel_read_at(int fd, void *to, size_t size, size_t offset)
{
	return kernel_call(SYS_pread64, fd, to, size, offset);
}

/* readlink(2): it stores no terminating zero byte. */
static inline ssize_t kernel_read_link(const char *name, char *to, size_t size)
{
	return kernel_call(SYS_readlinkat, AT_FDCWD, name, to, size);
}

/* An entry of getdents64(2). */
struct kernel_entry {
	uint64_t inode;
	int64_t next;
	uint16_t length; /* bytes of this entry, up to the following one */
	uint8_t type;
	char name[];
};

/* Call `visit` for each entry of the folder but "." and "..", until `visit` returns false. */
static inline void kernel_walk(int folder, bool (*visit)(const char *name, void *argument),
			       void *argument)
{
	_Alignas(struct kernel_entry) char entries[2048];
	bool more = true;
	ssize_t length;

	while (more &&
	       (length = kernel_call(SYS_getdents64, folder, entries, sizeof(entries))) > 0) {
		for (ssize_t at = 0; more && at < length;) {
			struct kernel_entry *entry = (struct kernel_entry *)(entries + at);
			const char *dots = entry->name;

			at += entry->length;
			if (dots[0] != '.' || (dots[1] && (dots[1] != '.' || dots[2])))
				more = visit(entry->name, argument);
		}
	}
}

/* Not libc's munmap: memory hooks intercept it. */
static inline void kernel_unmap(void *address, size_t length)
{
	kernel_call(SYS_munmap, address, length);
}

/* Largest page size. */
#ifdef __aarch64__
#define KERNEL_PAGE_MAX 65536
#else
#define KERNEL_PAGE_MAX 4096
#endif

/* Children find these pages zeroed (MADV_WIPEONFORK, Linux 4.14). Private memory without a file. */
static inline int kernel_wipe_on_fork(void *pages, size_t length)
{
	return (int)kernel_call(SYS_madvise, pages, length, 18);
}

static inline int kernel_process(void)
{
	return (int)kernel_call(SYS_getpid);
}

static inline int kernel_thread(void)
{
	return (int)kernel_call(SYS_gettid);
}

/* Return true if this process has no such thread. */
static inline bool kernel_has_ended(int thread)
{
	return kernel_call(SYS_tgkill, kernel_process(), thread, 0) == -ESRCH;
}

/* Return nanoseconds; of CLOCK_REALTIME since 1970. */
static inline uint64_t kernel_time(clockid_t clock)
{
	struct timespec now = { 0 };

	kernel_call(SYS_clock_gettime, clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Return true if the process does not exist; a process of another user exists. */
static inline bool kernel_is_gone(int process)
{
	return kernel_call(SYS_kill, process, 0) == -ESRCH;
}

static inline void kernel_thread_name(char name[16])
{
	kernel_call(SYS_prctl, PR_GET_NAME, name, 0, 0, 0);
}

static inline void kernel_sleep(long nanoseconds)
{
	struct timespec time = { .tv_nsec = nanoseconds };

	kernel_call(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &time, NULL);
}

/* Wait while *word == value, at most `nanoseconds`; negative: no limit. Spurious returns occur. */
static inline void kernel_futex_wait(_Atomic uint32_t *word, uint32_t value, long nanoseconds)
{
	struct timespec time = { nanoseconds / 1000000000, nanoseconds % 1000000000 };

	kernel_call(SYS_futex, word, 128 /* FUTEX_WAIT_PRIVATE */, value,
		    nanoseconds < 0 ? NULL : &time, NULL, 0);
}

static inline void kernel_futex_wake(_Atomic uint32_t *word, int threads)
{
	kernel_call(SYS_futex, word, 129 /* FUTEX_WAKE_PRIVATE */, threads, NULL, NULL, 0);
}

/* Set the calling thread's mask of blocked signals: bit N - 1 for signal N. Return the former
 * mask. */
static inline uint64_t kernel_block_signals(uint64_t mask)
{
	uint64_t before = 0;

	kernel_call(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, &mask, &before, sizeof(mask));
	return before;
}

/* ---- files kept open or mapped ---- */

static inline int kernel_describe_at(int folder, const char *name, struct stat *what, int flags)
{
	return (int)kernel_call(SYS_newfstatat, folder, name, what, flags);
}

/* A seccomp profile may forbid fstat(2), which glibc has not called since 2.33. */
static inline int kernel_describe(int fd, struct stat *what)
{
	int error = (int)kernel_call(SYS_fstat, fd, what);

	return !error || error == -EBADF ? error : kernel_describe_at(fd, "", what, AT_EMPTY_PATH);
}

/* Return 0 if the descriptor is that file's, -EBADF if it is none or another file's, else -errno. A
 * program may close descriptors that it did not open, and reuse the numbers. */
static inline int kernel_check_file(int fd, dev_t device, ino_t inode)
{
	struct stat status;
	int error = kernel_describe(fd, &status);

	if (error)
		return error;
	return status.st_dev == device && status.st_ino == inode ? 0 : -EBADF;
}

/* Lock the file for this process, without waiting: F_RDLCK, F_WRLCK or F_UNLCK. EAGAIN or EACCES:
 * another process holds a lock; this process keeps its former lock. */
static inline int kernel_lock(int fd, short type)
{
	struct flock lock = { .l_type = type, .l_whence = SEEK_SET };

	return (int)kernel_call(SYS_fcntl, fd, F_SETLK, &lock);
}

/* ---- this process ---- */

static inline uid_t kernel_user(void)
{
	return (uid_t)kernel_call(SYS_geteuid);
}

static inline int kernel_limit(int resource, struct rlimit *limit)
{
	return (int)kernel_call(SYS_prlimit64, 0, resource, NULL, limit);
}

/* Return true if RLIMIT_MEMLOCK does not limit this thread (CAP_IPC_LOCK). */
static inline bool kernel_may_lock_all(void)
{
	struct {
		uint32_t version;
		int thread;
	} header = { 0x20080522, 0 };
	struct {
		uint32_t effective, permitted, inheritable;
	} capabilities[2] = { { 0, 0, 0 } };

	return !kernel_call(SYS_capget, &header, capabilities) &&
	       (capabilities[0].effective & (1u << 14 /* CAP_IPC_LOCK */));
}

/* Return seconds since 1970, comparable between the processes of a host. */
static inline uint64_t kernel_date(void)
{
	return kernel_time(CLOCK_REALTIME) / 1000000000u;
}

#endif
