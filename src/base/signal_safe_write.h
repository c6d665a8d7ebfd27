/* SPDX-License-Identifier: BSD-3-Clause */
/* signal_safe_write.h -- writes for which nobody is killed
 *
 * A reader that has gone, or a limit on the size of files, ends a program that writes. What is written here the program
 * has not written: it must not end for it, nor find a signal that it did not cause.
 */
#ifndef PEERPIN_BASE_QUIET_H
#define PEERPIN_BASE_QUIET_H

#include <stddef.h>
#include <sys/types.h>

/* Writes in one piece; goes on if it is interrupted before it has begun. 0 or an errno value. errno may change. */
int signal_safe_write(int fd, const void *bytes, size_t length);

/* As write(2), which may take less; goes on if it is interrupted. The number of bytes, or below 0 an errno value. */
ssize_t signal_safe_write_some(int fd, const void *bytes, size_t length);

/* Gives the file memory for that length. The same. */
int signal_safe_allocate(int fd, size_t length);

#endif
