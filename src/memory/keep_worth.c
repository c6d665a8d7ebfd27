/* SPDX-License-Identifier: BSD-3-Clause */
/* keep_worth.c -- whether freed memory of cuMemAlloc is kept
 *
 * A credit or a size that two threads store at once may get lost.
 */
#include "memory/keep_worth.h"

#include "base/atomics.h"
#include "memory/kept.h"
#include "memory/lookup.h"

/* At first. Two of the 11 recorded programs (tests/gpu/replay) spend it: kept memory serves 94.1 %
 * of the allocations of one instead of 94.6, and 98.8 instead of 98.9 of the other. */
#define FIRST 16

/* A program may allocate so much that it did not free before, between sizes that it repeats. */
#define MOST 64

/* Of a match. Of small memory it saves 1.4 µs, and a miss costs as much or more; of larger memory
 * it saves a pair of calls, and a miss costs less than half of one (measured). */
#define SMALL_MATCH 1
#define LARGE_MATCH 2

#define LOGARITHM_MIN 9u /* of a class */
#define CLASSES	      ((ADDRESS_BITS - LOGARITHM_MIN) * 8)

static struct worth {
	_Atomic int spent[2]; /* FIRST, less the credit: of larger memory, and of small memory */
	/* Of each class of sizes, eight for a power of two: the last one that was freed and not
	 * kept; 0: none, or it was allocated again. */
	_Atomic uint64_t freed[CLASSES];
} worths[KEPT_LISTS];

static _Atomic int *keep_worth_spent(unsigned int list, uint64_t bytes)
{
	return &worths[list].spent[bytes <= KEPT_SMALL];
}

static _Atomic uint64_t *keep_worth_freed_of(unsigned int list, uint64_t bytes)
{
	uint64_t size = bytes > 1 << LOGARITHM_MIN ? bytes - 1 : 1 << LOGARITHM_MIN;
	unsigned int logarithm = 63 - (unsigned int)__builtin_clzll(size);

	return &worths[list].freed[(logarithm - LOGARITHM_MIN) * 8 + (size >> (logarithm - 3) & 7)];
}

bool keep_worth_has(unsigned int list, uint64_t bytes)
{
	return load_relaxed(keep_worth_spent(list, bytes)) < FIRST;
}

void keep_worth_freed(unsigned int list, uint64_t bytes)
{
	store_relaxed(keep_worth_freed_of(list, bytes), bytes);
}

void keep_worth_matched(unsigned int list, uint64_t bytes)
{
	int spent = load_relaxed(keep_worth_spent(list, bytes));
	int less = spent - (bytes <= KEPT_SMALL ? SMALL_MATCH : LARGE_MATCH);

	if (less >= FIRST - MOST)
		store_relaxed(keep_worth_spent(list, bytes), less);
}

void keep_worth_missed(unsigned int list, uint64_t bytes, bool has_kept)
{
	_Atomic uint64_t *freed = keep_worth_freed_of(list, bytes);
	int spent = load_relaxed(keep_worth_spent(list, bytes));

	if (load_relaxed(freed) && load_relaxed(freed) >= bytes) {
		store_relaxed(freed, 0);
		keep_worth_matched(list, bytes);
	} else if (has_kept && spent < FIRST) {
		store_relaxed(keep_worth_spent(list, bytes), spent + 1);
	}
}
