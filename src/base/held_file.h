/* SPDX-License-Identifier: BSD-3-Clause */
/* held_file.h -- a file that the library holds open while the program runs
 *
 * A program may close descriptors that it did not open (closefrom(3), close_range(2)) and reuse
 * their numbers. Compare the file before each use and before the close. A registration, a write or
 * a close through a reused number would reach a file of the program. The kernel has no close that
 * compares: between a comparison and the system call that follows it, the hazard remains.
 */
#ifndef PEERPIN_BASE_HELD_FILE_H
#define PEERPIN_BASE_HELD_FILE_H

#include "base/kernel.h"

struct held_file {
	int fd; /* negative: none, or -errno of held_file_of() */
	dev_t device;
	ino_t inode; /* 0: unknown */
};

/* Take over the descriptor that the caller has just opened. A file that cannot be described could
 * not be recognized later: it is closed at once. */
static inline struct held_file held_file_of(int fd)
{
	struct stat status = { .st_ino = 0 };
	int error = fd < 0 ? fd : kernel_describe(fd, &status);

	if (error && fd >= 0 && error != -EBADF)
		kernel_close(fd);
	return (struct held_file){ error ? error : fd, status.st_dev, status.st_ino };
}

/* Return 0, -EBADF if the program has closed the descriptor, or -errno of the comparison. */
static inline int held_file_check(const struct held_file *file)
{
	return file->fd < 0 ? file->fd : kernel_check_file(file->fd, file->device, file->inode);
}

static inline bool held_file_is_open(const struct held_file *file)
{
	return file->inode && !held_file_check(file);
}

static inline void held_file_close(struct held_file *file)
{
	if (held_file_is_open(file))
		kernel_close(file->fd);
	file->fd = -1;
}

#endif
