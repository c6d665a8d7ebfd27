/* SPDX-License-Identifier: BSD-3-Clause */
/* pool.h -- objects of one size, in memory outside of allocators and memory hooks
 *
 * The library takes objects under its own locks and inside an MPI library's registration cache.
 * malloc and free may unmap memory. The MPI library hooks munmap and takes its cache's lock there:
 * lock inversion, a known deadlock (facts/interception.md, trap T27). Chunks therefore come from
 * the kernel and are never released: wait-free readers rely on the type of the memory.
 *
 * The owner's lock guards a pool.
 */
#ifndef PEERPIN_BASE_POOL_H
#define PEERPIN_BASE_POOL_H

#include <stdatomic.h>
#include <stddef.h>

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

#endif
