/* SPDX-License-Identifier: BSD-3-Clause */
/* arena.h -- objects of one size that are known by a number, in one run of addresses
 *
 * A number takes 32 bits where a pointer takes 64, and turns into an address by one addition. For that the addresses
 * are reserved once, without memory behind them (mlockall() finds nothing to lock, a core dump nothing to write),
 * and become memory from the front as they are needed. Nothing is ever given back: memory stays of one type, which
 * wait-free readers rely on. Like a pool's (pool.h) its memory comes straight from the kernel.
 *
 * The owner's lock guards an arena; `base` and what is in memory may be read without it.
 */
#ifndef PEERPIN_BASE_ARENA_H
#define PEERPIN_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

struct arena {
	uint32_t size;		/* bytes of one object, a power of two up to 4096 */
	uint32_t limit;		/* objects at most; fewer where the process has not so many addresses */
	char *base;		/* of object 0, aligned to 2 MiB, once something is ready */
	_Atomic uint32_t ready; /* objects in memory, zeroed at first */
	uint32_t used;		/* of these, handed out from the front by arena_next() */
};

/* An array of a negative size where the objects' is no power of two. */
#define ARENA_INITIALIZER(type, count)                                                                       \
	{                                                                                                    \
		.size = sizeof(type) + 0 * sizeof(char[sizeof(type) & (sizeof(type) - 1) ? -1 : 1]),         \
		.limit = (count), .used = 1                                                                  \
	}

/* Makes sure that objects 0 to count - 1 are in memory. 0 or -ENOMEM. */
int arena_grow(struct arena *arena, uint32_t count);

/* The number of an object that was never handed out, which is in memory already; 0 is none's. */
static inline uint32_t arena_next(struct arena *arena)
{
	return arena->used++;
}

#endif
