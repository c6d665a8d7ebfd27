/* SPDX-License-Identifier: BSD-3-Clause */
/* capped.h -- arithmetic of counters: files may hold any number of 0 or more
 *
 * Sums and products saturate at INT64_MAX, the largest number of the JSON readers.
 */
#ifndef PEERPIN_BASE_CAPPED_H
#define PEERPIN_BASE_CAPPED_H

#include <stdint.h>

static inline int64_t add_capped(uint64_t one, uint64_t other)
{
	int64_t sum;

	return __builtin_add_overflow(one, other, &sum) ? INT64_MAX : sum;
}

static inline int64_t multiply_capped(uint64_t one, uint64_t other)
{
	int64_t product;

	return __builtin_mul_overflow(one, other, &product) ? INT64_MAX : product;
}

/* `part` of `whole` in units of 1 / `units`, rounded down: `units` only for the whole, or more. */
static inline uint64_t share_of(uint64_t part, uint64_t whole, uint64_t units)
{
	return part < whole ? (unsigned __int128)part * units / whole : units;
}

#endif
