/* SPDX-License-Identifier: BSD-3-Clause */
/* pool.c -- objects of one size: carved from anonymous mappings, or in a reserved address range */
#include "base/pool.h"

#include <errno.h>
#include <string.h>

#include "base/atomics.h"
#include "base/kernel.h"

#define CHUNK_SIZE ((size_t)256 << 10)
#define HUGE_PAGE  ((size_t)2 << 20)
#define FIRST_STEP ((size_t)64 << 10)
#define AWAY	   ((uintptr_t)1 << 40)

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

/* ---- arenas ---- */

static size_t arena_round_up(size_t size, size_t to)
{
	return (size + to - 1) / to * to;
}

/* Far below the library, where programs rarely have anything, and above the heap. The driver has
 * the kernel choose addresses of GPU memory, next to the mappings before. With GiBs reserved there,
 * larger memory is away from the context's own, and takes the driver longer
 * (docs/performance/notes.md). NULL: no such place. */
static void *arena_place(size_t length)
{
	static _Atomic uintptr_t taken;
	uintptr_t library = (uintptr_t)&taken / HUGE_PAGE * HUGE_PAGE;

	if (library <= AWAY)
		return NULL;
	return (void *)(library - AWAY - add_relaxed(&taken, length) - length);
}

/* Under a limit on addresses (ulimit -v) reserve a 64th, and halve it on failure: the program and
 * the other arenas need the rest. Return 0 or -errno. */
static int arena_reserve(struct arena *arena)
{
	struct rlimit addresses = { .rlim_cur = RLIM_INFINITY };
	long start = -ENOMEM;
	size_t length;

	kernel_limit(RLIMIT_AS, &addresses);
	if (addresses.rlim_cur != RLIM_INFINITY)
		arena->limit /= 64;
	for (; (size_t)arena->limit * arena->size >= FIRST_STEP; arena->limit /= 2) {
		length = arena_round_up((size_t)arena->limit * arena->size, HUGE_PAGE) + HUGE_PAGE;
		start = kernel_call(SYS_mmap, arena_place(length), length, PROT_NONE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0L);
		if (start > 0) {
			arena->base = (char *)arena_round_up((uintptr_t)start, HUGE_PAGE);
			return 0;
		}
	}
	return (int)start;
}

/* Growth doubles the arena up to 2 MiB, then adds whole huge pages. Address translation dominates
 * random look-ups in a large table. */
int arena_commit(struct arena *arena, uint32_t count)
{
	size_t ready = (size_t)arena->ready * arena->size, target = (size_t)count * arena->size,
	       step = ready < FIRST_STEP  ? FIRST_STEP
		      : ready < HUGE_PAGE ? ready
					  : HUGE_PAGE,
	       most;
	int error = arena->base ? 0 : arena_reserve(arena);

	most = arena_round_up((size_t)arena->limit * arena->size, HUGE_PAGE);
	target = arena_round_up(target - ready, step) + ready;
	if (target > most)
		target = most;
	if (!error && count > arena->limit)
		error = -ENOSPC;
	if (!error)
		error = (int)kernel_call(SYS_mprotect, arena->base + ready, target - ready,
					 PROT_READ | PROT_WRITE);
	if (error) {
		store_relaxed(&pool_refused, -error);
		return -ENOMEM;
	}
	if (ready >= HUGE_PAGE)
		kernel_call(SYS_madvise, arena->base + ready, target - ready, MADV_HUGEPAGE);
	store_release(&arena->ready, (uint32_t)(target / arena->size));
	return 0;
}

void arena_clear(struct arena *arena)
{
	size_t words = (size_t)arena->ready * arena->size / sizeof(uint64_t);
	_Atomic uint64_t *word = (_Atomic uint64_t *)arena->base;

	if (!words || !kernel_call(SYS_madvise, word, words * sizeof(*word), MADV_DONTNEED))
		return;
	/* Locked memory stays. */
	for (; words; words--, word++) {
		if (load_relaxed(word))
			store_release(word, 0);
	}
}
