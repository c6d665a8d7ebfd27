/* SPDX-License-Identifier: BSD-3-Clause */
/* holds.h -- client MRs of a region, counted without a lock
 *
 * Each region has a word in each of HOLDS_STRIPES stripes: its generation, and the number of client
 * MRs that threads of that stripe hold. A hold names a region in one generation; that of a client
 * MR (client_mr.h) names the stripe of its thread, too. So threads that hit the same memory change
 * different cache lines, and read the rest. Rules:
 *
 * - An allocation's entry publishes a hold (entry.h) while the region is registered, the allocation
 *   live, and a client has requested it before. The generation ends, in each stripe, before the
 *   region is deregistered, and before the keys of the next generation are stored. A region ends
 *   before the free of its last allocation continues.
 * - A hit loads the hold, then range and keys of its region, then takes the hold: an atomic
 *   increment that fails if the generation has ended in the stripe. So range and keys are of a
 *   registered region, which no eviction can end from then on. An allocation may have several
 *   regions, for parts and the whole, each with its own range and keys; its entry publishes one of
 *   their holds, and one region may be published by the entries of several allocations.
 * - A second look at the allocation's record and at the domain follows, because the entry may
 *   belong to a new allocation, and the struct of the domain to a new domain. A hit that overlaps
 *   the free is undone, or is counted as revoked when the region ends.
 * - An eviction ends a generation only if no client MR holds it (holds_claim): stripe by stripe,
 *   and if a later one is held, it restores those before, which no client MR holds. The free of the
 *   region's last allocation ends the generation in any case and revokes the rest: holds_drop() of
 *   a client MR then finds the next generation, of which no hold is taken, and counts down there.
 *   Until all have counted down the region's struct is not reused, because a protection domain with
 *   client MRs cannot be deallocated.
 * - Words are type-stable and generations do not repeat within 2^32 ends of one struct. A thread
 *   that ends inside a hit leaves one hold taken: its region is not evicted, and ends with its
 *   allocations, and its protection domain stays busy. A forked child has a copy of its own.
 */
#ifndef PEERPIN_REGISTRATION_HOLDS_H
#define PEERPIN_REGISTRATION_HOLDS_H

#include <assert.h>

#include "registration/objects.h"
#include "report/statistics.h"

#define HOLDS_COUNT ((uint64_t)UINT32_MAX)

/* A hold: the generation in the lower half, above it the region's number, above that the stripe,
 * in 3 bits (client_mr.c uses the others). */
#define HOLDS_NUMBER_SHIFT 32
#define HOLDS_STRIPE_SHIFT 56
#define HOLDS_REGIONS	   (1u << (HOLDS_STRIPE_SHIFT - HOLDS_NUMBER_SHIFT))
#define HOLDS_STRIPES	   6u

/* Words of a stripe; the pages of all stripes are adjacent. Words of adjacent regions are 64
 * bytes apart: threads with buffers of their own, allocated one after the other, share no cache
 * line. */
#define HOLDS_PAGE 512u

struct holds_page {
	_Atomic uint64_t words[HOLDS_PAGE];
};

/* Evictions so far, also for a place in an entry: the time of a use, for the order of evictions.
 * Guarded by registration_mutex; read without. */
extern _Atomic uint32_t holds_time __attribute__((visibility("hidden")));

extern struct arena holds_regions __attribute__((visibility("hidden")));
extern struct arena holds_pages __attribute__((visibility("hidden")));

static inline struct region_hits *holds_hits(uint64_t hold)
{
	return (struct region_hits *)holds_regions.base +
	       (hold >> HOLDS_NUMBER_SHIFT) % HOLDS_REGIONS;
}

/* NULL for 0. */
static inline struct region_hits *holds_at(uint32_t number)
{
	return number ? holds_hits(0) + number : NULL;
}

static inline uint32_t holds_number(const struct region_hits *hits)
{
	return (uint32_t)(hits - holds_hits(0));
}

/* The word in stripe 0; those in the others follow at this distance. */
#define HOLDS_STRIDE (sizeof(struct holds_page) / sizeof(uint64_t))

static inline _Atomic uint64_t *holds_words(const struct region_hits *hits)
{
	uint32_t number = holds_number(hits), place = number % HOLDS_PAGE;
	struct holds_page *page =
		(struct holds_page *)holds_pages.base + number / HOLDS_PAGE * HOLDS_STRIPES;

	return &page->words[place % 64 * (HOLDS_PAGE / 64) + place / 64];
}

static inline _Atomic uint64_t *holds_word(const struct region_hits *hits, unsigned int stripe)
{
	return holds_words(hits) + stripe * HOLDS_STRIDE;
}

/* The hold of the region in its current generation, with registration_mutex held. */
static inline uint64_t holds_of(const struct region_hits *hits)
{
	return (uint64_t)holds_number(hits) << HOLDS_NUMBER_SHIFT |
	       load_acquire(holds_word(hits, 0)) >> 32;
}

