/* SPDX-License-Identifier: BSD-3-Clause */
/* lookup.h -- how a reader gets from an address to a record, without a lock
 *
 * Wait-free on any number of threads: a bounded number of loads, nothing written, nothing called that could wait.
 *
 * Records (one for each allocation) and the nodes of the index have memory of their own kind that is never given
 * back, but is used again at once for other allocations and other places. So whatever a reader comes upon is a
 * record or a node of the kind that it expects, though perhaps no longer the one that it was sent to. What makes
 * the answer right:
 *
 * - A record has a generation, odd while it is alive and never used twice. What was read of a record counts only if
 *   the generation was odd and is the same afterwards; then all of it was of one living allocation.
 * - While an allocation lives, the way to it stays: the entries, nodes and the word that lead to it are not used for
 *   anything else, and when a node is divided the new one leads to it before the entry does, and the old one, which
 *   readers may be in, stays as it was. So a reader finds what lives during all of its look-up, if it follows each
 *   way that can lead there: an entry names two, and there is no third.
 * - Whatever else it comes upon is refused by its generation or its range. Nothing that lives overlaps an allocation
 *   that lives, so the second way is only tried when the first has led to nothing.
 *
 * tests/model has this as a model that is searched for counterexamples, and the memory orders as litmus tests.
 */
#ifndef PEERPIN_MEMORY_LOOKUP_H
#define PEERPIN_MEMORY_LOOKUP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "memory/memory.h"

#define ADDRESS_BITS 48
#define BLOCK_SHIFT  21 /* 2 MiB: what the driver carves small allocations from (sheet cuda-driver-h200) */
#define LEAF_SHIFT   30
#define FAN_SHIFT                                                                                            \
	6 /* a split has 64 parts: 2 MiB, 32 KiB, 512 bytes, which is where the driver begins allocations */
#define LEAF_ENTRIES (1u << (LEAF_SHIFT - BLOCK_SHIFT))
#define FAN	     (1u << FAN_SHIFT)
#define SLOTS	     8
#define SPLIT_LIMIT  3 /* a range of eight bytes has room in its words for what may begin inside of it */

/* One cache line: all that is asked of most allocations. Any field may be read at any time, also after its end. */
struct record {
	_Atomic uint64_t generation; /* the allocation's id: odd; even: nobody */
	_Atomic uint64_t base, size;
	_Atomic uint64_t buffer_id;
	_Atomic uint64_t context;
	_Atomic uint64_t traits; /* see below */
	_Atomic uint64_t notes[MEMORY_NOTES];
} __attribute__((aligned(64)));

/* What is asked of few: of mapped memory its reservation (base, size), of pool memory its pool. */
struct details {
	_Atomic uint64_t words[2];
};

/*
 * An entry stands for a range whose length is a power of two: 2 MiB, or a part of its parent's. It is one word, so that
 * its halves are always of one moment:
 *   low   the record that covers the range's first byte
 *   high  what begins at a later byte: nothing, a bucket of up to eight words, or 64 parts
 */
typedef _Atomic uint64_t entry_word;

#define INSIDE_SPLIT (1u << 31) /* above the number of a node */

static inline uint32_t entry_before(uint64_t word)
{
	return (uint32_t)word;
}

static inline uint32_t entry_inside(uint64_t word)
{
	return (uint32_t)(word >> 32);
}

/* In no order. A word of a bucket is one word: where its allocation begins, counted from 1 at the range's first byte, above its
 * record. */
struct bucket {
	_Atomic uint64_t words[SLOTS];
} __attribute__((aligned(64)));

struct split {
	entry_word parts[FAN];
};

struct leaf {
	entry_word entries[LEAF_ENTRIES];
};

/* Where they are: set once, before any entry leads there, so that who has come to a number finds it set. Before the first
 * allocation there is only the record that is nobody's. */
extern _Atomic(struct record *) lookup_records;
extern _Atomic(struct details *) lookup_details; /* by the same places */
extern _Atomic(struct bucket *) lookup_buckets;
extern _Atomic(struct split *) lookup_splits;
extern _Atomic(struct leaf *) lookup_root[(size_t)1 << (ADDRESS_BITS - LEAF_SHIFT)];

#define lookup_record(slot)  (&atomic_load_explicit(&lookup_records, memory_order_relaxed)[slot])
#define lookup_detail(slot)  (&atomic_load_explicit(&lookup_details, memory_order_relaxed)[slot])
#define lookup_node(number)  (&atomic_load_explicit(&lookup_buckets, memory_order_relaxed)[number])
#define lookup_split(number) (&atomic_load_explicit(&lookup_splits, memory_order_relaxed)[number])

/* On every use there is no time for calls, and the compiler would make some. */
#define LOOKUP_INLINE static inline __attribute__((always_inline))

#define lookup_load(word) atomic_load_explicit((word), memory_order_acquire)

