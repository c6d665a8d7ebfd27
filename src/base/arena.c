/* SPDX-License-Identifier: BSD-3-Clause */
/* arena.c -- objects of one size in one reserved address range */
#include "base/arena.h"

#include <errno.h>

#include "base/atomics.h"
#include "base/kernel.h"

#define HUGE_PAGE  ((size_t)2 << 20)
#define FIRST_STEP ((size_t)64 << 10)

static size_t arena_round_up(size_t size, size_t to)
{
	return (size + to - 1) / to * to;
}

/* Without addresses `base` stays NULL. */
static void arena_reserve(struct arena *arena)
{
	void *addresses;

	/* Halve the limit on failure: a limit on addresses (ulimit -v) may not allow the whole
	 * range. */
	for (; (size_t)arena->limit * arena->size >= FIRST_STEP; arena->limit /= 2) {
		addresses = kernel_map(
			arena_round_up((size_t)arena->limit * arena->size, HUGE_PAGE) + HUGE_PAGE,
			PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
		if (addresses) {
			arena->base = (char *)arena_round_up((uintptr_t)addresses, HUGE_PAGE);
			return;
		}
	}
}

/* Growth doubles the arena up to 2 MiB, then adds whole huge pages. Address translation dominates
 * random look-ups in a large table (measured: tests/bench/lookup). */
int arena_commit(struct arena *arena, uint32_t count)
{
	size_t ready = (size_t)arena->ready * arena->size, target = (size_t)count * arena->size,
	       step = ready < FIRST_STEP  ? FIRST_STEP
		      : ready < HUGE_PAGE ? ready
					  : HUGE_PAGE,
	       most;

	if (!arena->base)
		arena_reserve(arena);
	most = arena_round_up((size_t)arena->limit * arena->size, HUGE_PAGE);
	target = arena_round_up(target - ready, step) + ready;
	if (target > most)
		target = most;
	if (!arena->base || count > arena->limit ||
	    kernel_call(SYS_mprotect, arena->base + ready, target - ready, PROT_READ | PROT_WRITE))
		return -ENOMEM;
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
