/* SPDX-License-Identifier: BSD-3-Clause */
/* pool.h -- objects of one size, in memory outside of allocators and memory hooks: addressed by
 * pointer in a pool, by index in an arena
 *
 * The library takes objects under its own locks and inside an MPI library's registration cache.
 * malloc and free may unmap memory. The MPI library hooks munmap and takes its cache's lock there:
 * lock inversion, a known deadlock (T27 of tests/intercept/check_traps.sh). Chunks therefore come
 * from the kernel and are never released: wait-free readers rely on the type of the memory.
 *
 * The owner's lock guards a pool, and an arena.
 */
#ifndef PEERPIN_BASE_POOL_H
#define PEERPIN_BASE_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "base/atomics.h"

struct pool {
	size_t size;	   /* bytes of one object, a multiple of 8 */
	void *free;	   /* free list, linked through each object's first word */
	char *chunk, *end; /* unused rest of the chunk */
};

#define POOL_INITIALIZER(type)                                                                     \
	{                                                                                          \
		.size = (sizeof(type) + 7) & ~(size_t)7                                            \
	}

/* errno of the last growth of a pool or an arena that failed; 0: none since the last report. */
extern _Atomic int pool_refused;

/* Zeroed memory of this process alone; NULL on failure, with pool_refused set. */
void *pool_map(size_t length);

/* Return an object; NULL if the kernel has no memory. A new object is zeroed; a reused one is as at
 * pool_put(), except its first word. */
void *pool_get(struct pool *pool);
void pool_put(struct pool *pool, void *object);

/* Objects addressed by a 32-bit index, in one address range.
 *
 * An index takes 32 bits, a pointer 64; one addition turns an index into an address. The range is
 * reserved once, without memory: mlockall() locks nothing in it and a core dump writes nothing.
 * Memory is committed from the front as needed and never released. Readers may use `base` and
 * committed objects without the lock.
 */
struct arena {
	uint32_t size;		/* bytes of one object, a power of two up to 4096 */
	uint32_t limit;		/* most objects; halved until the process has the addresses */
	char *base;		/* object 0, aligned to 2 MiB; NULL before the first growth */
	_Atomic uint32_t ready; /* objects in memory, zeroed when committed */
	uint32_t used;		/* index of the first unused object */
};

/* Fail to compile unless the size of the type is a power of two. */
#define ARENA_INITIALIZER(type, count)                                                             \
	{                                                                                          \
		.size = sizeof(type) +                                                             \
			0 * sizeof(char[sizeof(type) & (sizeof(type) - 1) ? -1 : 1]),              \
		.limit = (count), .used = 1                                                        \
	}

/* arena_grow() alone calls this. */
int arena_commit(struct arena *arena, uint32_t count) __attribute__((cold));

/* Commit objects 0 to count - 1. Return 0 or -ENOMEM; errno is kept. */
static inline int arena_grow(struct arena *arena, uint32_t count)
{
	return count <= load_relaxed(&arena->ready) ? 0 : arena_commit(arena, count);
}

/* Make all objects zero, and give their memory back. Readers find an object as it was, or zero. */
void arena_clear(struct arena *arena);

/* Return the index of an unused object, never 0. The caller has committed its memory. */
static inline uint32_t arena_next(struct arena *arena)
{
	return arena->used++;
}

#endif
