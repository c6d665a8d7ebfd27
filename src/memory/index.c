/* SPDX-License-Identifier: BSD-3-Clause */
/* index.c -- index of the allocation table: entries of 2 MiB, buckets and splits
 *
 * Most blocks belong to one allocation, and the entry of the block names its record. Up to 8
 * allocations that begin at later bytes of a block share a bucket. The ninth divides the range into
 * 64 parts, each an entry. The entry in which an allocation begins names it; each further entry
 * that the allocation reaches names it as `before`.
 *
 * Writers release a node once it is empty. A divided bucket stays unchanged and unused until its
 * split is released: readers still inside find there every allocation that was live before they
 * came.
 */
#include "memory/table.h"

#include <errno.h>
#include <stddef.h>

#include "base/atomics.h"
#include "base/pool.h"

#define LEAVES_MAX (1u << 17) /* 47-bit addresses, 1 GiB per leaf */
#define NODES_MAX  (1u << 22)
#define SPLITS_MAX (1u << 20)

/* Upper bound for one link: a division at each level, and 8 allocations sorted into parts. */
#define BUCKETS_SPARE 16
#define SPLITS_SPARE  8

static struct record null_record;
_Atomic(struct record *) lookup_records = &null_record;
_Atomic(struct bucket *) lookup_buckets;
_Atomic(struct split *) lookup_splits;
_Atomic(struct leaf *) lookup_root[(size_t)1 << (ADDRESS_BITS - LEAF_SHIFT)];

/* Writers' fields of a split: the replaced bucket; while unused, the next unused split. */
struct split_side {
	uint32_t replaced, next_free;
};

static struct arena leaf_arena = ARENA_INITIALIZER(struct leaf, LEAVES_MAX);
static struct arena bucket_arena = ARENA_INITIALIZER(struct bucket, NODES_MAX);
static struct arena split_arena = ARENA_INITIALIZER(struct split, SPLITS_MAX);
static struct arena side_arena = ARENA_INITIALIZER(struct split_side, SPLITS_MAX);
static uint32_t free_buckets, free_splits;

/* ---- words ---- */

static uint64_t index_with_before(uint64_t word, uint32_t slot)
{
	return (word & ~(uint64_t)UINT32_MAX) | slot;
}

static uint64_t index_with_inside(uint64_t word, uint32_t inside)
{
	return (uint64_t)inside << 32 | lookup_entry_before(word);
}

/* Requires base > first: a word in use is never 0. */
static uint64_t index_bucket_word(uint64_t first, uint64_t base, uint32_t slot)
{
	return (base - first) << 32 | slot;
}

static struct range index_range(uint32_t slot)
{
	struct record *record = lookup_record(slot);
	uint64_t base = load_acquire(&record->base);

	return (struct range){ base, base + load_acquire(&record->size) - 1 };
}

/* ---- nodes ---- */

static struct split_side *index_split_side(uint32_t number)
{
	return (struct split_side *)side_arena.base + number;
}

/* Unused buckets are chained in the high half of their first word. A reader still inside sees a
 * word of record 0, which is never live. */
static uint32_t index_take_bucket(void)
{
	uint32_t number = free_buckets;

	if (!number)
		return arena_next(&bucket_arena);
	free_buckets = (uint32_t)(load_acquire(&lookup_node(number)->words[0]) >> 32);
	store_release(&lookup_node(number)->words[0], 0);
	return number;
}

static void index_release_bucket(uint32_t number)
{
	for (unsigned int i = 1; i < BUCKET_WORDS; i++)
		store_release(&lookup_node(number)->words[i], 0);
	store_release(&lookup_node(number)->words[0], (uint64_t)free_buckets << 32);
	free_buckets = number;
}

static uint32_t index_take_split(void)
{
	uint32_t number = free_splits;

	if (!number)
		return arena_next(&split_arena);
	free_splits = index_split_side(number)->next_free;
	return number;
}

static void index_release_split(uint32_t number)
{
	index_release_bucket(index_split_side(number)->replaced);
	index_split_side(number)->next_free = free_splits;
	free_splits = number;
}

static bool index_is_empty(const _Atomic uint64_t *words, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		if (load_acquire(&words[i]))
			return false;
	}
	return true;
}

/* ---- linking ---- */

enum change { LINK, UNLINK };

static void index_link_entry(entry_word *entry, uint64_t first, unsigned int shift,
			     struct range range, uint32_t slot);
static void index_unlink_entry(entry_word *entry, uint64_t first, unsigned int shift,
			       struct range range, uint32_t slot);

