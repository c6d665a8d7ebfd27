/* SPDX-License-Identifier: BSD-3-Clause */
/* signal_safe_write.h -- writes without SIGPIPE and SIGXFSZ
 *
 * A closed reader or a limit on file sizes kills a program that writes. A write of peerpin must not
 * end the program, nor leave a signal that the program did not cause.
 */
#ifndef PEERPIN_BASE_SIGNAL_SAFE_WRITE_H
#define PEERPIN_BASE_SIGNAL_SAFE_WRITE_H

#include <stddef.h>
#include <sys/types.h>

/* Write all bytes: with one write(2), unless that writes less. Return 0 or -errno. */
int signal_safe_write(int fd, const void *bytes, size_t length);
int signal_safe_write_at(int fd, const void *bytes, size_t length, off_t at);

#endif
