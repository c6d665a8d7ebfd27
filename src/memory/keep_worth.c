/* SPDX-License-Identifier: BSD-3-Clause */
/* keep_worth.c -- whether freed memory of cuMemAlloc is kept
 *
 * What two threads store at once may get lost.
 */
#include "memory/keep_worth.h"

#include "base/atomics.h"
#include "memory/kept.h"
#include "memory/lookup.h"

/* At first. None of the 11 recorded programs (tests/gpu/replay) spends it. */
#define FIRST 16

/* The most: so many new sizes in a row end no reuse of those that repeat. */
#define MOST 64

/* Of a match. Of small memory it saves 1.4 µs, and a miss costs as much or more; of larger memory
 * it saves a pair of calls, and a miss costs less than half of one (measured). */
#define SMALL_MATCH 1
#define LARGE_MATCH 2

/* Of an allocation of a size that was freed: more than a miss costs, else a program of which half
 * the sizes repeat would never have credit again. */
#define FREED_MATCH 2

#define LOGARITHM_MIN 9u /* of a class */
#define CLASSES	      ((ADDRESS_BITS - LOGARITHM_MIN) * 8)

static struct worth {
	struct account {
		_Atomic int spent;	 /* FIRST, less the credit: 0 at first */
		_Atomic uint64_t missed; /* misses that were not freed yet, about */
	} accounts[2];			 /* of larger memory, of small memory */
	/* Of each class of sizes, eight for a power of two: number of those freed for want of
	 * credit for which no allocation stands yet (above ADDRESS_BITS), and the largest, about.
	 */
	_Atomic uint64_t freed[CLASSES];
} worths[KEPT_LISTS];

#define ONE_FREED ((uint64_t)1 << ADDRESS_BITS)
#define FREED_MAX UINT16_MAX /* of a class */

static uint64_t keep_worth_largest(uint64_t freed)
{
	return freed & (ONE_FREED - 1);
}

static struct account *keep_worth_account(unsigned int list, uint64_t bytes)
{
	return &worths[list].accounts[bytes <= KEPT_SMALL];
}

static _Atomic uint64_t *keep_worth_freed_of(unsigned int list, uint64_t bytes)
{
	uint64_t size = bytes > 1 << LOGARITHM_MIN ? bytes - 1 : 1 << LOGARITHM_MIN;
	unsigned int logarithm = 63 - (unsigned int)__builtin_clzll(size);

	return &worths[list].freed[(logarithm - LOGARITHM_MIN) * 8 + (size >> (logarithm - 3) & 7)];
}

/* No more than there would have been room for. */
void keep_worth_freed(unsigned int list, uint64_t bytes)
{
	_Atomic uint64_t *freed = keep_worth_freed_of(list, bytes);
	uint64_t before = load_relaxed(freed), count = before / ONE_FREED;
	uint64_t largest = count ? keep_worth_largest(before) : 0;
	uint64_t most = bytes ? kept_room(list, 0) / bytes : 0;

	if (most > FREED_MAX)
		most = FREED_MAX;
	count = count < most ? count + 1 : most ? most : 1;
	store_relaxed(freed, count * ONE_FREED | (largest > bytes ? largest : bytes));
}

/* Within 0 and MOST. */
static void keep_worth_add(struct account *account, int credit)
{
	int spent = load_relaxed(&account->spent) - credit;

	if (spent >= FIRST - MOST && spent <= FIRST)
		store_relaxed(&account->spent, spent);
}

void keep_worth_matched(unsigned int list, uint64_t bytes)
{
	keep_worth_add(keep_worth_account(list, bytes),
		       bytes <= KEPT_SMALL ? SMALL_MATCH : LARGE_MATCH);
}

bool keep_worth_has(unsigned int list, uint64_t bytes, bool is_new)
{
	struct account *account = keep_worth_account(list, bytes);
	uint64_t missed = load_relaxed(&account->missed);

	if (is_new && missed) {
		store_relaxed(&account->missed, missed - 1);
		keep_worth_add(account, -1);
	}
	return load_relaxed(&account->spent) < FIRST;
}

void keep_worth_missed(unsigned int list, uint64_t bytes, uint64_t number)
{
	_Atomic uint64_t *freed = keep_worth_freed_of(list, bytes);
	struct account *account = keep_worth_account(list, bytes);
	uint64_t before = load_relaxed(freed), missed = load_relaxed(&account->missed);

	if (before >= ONE_FREED && keep_worth_largest(before) >= bytes) {
		store_relaxed(freed, before - ONE_FREED);
		keep_worth_add(account, FREED_MATCH);
	} else if (missed < number) {
		store_relaxed(&account->missed, missed + 1);
	}
}
