/* SPDX-License-Identifier: BSD-3-Clause */
/* pool.h -- objects of one size, from memory that no allocator and no memory hook ever sees
 *
 * The library takes objects while it holds its own locks and while an MPI library is in the middle of its
 * registration cache. malloc and free may unmap, the MPI library hooks munmap and takes its cache's lock
 * there: lock inversion (a known deadlock: measured sheet interception, trap T27). So chunks come straight
 * from the kernel, and are never given back: memory stays of one type, which wait-free readers rely on.
 *
 * A pool is guarded by its owner's lock.
 */
#ifndef PEERPIN_BASE_POOL_H
#define PEERPIN_BASE_POOL_H

#include <stddef.h>

struct pool {
	size_t size;	   /* bytes of one object, a multiple of 8 */
	void *free;	   /* linked through the first word of each */
	char *chunk, *end; /* not yet handed out */
};

#define POOL_INITIALIZER(type)                                                                               \
	{                                                                                                    \
		.size = (sizeof(type) + 7) & ~(size_t)7                                                      \
	}

/* An object, zeroed the first time that it is handed out and as it was put back afterwards, but for its
 * first word; NULL if the kernel has no memory. */
void *pool_get(struct pool *pool);
void pool_put(struct pool *pool, void *object);

#endif
