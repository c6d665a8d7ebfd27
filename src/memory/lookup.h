/* SPDX-License-Identifier: BSD-3-Clause */
/* lookup.h -- path of a reader from an address to a record, without a lock
 *
 * Look-ups are wait-free on any number of threads: a bounded number of loads, no store, no blocking
 * call.
 *
 * Records and index nodes are type-stable: their memory is never returned, but reused at once. A
 * reader may reach a reused record or node, but always one of the expected type. Rules of a
 * correct answer:
 *
 * - Generations. The generation of a record is odd while the record is live, and never repeats.
 *   Fields count only if the generation was odd and unchanged after the last load; all fields are
 *   then of one live allocation.
 * - Stable paths. While an allocation is live, no entry, node or bucket word on its path is reused.
 *   A split leads to its allocations before an entry leads to the split. The divided bucket stays
 *   unchanged for readers inside. An entry names 2 paths and there is no third: a reader that
 *   follows both finds every allocation that is live during the whole look-up.
 * - Refusal. Generation or range refuses any other record. Live allocations do not overlap, so the
 *   reader tries the second path only if the first one led to no match.
 * - Hiding. Kept memory is hidden and shown under one generation: all traits in one store. An
 *   answer depends on the traits; the other fields do not change. So it holds at the moment of that
 *   load, and no mixture is wrong.
 *
 * tests/model holds a model that is searched for counterexamples, and litmus tests of the memory
 * orders.
 */
#ifndef PEERPIN_MEMORY_LOOKUP_H
#define PEERPIN_MEMORY_LOOKUP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomics.h"
#include "memory/memory.h"

#define ADDRESS_BITS 48
#define BLOCK_SHIFT  21 /* 2 MiB: the driver's block for small allocations (measured) */
#define LEAF_SHIFT   30
#define FAN_SHIFT    6 /* 64 parts: 2 MiB, 32 KiB, 512 bytes (alignment of allocations) */
#define LEAF_ENTRIES (1u << (LEAF_SHIFT - BLOCK_SHIFT))
#define FAN	     (1u << FAN_SHIFT)
#define BUCKET_WORDS 8
#define SPLIT_LIMIT  3 /* 8 bytes: a bucket has enough words for every start inside */

/* One cache line with the fields of most queries. Any field may be read at any time, also after the
 * free. */
struct record {
	_Atomic uint64_t generation; /* odd: id of the live allocation; even: not live */
	_Atomic uint64_t base, size;
	_Atomic uint64_t buffer_id;
	_Atomic uint64_t context;
	_Atomic uint64_t traits; /* TRAIT_* below */
} __attribute__((aligned(64)));

/* Entry: a range with a power of 2 as length: 2 MiB, or a part of the parent's range. One word
 * holds both halves, so that a load reads both at one moment:
 *   low   record that covers the first byte of the range
 *   high  allocations that begin at a later byte: none, a bucket of up to 8 words, or 64 parts */
typedef _Atomic uint64_t entry_word;

#define INSIDE_SPLIT (1u << 31) /* flag above the node number */

static inline uint32_t lookup_entry_before(uint64_t word)
{
	return (uint32_t)word;
}

static inline uint32_t lookup_entry_inside(uint64_t word)
{
	return (uint32_t)(word >> 32);
}

/* Unordered words. High half of a word: offset of the allocation from the first byte of the range,
 * at least 1. Low half: the record. */
struct bucket {
	_Atomic uint64_t words[BUCKET_WORDS];
} __attribute__((aligned(64)));

struct split {
	entry_word parts[FAN];
};

struct leaf {
	entry_word entries[LEAF_ENTRIES];
};

/* Arrays: set once, before any entry leads to them, so that a reader with a number finds the array
 * set. Before the first allocation only record 0 exists, which belongs to no allocation. */
extern _Atomic(struct record *) lookup_records;
extern _Atomic(struct bucket *) lookup_buckets;
extern _Atomic(struct split *) lookup_splits;
extern _Atomic(struct leaf *) lookup_root[(size_t)1 << (ADDRESS_BITS - LEAF_SHIFT)];

#define lookup_record(slot)  (&load_relaxed(&lookup_records)[slot])
#define lookup_node(number)  (&load_relaxed(&lookup_buckets)[number])
#define lookup_split(number) (&load_relaxed(&lookup_splits)[number])

/* Force inlining, because every use runs this code and the compiler would emit calls. */
#define LOOKUP_INLINE static inline __attribute__((always_inline))

/* Result of a look-up. Valid if lookup_is_same() holds after the last field of the record was
 * read. */
struct found {
	struct record *record;
	uint64_t generation, offset, size; /* offset: of the address in the allocation */
	uint32_t slot;
};

