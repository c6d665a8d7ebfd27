/* SPDX-License-Identifier: BSD-3-Clause */
/* peer.h -- another registration cache, for the same ranges and queries
 *
 * UCX's ucs_rcache, as its users call it: get and put of a region. Absent if not installed at build
 * time, or if this machine has another version. This header and peer_ucx.c are independent of
 * peerpin.
 */
#ifndef PEERPIN_TESTS_PEER_H
#define PEERPIN_TESTS_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "bench.h"

#ifdef HAVE_UCX
#define PEER_NAME "UCX " UCX_VERSION

/* Load UCX. False: it is not there. */
bool peer_begin(void);

/* A cache with [bases[i], bases[i] + sizes[i]) registered, with the keys keys[i]. */
void peer_make(const uint64_t *bases, const uint64_t *sizes, uint64_t *keys, uint64_t count);

/* Query `count` times `length` bytes at addresses[start], addresses[start + 1], ..., cyclically;
 * returns the sum of the keys. */
uint64_t peer_use(const uint64_t *addresses, uint64_t addresses_count, uint64_t start,
		  uint64_t length, uint64_t count);
#endif

#endif
