/* SPDX-License-Identifier: BSD-3-Clause */
/* pool.c -- fixed-size objects carved from anonymous mappings */
#include "base/pool.h"

#include <string.h>

#include "base/atomics.h"
#include "base/kernel.h"

#define CHUNK_SIZE ((size_t)256 << 10)

_Atomic int pool_refused;

void *pool_map(size_t length)
{
	long address = kernel_call(SYS_mmap, NULL, length, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);

	if (address > 0)
		return (void *)address;
	store_relaxed(&pool_refused, (int)-address);
	return NULL;
}

void *pool_get(struct pool *pool)
{
	size_t length = pool->size > CHUNK_SIZE ? pool->size : CHUNK_SIZE;
	void *object = pool->free;

	if (object) {
		memcpy(&pool->free, object, sizeof(pool->free));
		return object;
	}
	if (!pool->chunk || (size_t)(pool->end - pool->chunk) < pool->size) {
		pool->chunk = pool_map(length);
		if (!pool->chunk)
			return NULL;
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
