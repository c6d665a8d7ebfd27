/* SPDX-License-Identifier: BSD-3-Clause */
/* source.h -- choices of a random program: from a seed, or from a fuzzer's bytes
 *
 * The same seed, or bytes, give the same choices on every machine.
 */
#ifndef PEERPIN_TESTS_RANDOM_SOURCE_H
#define PEERPIN_TESTS_RANDOM_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct source {
	uint64_t state;
	const uint8_t *bytes; /* NULL: from the seed, endless */
	size_t left;
};

static inline struct source source_of_seed(uint64_t seed, uint64_t stream)
{
	return (struct source){ .state =
					seed * 0xd1342543de82ef95u + stream * 0x9e3779b97f4a7c15u };
}

static inline struct source source_of_bytes(const uint8_t *bytes, size_t size)
{
	return (struct source){ .bytes = bytes, .left = size };
}

static inline bool source_is_over(const struct source *source)
{
	return source->bytes && !source->left;
}

/* A counter, scrambled. */
static inline uint64_t source_next(struct source *source)
{
	uint64_t value = source->state += 0x9e3779b97f4a7c15u;

	value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
	value = (value ^ value >> 27) * 0x94d049bb133111ebu;
	return value ^ value >> 31;
}

/* A number less than `below`. Exhausted bytes count as 0. */
static inline uint32_t choose(struct source *source, uint32_t below)
{
	uint32_t value = 0;

	if (!source->bytes)
		return (uint32_t)((source_next(source) >> 32) * below >> 32);
	for (uint32_t reach = 1; reach && reach < below; reach <<= 8) {
		value <<= 8;
		if (source->left) {
			value |= *source->bytes++;
			source->left--;
		}
	}
	return value % below;
}

static inline bool one_in(struct source *source, uint32_t number)
{
	return !choose(source, number);
}

#endif