/* The region of a hold without a stripe; NULL: none, or it has ended. With registration_mutex
 * held. */
static inline struct region *holds_region(uint64_t hold)
{
	const struct region_hits *hits = holds_hits(hold);

	return hold && holds_of(hits) == hold ? hits->region : NULL;
}

/* True if the region contains [address, address + length). Without the lock: only if its hold is
 * then taken. */
static inline bool holds_serve(const struct region_hits *hits, uint64_t address, uint64_t length)
{
	uint64_t offset = address - load_acquire(&hits->base);
	uint64_t extent = load_acquire(&hits->length);

	return offset < extent && length <= extent - offset;
}

/* Add `change` client MRs. False: the hold's generation has ended. */
static inline bool holds_change(uint64_t hold, uint64_t change)
{
	_Atomic uint64_t *word =
		holds_word(holds_hits(hold), (unsigned int)(hold >> HOLDS_STRIPE_SHIFT));
	uint64_t value = load_relaxed(word);

	do {
		if ((uint32_t)hold != value >> 32)
			return false;
		assert(change == 1 || (value & HOLDS_COUNT));
	} while (!replace_seq_cst(word, &value, value + change));
	return true;
}

/* Take a published hold for a client MR. Returns the client MR's hold; 0: the generation has
 * ended. */
static inline uint64_t holds_take(uint64_t hold)
{
	struct region_hits *hits = holds_hits(hold);
	uint32_t now = load_relaxed(&holds_time);

	hold |= (uint64_t)(statistics_thread() % HOLDS_STRIPES) << HOLDS_STRIPE_SHIFT;
	if (!holds_change(hold, 1))
		return 0;
	/* The store is rare, so that hits only read the line. */
	if (load_relaxed(&hits->used_at) != now)
		store_relaxed(&hits->used_at, now);
	return hold;
}

/* The same hold in the next generation: a client MR that was revoked. */
static inline uint64_t holds_revoked(uint64_t hold)
{
	return (hold & ~(uint64_t)UINT32_MAX) | (uint32_t)(hold + 1);
}

/* Give a taken hold back. False: it was revoked. */
static inline bool holds_drop(uint64_t hold)
{
	if (holds_change(hold, (uint64_t)-1))
		return true;
	holds_change(holds_revoked(hold), (uint64_t)-1);
	return false;
}

/* While hits run, an estimate: holds_claim() decides. */
static inline bool holds_any(const struct region_hits *hits)
{
	_Atomic uint64_t *words = holds_words(hits);
	uint64_t any = 0;

	for (unsigned int stripe = 0; stripe < HOLDS_STRIPES; stripe++)
		any |= load_seq_cst(words + stripe * HOLDS_STRIDE);
	return any & HOLDS_COUNT;
}

/* The number of client MRs that hold it, in its current generation or revoked; while hits run, an
 * estimate. */
static inline unsigned int holds_count(const struct region_hits *hits)
{
	_Atomic uint64_t *words = holds_words(hits);
	uint64_t count = 0;

	for (unsigned int stripe = 0; stripe < HOLDS_STRIPES; stripe++)
		count += load_relaxed(words + stripe * HOLDS_STRIDE) & HOLDS_COUNT;
	return (unsigned int)count;
}

/* End the generation, with registration_mutex held. The struct may be reused once !holds_any().
 * Returns the number of revoked holds. */
static inline unsigned int holds_end(struct region_hits *hits)
{
	_Atomic uint64_t *words = holds_words(hits);
	uint64_t revoked = 0;

	for (unsigned int stripe = 0; stripe < HOLDS_STRIPES; stripe++)
		revoked +=
			add_seq_cst(words + stripe * HOLDS_STRIDE, HOLDS_COUNT + 1) & HOLDS_COUNT;
	return (unsigned int)revoked;
}

/* Forget the revoked holds of an ended generation, with registration_mutex held: holds_drop()
 * changes nothing. */
static inline void holds_forget(struct region_hits *hits)
{
	uint64_t next = (holds_of(hits) + 1) << 32;

	for (unsigned int stripe = 0; stripe < HOLDS_STRIPES; stripe++)
		store_release(holds_word(hits, stripe), next);
}

/* End the generation unless it is held, with registration_mutex held. */
static inline bool holds_claim(struct region_hits *hits)
{
	uint64_t unheld = holds_of(hits) << 32, value;
	unsigned int stripe = 0;

	for (; stripe < HOLDS_STRIPES; stripe++) {
		value = unheld;
		if (!replace_seq_cst(holds_word(hits, stripe), &value, unheld + HOLDS_COUNT + 1))
			break;
	}
	if (stripe == HOLDS_STRIPES)
		return true;
	/* No client MR holds a stripe that has ended, and no hold names its next generation. */
	while (stripe--)
		store_release(holds_word(hits, stripe), unheld);
	return false;
}

#endif