/* True if the record at `slot` is now of an allocation that contains the address. */
LOOKUP_INLINE bool lookup_at(uint32_t slot, uint64_t address, struct found *found)
{
	struct record *record = lookup_record(slot);

	found->record = record;
	found->slot = slot;
	found->generation = load_acquire(&record->generation);
	found->offset = address - load_acquire(&record->base);
	found->size = load_acquire(&record->size);
	return (found->generation & 1) && found->offset < found->size;
}

/* True if all fields read since the look-up are of the found allocation. */
LOOKUP_INLINE bool lookup_is_same(const struct found *found)
{
	return load_acquire(&found->record->generation) == found->generation;
}

/* Record of the word with the highest start at or below `offset`, or 0. Branch-free, because the
 * position of an address in its range is unpredictable. */
LOOKUP_INLINE uint32_t lookup_in_bucket(const struct bucket *bucket, uint64_t offset)
{
	uint64_t limit = (offset + 1) << 32, best = 0;

#pragma GCC unroll 8
	for (unsigned int i = 0; i < BUCKET_WORDS; i++) {
		uint64_t word = load_acquire(&bucket->words[i]);

		word = word < limit ? word : 0;
		best = word > best ? word : best;
	}
	return (uint32_t)best;
}

/* Follow the path from the entry of the block. Returns the first candidate and leaves the last
 * entry in *word; its low half is the second candidate. */
LOOKUP_INLINE uint32_t lookup_inside(uint64_t *word, uint64_t address)
{
	unsigned int shift = BLOCK_SHIFT;
	uint32_t inside = lookup_entry_inside(*word), slot;

	/* A released path may lead into other splits: SPLIT_LIMIT, the depth of the last division,
	 * bounds the loop. */
	while ((inside & INSIDE_SPLIT) && shift > SPLIT_LIMIT) {
		shift -= FAN_SHIFT;
		*word = load_acquire(
			&lookup_split(inside & ~INSIDE_SPLIT)->parts[(address >> shift) % FAN]);
		inside = lookup_entry_inside(*word);
	}
	if (!inside || (inside & INSIDE_SPLIT))
		return lookup_entry_before(*word);
	slot = lookup_in_bucket(lookup_node(inside), address & (((uint64_t)1 << shift) - 1));
	return slot ? slot : lookup_entry_before(*word);
}

/* Entry of the block that contains the address; 0 where no allocation has ever been. */
LOOKUP_INLINE uint64_t lookup_block(uint64_t address)
{
	struct leaf *leaf;

	if (address >> ADDRESS_BITS)
		return 0;
	leaf = load_acquire(&lookup_root[address >> LEAF_SHIFT]);
	return leaf ? load_acquire(&leaf->entries[(address >> BLOCK_SHIFT) % LEAF_ENTRIES]) : 0;
}

/* Find the record of the live allocation that contains `address`, on the path that begins with the
 * entry `word`. */
LOOKUP_INLINE bool lookup_from(uint64_t word, uint64_t address, struct found *found)
{
	/* Slot 0 belongs to no allocation and is never live. */
	if (lookup_entry_inside(word) && lookup_at(lookup_inside(&word, address), address, found) &&
	    lookup_is_same(found))
		return true;
	return lookup_at(lookup_entry_before(word), address, found);
}

LOOKUP_INLINE bool lookup(uint64_t address, struct found *found)
{
	return lookup_from(lookup_block(address), address, found);
}

/* ---- traits: attributes of an allocation as bits, in the order of struct allocation ---- */

#define TRAIT_KIND_SHIFT 32 /* device ordinal below */
#define TRAIT(bit)	 ((uint64_t)1 << (40 + (bit)))

#define TRAIT_RDMA_CAPABLE TRAIT(0)
#define TRAIT_ACCESSIBLE   TRAIT(1)
#define TRAIT_HOST	   TRAIT(2) /* memory type: host if set, device otherwise */
#define TRAIT_MANAGED	   TRAIT(3)
#define TRAIT_DESCRIBED	   TRAIT(4)
#define TRAIT_INTEGRATED   TRAIT(6)
/* Traits that change while the allocation is live: */
#define TRAIT_USED TRAIT(5) /* used by an adapter */
/* Kept memory: the record shows device and kind alone, so that it serves no query and no
 * request. */
#define TRAIT_HIDDEN		  TRAIT(7)
#define TRAITS_SHOWN_WHILE_HIDDEN (TRAIT(0) - 1)
/* Traits that a new record may have. */
#define TRAITS_OF_MEMORY ((TRAIT(8) - 1) & ~(TRAIT_USED | TRAIT_HIDDEN))

static inline int traits_device(uint64_t traits)
{
	return (int)(uint32_t)traits;
}

static inline enum allocation_kind traits_kind(uint64_t traits)
{
	return (enum allocation_kind)(traits >> TRAIT_KIND_SHIFT & 0xff);
}

#endif