/* What a look-up has found. It counts if lookup_is_same() after the last field of the record has been read. */
struct found {
	struct record *record;
	uint64_t generation, offset, size; /* offset: of the address */
	uint32_t slot;
};

/* Whether the record at `slot` is, at this moment, of an allocation that contains the address. */
LOOKUP_INLINE bool lookup_at(uint32_t slot, uint64_t address, struct found *found)
{
	struct record *record = lookup_record(slot);

	found->record = record;
	found->slot = slot;
	found->generation = lookup_load(&record->generation);
	found->offset = address - lookup_load(&record->base);
	found->size = lookup_load(&record->size);
	return (found->generation & 1) && found->offset < found->size;
}

/* Whether what was read of the record since then is of that one allocation. */
LOOKUP_INLINE bool lookup_is_same(const struct found *found)
{
	return lookup_load(&found->record->generation) == found->generation;
}

/* The word with the highest start at or below `offset`: its record, or 0. Without a branch, since where in its range an
 * address lies cannot be foreseen. */
LOOKUP_INLINE uint32_t lookup_in_bucket(const struct bucket *bucket, uint64_t offset)
{
	uint64_t limit = (offset + 1) << 32, best = 0;

#pragma GCC unroll 8
	for (unsigned int i = 0; i < SLOTS; i++) {
		uint64_t word = lookup_load(&bucket->words[i]);

		word = word < limit ? word : 0;
		best = word > best ? word : best;
	}
	return (uint32_t)best;
}

/* Where allocations begin inside of the block: the rest of the way from its entry. Returns the first choice, and leaves the
 * last entry in *word, whose other half is the second. */
LOOKUP_INLINE uint32_t lookup_inside(uint64_t *word, uint64_t address)
{
	unsigned int shift = BLOCK_SHIFT;
	uint32_t inside = entry_inside(*word), slot;

	/* A way that is being given back may lead on into other splits: it ends where nothing is divided further. */
	while ((inside & INSIDE_SPLIT) && shift > SPLIT_LIMIT) {
		shift -= FAN_SHIFT;
		*word = lookup_load(&lookup_split(inside & ~INSIDE_SPLIT)->parts[(address >> shift) % FAN]);
		inside = entry_inside(*word);
	}
	if (!inside || (inside & INSIDE_SPLIT))
		return entry_before(*word);
	slot = lookup_in_bucket(lookup_node(inside), address & (((uint64_t)1 << shift) - 1));
	return slot ? slot : entry_before(*word);
}

/* The entry of the address' block; 0 where nothing has ever been. */
LOOKUP_INLINE uint64_t lookup_block(uint64_t address)
{
	struct leaf *leaf;

	if (address >> ADDRESS_BITS)
		return 0;
	leaf = lookup_load(&lookup_root[address >> LEAF_SHIFT]);
	return leaf ? lookup_load(&leaf->entries[(address >> BLOCK_SHIFT) % LEAF_ENTRIES]) : 0;
}

/* The record of the living allocation that contains `address`, on the way that begins with the entry `word`. */
LOOKUP_INLINE bool lookup_from(uint64_t word, uint64_t address, struct found *found)
{
	/* Place 0 is nobody's, and is never alive. */
	if (entry_inside(word) && lookup_at(lookup_inside(&word, address), address, found) &&
	    lookup_is_same(found))
		return true;
	return lookup_at(entry_before(word), address, found);
}

LOOKUP_INLINE bool lookup(uint64_t address, struct found *found)
{
	return lookup_from(lookup_block(address), address, found);
}

/* ---- traits: what is known of an allocation in few bits ---- */

#define TRAIT_KIND_SHIFT 32 /* below it the device's ordinal */
#define TRAIT(bit)	 ((uint64_t)1 << (40 + (bit)))

#define TRAIT_RDMA_CAPABLE TRAIT(0)
#define TRAIT_ACCESSIBLE   TRAIT(1)
#define TRAIT_HOST	   TRAIT(2) /* MEMORY_TYPE is host, otherwise device */
#define TRAIT_MANAGED	   TRAIT(3)
#define TRAIT_IPC_CAPABLE  TRAIT(4)
#define TRAIT_MAPPED	   TRAIT(5)
#define TRAIT_DESCRIBED	   TRAIT(6)
#define TRAIT_INTEGRATED   TRAIT(11)
/* These change while it lives: */
#define TRAIT_USED	 TRAIT(7)  /* an adapter uses it */
#define TRAIT_SYNC_KNOWN TRAIT(8)  /* nobody is setting SYNC_MEMOPS, and the next is what the driver says */
#define TRAIT_SYNC	 TRAIT(9)  /* SYNC_MEMOPS reads as set */
#define TRAIT_SYNC_SET	 TRAIT(10) /* and it was set by a call that was seen */

static inline int traits_device(uint64_t traits)
{
	return (int)(uint32_t)traits;
}

static inline enum allocation_kind traits_kind(uint64_t traits)
{
	return (enum allocation_kind)(traits >> TRAIT_KIND_SHIFT & 0xff);
}

#endif
