/* SPDX-License-Identifier: BSD-3-Clause */
/* kernel.h -- system calls under one name
 *
 * Every name that a preloaded library refers to is looked up at the start of every process of a job, each for some
 * 770 instructions (tests/launcher/check_inert.sh watches over the sum). What is needed seldom is asked of the
 * kernel by its number instead. As with libc: -1 and errno.
 */
#ifndef PEERPIN_BASE_KERNEL_H
#define PEERPIN_BASE_KERNEL_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

static inline int kernel_open(const char *name, int flags, mode_t mode)
{
	return (int)syscall(SYS_openat, AT_FDCWD, name, flags, mode);
}

static inline ssize_t kernel_read(int fd, void *to, size_t size)
{
	return syscall(SYS_read, fd, to, size);
}

static inline ssize_t kernel_write(int fd, const void *from, size_t size)
{
	return syscall(SYS_write, fd, from, size);
}

static inline int kernel_close(int fd)
{
	return (int)syscall(SYS_close, fd);
}

static inline int kernel_link(const char *from, const char *to)
{
	return (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}

static inline int kernel_unlink(const char *name)
{
	return (int)syscall(SYS_unlinkat, AT_FDCWD, name, 0);
}

/* Where a symbolic link leads; not ended by a zero byte. */
static inline ssize_t kernel_read_link(const char *name, char *to, size_t size)
{
	return syscall(SYS_readlinkat, AT_FDCWD, name, to, size);
}

/* What a folder holds, as many as there is room for: struct kernel_entry, one behind the other. 0: no more. */
struct kernel_entry {
	uint64_t inode;
	int64_t next;
	uint16_t length; /* of this entry, so the way to the next one */
	uint8_t type;
	char name[];
};

static inline ssize_t kernel_entries(int fd, void *to, size_t size)
{
	return syscall(SYS_getdents64, fd, to, size);
}

/* MAP_FAILED where there is none. libc's mmap may be hooked by a memory hook. */
static inline void *kernel_map(size_t length, int protection, int flags)
{
	return (void *)syscall(SYS_mmap, NULL, length, protection, flags, -1, 0L);
}

static inline int kernel_protect(void *address, size_t length, int protection)
{
	return (int)syscall(SYS_mprotect, address, length, protection);
}

static inline int kernel_advise(void *address, size_t length, int advice)
{
	return (int)syscall(SYS_madvise, address, length, advice);
}

static inline int kernel_process(void)
{
	return (int)syscall(SYS_getpid);
}

static inline int kernel_thread(void)
{
	return (int)syscall(SYS_gettid);
}

/* Whether there is no such thread in this process. */
static inline bool kernel_has_ended(int thread)
{
	return syscall(SYS_tgkill, kernel_process(), thread, 0) == -1 && errno == ESRCH;
}

static inline int kernel_host(struct utsname *host)
{
	return (int)syscall(SYS_uname, host);
}

static inline int kernel_clock(struct timespec *now)
{
	return (int)syscall(SYS_clock_gettime, CLOCK_MONOTONIC, now);
}

static inline void kernel_name_thread(const char *name)
{
	syscall(SYS_prctl, PR_SET_NAME, name, 0, 0, 0);
}

/* The CPUs that a thread may run on; 0: the calling one, the process's number: its first. */
#define KERNEL_CPU_WORDS 128
struct kernel_cpus {
	uint64_t words[KERNEL_CPU_WORDS];
};

static inline bool kernel_get_cpus(int thread, struct kernel_cpus *cpus)
{
	*cpus = (struct kernel_cpus){ 0 };
	return syscall(SYS_sched_getaffinity, thread, sizeof(*cpus), cpus) > 0;
}

static inline void kernel_set_cpus(const struct kernel_cpus *cpus)
{
	syscall(SYS_sched_setaffinity, 0, sizeof(*cpus), cpus);
}

/* membarrier(2). 0, or it failed. */
static inline int kernel_barrier(int command)
{
	return (int)syscall(SYS_membarrier, command, 0, 0);
}

static inline void kernel_sleep(long nanoseconds)
{
	struct timespec time = { .tv_nsec = nanoseconds };

	syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &time, NULL);
}

/* Waits while the word has that value, at most so long; below 0: as long as it takes. May return for no reason. */
static inline void kernel_futex_wait(_Atomic uint32_t *word, uint32_t value, long nanoseconds)
{
	struct timespec time = { .tv_nsec = nanoseconds };

	syscall(SYS_futex, word, 128 /* FUTEX_WAIT_PRIVATE */, value, nanoseconds < 0 ? NULL : &time, NULL, 0);
}

static inline void kernel_futex_wake(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, 129 /* FUTEX_WAKE_PRIVATE */, 1, NULL, NULL, 0);
}

/* Sets the calling thread's mask of blocked signals, one bit for each; returns what it was. */
static inline uint64_t kernel_block_signals(uint64_t mask)
{
	uint64_t before = 0;

	syscall(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, &mask, &before, sizeof(mask));
	return before;
}

#endif
