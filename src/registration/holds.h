/* SPDX-License-Identifier: BSD-3-Clause */
/* holds.h -- client MRs of a region, counted without a lock
 *
 * Each region reference has one word: its generation, and the number of client MRs that an
 * allocation's clients hold. A hold names a reference in one generation; a client MR has one
 * (client_mr.h). Rules:
 *
 * - A hold is published (keys.h) while the region is registered, its allocation live, and a client
 *   has requested it before. The generation ends before the region is deregistered, before the
 *   allocation's free continues, and before the keys of the next generation are stored.
 * - A hit loads the hold, then range and keys of its reference, then takes the hold: an atomic
 *   increment that fails if the generation has ended. So range and keys are of a registered region,
 *   which no eviction can end from then on. An allocation may have several references, for parts
 *   and the whole, each with its own range and keys; one of their holds is published.
 * - A second look at the allocation's record and at the domain follows, because the slot of the
 *   keys may have a new allocation, and the struct of the domain a new domain. A hit that overlaps
 *   the free is either counted as revoked, or undone.
 * - An eviction ends a generation only if no client MR holds it (holds_claim). A free ends it in
 *   any case and revokes the rest: holds_drop() of a client MR then finds another generation.
 * - Holds are type-stable and generations do not repeat within 2^32 ends of one reference. A thread
 *   that ends inside a hit leaves one hold taken: its region is not evicted, and ends with the
 *   allocation. A forked child has a copy of its own.
 */
#ifndef PEERPIN_REGISTRATION_HOLDS_H
#define PEERPIN_REGISTRATION_HOLDS_H

#include "registration/objects.h"

#define HOLDS_COUNT ((uint64_t)UINT32_MAX)

/* Evictions so far: the time of a use, for the order of evictions. Guarded by registration_lock;
 * read without. */
extern _Atomic uint32_t holds_time __attribute__((visibility("hidden")));

extern struct arena region_references __attribute__((visibility("hidden")));

static inline struct region_reference *holds_reference(uint64_t hold)
{
	return (struct region_reference *)region_references.base + (hold >> 32);
}

/* The hold of the reference in its current generation. */
static inline uint64_t holds_of(const struct region_reference *reference)
{
	uint64_t number = (uint64_t)(reference - holds_reference(0));

	return number << 32 | load_acquire(&reference->holds) >> 32;
}

/* True if the reference serves [address, address + length). Without the lock: only if its hold is
 * then taken. */
static inline bool holds_serve(const struct region_reference *reference, uint64_t address,
			       uint64_t length)
{
	uint64_t offset = address - load_acquire(&reference->first);
	uint64_t extent = load_acquire(&reference->extent);

	return offset < extent && length <= extent - offset;
}

/* Take a hold. False: its generation has ended. */
static inline bool holds_take(uint64_t hold)
{
	struct region_reference *reference = holds_reference(hold);
	uint64_t value = load_relaxed(&reference->holds);
	uint32_t now = load_relaxed(&holds_time);

	do {
		if ((uint32_t)hold != value >> 32)
			return false;
	} while (!replace_seq_cst(&reference->holds, &value, value + 1));
	/* The store is rare, so that threads on one region contend for the word alone. */
	if (load_relaxed(&reference->used_at) != now)
		store_relaxed(&reference->used_at, now);
	return true;
}

/* Give a taken hold back. False: it was revoked. */
static inline bool holds_drop(uint64_t hold)
{
	_Atomic uint64_t *word = &holds_reference(hold)->holds;
	uint64_t value = load_relaxed(word);

	do {
		if ((uint32_t)hold != value >> 32)
			return false;
	} while (!replace_seq_cst(word, &value, value - 1));
	return true;
}

static inline unsigned int holds_count(const struct region_reference *reference)
{
	return (unsigned int)(load_seq_cst(&reference->holds) & HOLDS_COUNT);
}

/* End the generation, with registration_lock held. Returns the number of revoked holds. */
static inline unsigned int holds_end(struct region_reference *reference)
{
	uint64_t value = load_relaxed(&reference->holds);

	while (!replace_seq_cst(&reference->holds, &value, ((value >> 32) + 1) << 32))
		;
	return (unsigned int)(value & HOLDS_COUNT);
}

/* End the generation unless it is held, with registration_lock held. */
static inline bool holds_claim(struct region_reference *reference)
{
	uint64_t value = load_relaxed(&reference->holds);

	do {
		if (value & HOLDS_COUNT)
			return false;
	} while (!replace_seq_cst(&reference->holds, &value, ((value >> 32) + 1) << 32));
	return true;
}

#endif
