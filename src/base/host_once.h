/* SPDX-License-Identifier: BSD-3-Clause */
/* host_once.h -- which process of a job tells what all of them on this host could tell
 *
 * The ranks of a job share a small mapped file in the runtime folder; a message is the first one's that stores its hash there.
 * Where there is no job, no rank, no folder or no room, everybody tells: a message twice is better than none. No file
 * is made before the first claim. Any thread; nothing is allocated, and no other process is waited for.
 */
#ifndef PEERPIN_BASE_CLAIMS_H
#define PEERPIN_BASE_CLAIMS_H

#include <stdbool.h>
#include <stdint.h>

/* True: the caller is the first of its job on this host, or nobody knows. */
bool host_once_take(uint64_t hash);

/* Of a text, the same in every process. */
uint64_t host_once_hash(const char *text);

#endif