/* Most entries of a range are its own alone: they change without a call. */
static inline void index_change_entry(enum change change, entry_word *entry, uint64_t first,
				      unsigned int shift, struct range range, uint32_t slot)
{
	if (load_relaxed(entry) == (change == LINK ? 0 : slot) && first >= range.base)
		store_release(entry, change == LINK ? slot : 0);
	else if (change == LINK)
		index_link_entry(entry, first, shift, range, slot);
	else
		index_unlink_entry(entry, first, shift, range, slot);
}

/* Change each part of 1 << shift bytes that the range touches. */
static void index_change_parts(enum change change, uint32_t number, uint64_t first,
			       unsigned int shift, struct range range, uint32_t slot)
{
	struct split *split = lookup_split(number);
	uint64_t from = range.base > first ? (range.base - first) >> shift : 0;
	uint64_t to = (range.last - first) >> shift;

	for (uint64_t i = from; i <= to && i < FAN; i++)
		index_change_entry(change, &split->parts[i], first + (i << shift), shift, range,
				   slot);
}

/* Make a split with all records of `word` and its full bucket, before readers can reach the
 * split. */
static uint32_t index_divide(uint64_t word, uint64_t first, unsigned int shift)
{
	uint32_t replaced = lookup_entry_inside(word), number = index_take_split(),
		 slot = lookup_entry_before(word);

	if (slot)
		index_change_parts(LINK, number, first, shift - FAN_SHIFT, index_range(slot), slot);
	for (unsigned int i = 0; i < BUCKET_WORDS; i++) {
		slot = (uint32_t)load_acquire(&lookup_node(replaced)->words[i]);
		index_change_parts(LINK, number, first, shift - FAN_SHIFT, index_range(slot), slot);
	}
	index_split_side(number)->replaced = replaced;
	return number;
}

/* Returns false if the bucket is full. */
static bool index_link_in_bucket(uint32_t number, uint64_t word)
{
	for (unsigned int i = 0; i < BUCKET_WORDS; i++) {
		if (load_acquire(&lookup_node(number)->words[i]))
			continue;
		store_release(&lookup_node(number)->words[i], word);
		return true;
	}
	return false;
}

/* Link a range that begins behind the first byte of the entry. */
static void index_link_inside(entry_word *entry, uint64_t first, unsigned int shift,
			      struct range range, uint32_t slot)
{
	uint64_t word = load_acquire(entry), own_word = index_bucket_word(first, range.base, slot);
	uint32_t inside = lookup_entry_inside(word);

	if (!inside) {
		inside = index_take_bucket();
		index_link_in_bucket(inside, own_word);
		store_release(entry, index_with_inside(word, inside));
		return;
	}
	if (!(inside & INSIDE_SPLIT)) {
		if (index_link_in_bucket(inside, own_word))
			return;
		inside = index_divide(word, first, shift) | INSIDE_SPLIT;
		store_release(entry, index_with_inside(word, inside));
	}
	index_change_parts(LINK, inside & ~INSIDE_SPLIT, first, shift - FAN_SHIFT, range, slot);
}

static void index_link_entry(entry_word *entry, uint64_t first, unsigned int shift,
			     struct range range, uint32_t slot)
{
	uint64_t word = load_acquire(entry);

	if (range.base > first) {
		index_link_inside(entry, first, shift, range, slot);
		return;
	}
	if (lookup_entry_inside(word) & INSIDE_SPLIT)
		index_change_parts(LINK, lookup_entry_inside(word) & ~INSIDE_SPLIT, first,
				   shift - FAN_SHIFT, range, slot);
	store_release(entry, index_with_before(word, slot));
}

static void index_unlink_from_bucket(uint32_t number, uint32_t slot)
{
	for (unsigned int i = 0; i < BUCKET_WORDS; i++) {
		if ((uint32_t)load_acquire(&lookup_node(number)->words[i]) == slot)
			store_release(&lookup_node(number)->words[i], 0);
	}
}

static void index_unlink_entry(entry_word *entry, uint64_t first, unsigned int shift,
			       struct range range, uint32_t slot)
{
	uint64_t word = load_acquire(entry);
	uint32_t inside = lookup_entry_inside(word), number = inside & ~INSIDE_SPLIT;
	bool empty;

	if (lookup_entry_before(word) == slot) {
		word = index_with_before(word, 0);
		store_release(entry, word);
	}
	if (!inside)
		return;
	if (inside & INSIDE_SPLIT) {
		index_change_parts(UNLINK, number, first, shift - FAN_SHIFT, range, slot);
		empty = index_is_empty(lookup_split(number)->parts, FAN);
	} else {
		index_unlink_from_bucket(number, slot);
		empty = index_is_empty(lookup_node(number)->words, BUCKET_WORDS);
	}
	if (!empty)
		return;
	store_release(entry, index_with_inside(word, 0));
	if (inside & INSIDE_SPLIT)
		index_release_split(number);
	else
		index_release_bucket(number);
}

