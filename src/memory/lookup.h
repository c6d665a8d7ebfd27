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
 * - While an allocation lives, the way to it stays: the entries, nodes and the slot that lead to it are not used for
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
#define FAN_SHIFT    3 /* a split has eight parts */
#define LEAF_ENTRIES (1u << (LEAF_SHIFT - BLOCK_SHIFT))
#define FAN	     (1u << FAN_SHIFT)
#define SLOTS	     8

/* One cache line: all that is ever asked of an allocation. Any field may be read at any time, also after its end. */
struct record {
	_Atomic uint64_t generation; /* the allocation's id: odd; even: nobody */
	_Atomic uint64_t base, size;
	_Atomic uint64_t buffer_id;
	_Atomic uint64_t context;
	_Atomic uint64_t traits; /* see below */
	_Atomic uint64_t
		detail[2]; /* of mapped memory its reservation: base, size; of other memory its pool */
} __attribute__((aligned(64)));

/*
 * An entry stands for a range whose length is a power of two: 2 MiB, or an eighth of its parent's. It is one word, so
 * that its halves are always of one moment:
 *   low   the record that covers the range's first byte
 *   high  what begins at a later byte: nothing, one record, a node of up to eight, or eight parts
 */
typedef _Atomic uint64_t entry_word;

#define INSIDE_RECORD 0u
#define INSIDE_SLOTS  1u
#define INSIDE_SPLIT  2u
#define KIND_SHIFT    30

static inline uint32_t entry_before(uint64_t word)
{
	return (uint32_t)word;
}

static inline uint32_t entry_inside(uint64_t word)
{
	return (uint32_t)(word >> 32);
}

static inline uint32_t inside_kind(uint32_t inside)
{
	return inside >> KIND_SHIFT;
}

static inline uint32_t inside_number(uint32_t inside)
{
	return inside & ((1u << KIND_SHIFT) - 1);
}

/* In no order. A slot is one word: where its allocation begins, counted from 1 at the range's first byte, above its
 * record. */
struct slots {
	_Atomic uint64_t words[SLOTS];
};

struct split {
	entry_word parts[FAN];
};

struct leaf {
	entry_word entries[LEAF_ENTRIES];
};

/* Set once, before any entry leads there. */
extern struct record *lookup_records;
extern struct slots *lookup_slots;
extern struct split *lookup_splits;
extern _Atomic(struct leaf *) lookup_root[(size_t)1 << (ADDRESS_BITS - LEAF_SHIFT)];

#define lookup_load(place) atomic_load_explicit((place), memory_order_acquire)

/* Whether the record is, at this moment, of an allocation that contains the address; its generation. */
static inline bool lookup_matches(struct record *record, uint64_t address, uint64_t *generation)
{
	uint64_t base, size;

	*generation = lookup_load(&record->generation);
	base = lookup_load(&record->base);
	size = lookup_load(&record->size);
	return (*generation & 1) && address - base < size;
}

/* Whether what was read of the record since then is of that one allocation. */
static inline bool lookup_is_same(struct record *record, uint64_t generation)
{
	return lookup_load(&record->generation) == generation;
}

/* The rest of the way where allocations begin inside of the block. */
struct record *lookup_inside(uint64_t word, uint64_t address, uint64_t *generation);

/* The record of the living allocation that contains `address`, or NULL. It counts if lookup_is_same() after the last
 * field has been read. */
static inline struct record *lookup(uint64_t address, uint64_t *generation)
{
	struct record *record;
	struct leaf *leaf;
	uint64_t word;

	if (address >> ADDRESS_BITS)
		return NULL;
	leaf = lookup_load(&lookup_root[address >> LEAF_SHIFT]);
	if (!leaf)
		return NULL;
	word = lookup_load(&leaf->entries[(address >> BLOCK_SHIFT) % LEAF_ENTRIES]);
	if (entry_inside(word))
		return lookup_inside(word, address, generation);
	if (!word)
		return NULL;
	record = &lookup_records[word];
	return lookup_matches(record, address, generation) ? record : NULL;
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
