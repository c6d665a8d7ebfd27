/* SPDX-License-Identifier: BSD-3-Clause */
/* pool.c -- fixed-size objects carved from anonymous mappings */
#include "base/pool.h"

#include <string.h>

#include "base/kernel.h"

#define CHUNK_SIZE ((size_t)256 << 10)

void *pool_get(struct pool *pool)
{
	size_t length = pool->size > CHUNK_SIZE ? pool->size : CHUNK_SIZE;
	void *object = pool->free;

	if (object) {
		memcpy(&pool->free, object, sizeof(pool->free));
		return object;
	}
	if (!pool->chunk || (size_t)(pool->end - pool->chunk) < pool->size) {
		pool->chunk = kernel_map_memory(length);
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
