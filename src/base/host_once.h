/* SPDX-License-Identifier: BSD-3-Clause */
/* host_once.h -- chooses the process of a job on a host that reports a message
 *
 * The ranks of a job share a small mapped file in the runtime folder. The first rank that stores a
 * message's hash there prints the message. Without a job, a rank, a folder or a free slot every
 * rank prints: a duplicate is better than silence. The first claim creates the file. Any thread;
 * nothing is allocated; no call waits for another process.
 */
#ifndef PEERPIN_BASE_HOST_ONCE_H
#define PEERPIN_BASE_HOST_ONCE_H

#include <stdbool.h>
#include <stdint.h>

/* Return true if the caller is the first of its job on this host, or if that cannot be decided. */
bool host_once_take(uint64_t hash);

/* Hash a text: equal in every process, never 0. */
uint64_t host_once_hash(const char *text);

#endif
