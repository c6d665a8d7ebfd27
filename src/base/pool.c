/* SPDX-License-Identifier: BSD-3-Clause */
/* pool.c -- fixed-size objects carved from anonymous mappings */
#include "base/pool.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHUNK_SIZE ((size_t)256 << 10)

void *pool_get(struct pool *pool)
{
	size_t length = pool->size > CHUNK_SIZE ? pool->size : CHUNK_SIZE;
	int saved_errno = errno;
	void *object = pool->free;
	long chunk;

	if (object) {
		memcpy(&pool->free, object, sizeof(pool->free));
		return object;
	}
	if (!pool->chunk || (size_t)(pool->end - pool->chunk) < pool->size) {
		/* The system call itself: libc's mmap may be hooked. */
		chunk = syscall(SYS_mmap, NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				-1, 0L);
		if (chunk == -1) {
			errno = saved_errno;
			return NULL;
		}
		pool->chunk = (char *)chunk;
		pool->end = pool->chunk + length;
	}
	object = pool->chunk;
	pool->chunk += pool->size;
	return object;
}

void pool_put(struct pool *pool, void *object)
{
	memcpy(object, &pool->free, sizeof(pool->free));
	pool->free = object;
}