/* ---- blocks ---- */

static entry_word *index_entry(uint64_t block)
{
	struct leaf *leaf = load_acquire(&lookup_root[block >> (LEAF_SHIFT - BLOCK_SHIFT)]);

	return leaf ? &leaf->entries[block % LEAF_ENTRIES] : NULL;
}

static int index_make_leaf(uint64_t number)
{
	uint32_t fresh;

	if (load_acquire(&lookup_root[number]))
		return 0;
	if (arena_grow(&leaf_arena, leaf_arena.used + 1))
		return -ENOMEM;
	fresh = arena_next(&leaf_arena);
	store_release(&lookup_root[number], (struct leaf *)leaf_arena.base + fresh);
	return 0;
}

int index_prepare(struct range range)
{
	if (arena_grow(&bucket_arena, bucket_arena.used + BUCKETS_SPARE) ||
	    arena_grow(&split_arena, split_arena.used + SPLITS_SPARE) ||
	    arena_grow(&side_arena, split_arena.used + SPLITS_SPARE))
		return -ENOMEM;
	store_release(&lookup_buckets, (struct bucket *)bucket_arena.base);
	store_release(&lookup_splits, (struct split *)split_arena.base);
	for (uint64_t leaf = range.base >> LEAF_SHIFT; leaf <= range.last >> LEAF_SHIFT; leaf++) {
		if (index_make_leaf(leaf))
			return -ENOMEM;
	}
	return 0;
}

/* The entry of the block after that of `entry` (NULL: none). */
static entry_word *index_next_entry(entry_word *entry, uint64_t block)
{
	return entry && block % LEAF_ENTRIES ? entry + 1 : index_entry(block);
}

static void index_change_blocks(enum change change, struct range range, uint32_t slot)
{
	entry_word *entry = NULL;

	for (uint64_t block = range.base >> BLOCK_SHIFT; block <= range.last >> BLOCK_SHIFT;
	     block++) {
		entry = index_next_entry(entry, block);
		index_change_entry(change, entry, block << BLOCK_SHIFT, BLOCK_SHIFT, range, slot);
	}
}

void index_link(struct range range, uint32_t slot)
{
	index_change_blocks(LINK, range, slot);
}

void index_unlink(struct range range, uint32_t slot)
{
	index_change_blocks(UNLINK, range, slot);
}

/* ---- overlaps ---- */

static uint32_t index_begins_within(uint32_t slot, struct range range)
{
	return slot && index_range(slot).base - range.base <= range.last - range.base ? slot : 0;
}

/* One record that covers the first byte of an entry within the range, or begins within the range;
 * 0: none. The entry's own range overlaps it. */
static uint32_t index_overlapping_entry(uint64_t word, uint64_t first, unsigned int shift,
					struct range range)
{
	uint32_t inside = lookup_entry_inside(word), found = 0;
	const struct split *split;
	uint64_t part, last;

	if (first >= range.base && first <= range.last && lookup_entry_before(word))
		return lookup_entry_before(word);
	if (!inside)
		return 0;
	if (!(inside & INSIDE_SPLIT)) {
		for (unsigned int i = 0; i < BUCKET_WORDS && !found; i++)
			found = index_begins_within(
				(uint32_t)load_acquire(&lookup_node(inside)->words[i]), range);
		return found;
	}
	split = lookup_split(inside & ~INSIDE_SPLIT);
	shift -= FAN_SHIFT;
	part = range.base > first ? (range.base - first) >> shift : 0;
	last = (range.last - first) >> shift;
	for (; part <= last && part < FAN && !found; part++) {
		word = load_acquire(&split->parts[part]);
		if (word)
			found = index_overlapping_entry(word, first + (part << shift), shift,
							range);
	}
	return found;
}

uint32_t index_overlapping(struct range range)
{
	entry_word *entry = NULL;
	struct found at;
	uint64_t word;
	uint32_t found;

	if (lookup(range.base, &at))
		return at.slot;
	for (uint64_t block = range.base >> BLOCK_SHIFT; block <= range.last >> BLOCK_SHIFT;
	     block++) {
		entry = index_next_entry(entry, block);
		if (!entry) {
			/* No allocation has ever been in this leaf: skip it, because callers choose
			 * the size of ranges. */
			block |= LEAF_ENTRIES - 1;
			continue;
		}
		word = load_acquire(entry);
		found = word ? index_overlapping_entry(word, block << BLOCK_SHIFT, BLOCK_SHIFT,
						       range)
			     : 0;
		if (found)
			return found;
	}
	return 0;
}

uint32_t index_nodes_made(void)
{
	return bucket_arena.used + split_arena.used;
}
