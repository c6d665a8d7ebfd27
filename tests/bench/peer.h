/* SPDX-License-Identifier: BSD-3-Clause */
/* peer.h -- another registration cache, for the same ranges and the same queries
 *
 * UCX's ucs_rcache, as its users call it: a region is got and put back. There is none where it was
 * not installed when this was built. This header and peer_ucx.c know nothing of peerpin.
 */
#ifndef PEERPIN_TESTS_PEER_H
#define PEERPIN_TESTS_PEER_H

#include <stdint.h>

#include "bench.h"

#ifdef HAVE_UCX
#define PEER_NAME "UCX " UCX_VERSION

/* A cache in which [bases[i], bases[i] + sizes[i]) is registered, with the keys keys[i]. */
void peer_make(const uint64_t *bases, const uint64_t *sizes, uint64_t *keys, uint64_t count);

/* Asks `count` times for `length` bytes at addresses[start], addresses[start + 1], and so on
 * around; returns the sum of the keys that come out. */
uint64_t peer_use(const uint64_t *addresses, uint64_t addresses_count, uint64_t start,
		  uint64_t length, uint64_t count);
#endif

#endif
