/* SPDX-License-Identifier: BSD-3-Clause */
/* index.c -- the index of the allocation table: entries of 2 MiB, and what begins inside of one
 *
 * Most blocks belong to one allocation, and their entry names it. Where allocations begin at later bytes of a block,
 * up to eight of them stand in a bucket; the ninth divides the range into 64 parts, each an entry of its
 * own. An allocation is named by the entry in which it begins, and as `before` by all further ones that it reaches.
 *
 * A node is given back when nothing is left in it. A bucket that was divided is kept as it was, unused, until
 * its split is given back: readers that are still in it find there what lived before they came.
 */
#include "memory/index.h"

#include <errno.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/near.h"

#define LEAVES_MAX (1u << 17) /* addresses of 47 bits, at 1 GiB each */
#define NODES_MAX  (1u << 22)
#define SPLITS_MAX (1u << 20)

/* What one link takes at most: it may divide at each level, and sorts eight allocations into parts. */
#define SLOTS_SPARE  16
#define SPLITS_SPARE 8

static struct record nobody;
_Atomic(struct record *) lookup_records = &nobody;
_Atomic(struct bucket *) lookup_buckets;
_Atomic(struct split *) lookup_splits;
_Atomic(struct leaf *) lookup_root[(size_t)1 << (ADDRESS_BITS - LEAF_SHIFT)];

/* What a reader need not see of a split: what it has replaced; while it is unused, the next unused one. */
struct split_side {
	uint32_t replaced, next_free;
};

static struct arena leaf_arena = ARENA_INITIALIZER(struct leaf, LEAVES_MAX);
static struct arena bucket_arena = ARENA_INITIALIZER(struct bucket, NODES_MAX);
static struct arena split_arena = ARENA_INITIALIZER(struct split, SPLITS_MAX);
static struct arena side_arena = ARENA_INITIALIZER(struct split_side, SPLITS_MAX);
static uint32_t free_buckets, free_splits;

/* Where something was linked last: its first block, the entry of that, and a bucket. Any will do. */
static _Atomic uint64_t last_block;
static _Atomic(entry_word *) last_entry;
static _Atomic uint32_t last_bucket;

#define get(last)	 atomic_load_explicit(&(last), memory_order_relaxed)
#define set(last, value) atomic_store_explicit(&(last), (value), memory_order_relaxed)

#define store(word, value) atomic_store_explicit((word), (value), memory_order_release)

/* ---- words ---- */

static uint64_t with_before(uint64_t word, uint32_t slot)
{
	return (word & ~(uint64_t)UINT32_MAX) | slot;
}

static uint64_t with_inside(uint64_t word, uint32_t inside)
{
	return (uint64_t)inside << 32 | entry_before(word);
}

/* The allocation begins behind the first byte, so that a word of a bucket in use is never 0. */
static uint64_t bucket_word(uint64_t first, uint64_t base, uint32_t slot)
{
	return (base - first) << 32 | slot;
}

static struct range range_of(uint32_t slot)
{
	struct record *record = lookup_record(slot);
	uint64_t base = lookup_load(&record->base);

	return (struct range){ base, base + lookup_load(&record->size) - 1 };
}

/* ---- nodes ---- */

static struct split_side *side_of(uint32_t number)
{
	return (struct split_side *)side_arena.base + number;
}

/* An unused node is chained in the high half of its first word: for a reader that is still in it a word of a bucket of record 0,
 * which is never alive. */
static uint32_t take_bucket(void)
{
	uint32_t number = free_buckets;

	if (!number)
		return arena_next(&bucket_arena);
	free_buckets = (uint32_t)(lookup_load(&lookup_node(number)->words[0]) >> 32);
	store(&lookup_node(number)->words[0], 0);
	return number;
}

static void give_bucket(uint32_t number)
{
	for (unsigned int i = 1; i < SLOTS; i++)
		store(&lookup_node(number)->words[i], 0);
	store(&lookup_node(number)->words[0], (uint64_t)free_buckets << 32);
	free_buckets = number;
}

static uint32_t take_split(void)
{
	uint32_t number = free_splits;

	if (!number)
		return arena_next(&split_arena);
	free_splits = side_of(number)->next_free;
	return number;
}

static void give_split(uint32_t number)
{
	give_bucket(side_of(number)->replaced);
	side_of(number)->next_free = free_splits;
	free_splits = number;
}

static bool is_empty(const _Atomic uint64_t *words, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		if (lookup_load(&words[i]))
			return false;
	}
	return true;
}

/* ---- linking ---- */

static void link_entry(entry_word *entry, uint64_t first, unsigned int shift, struct range range,
		       uint32_t slot);
static void unlink_entry(entry_word *entry, uint64_t first, unsigned int shift, struct range range,
			 uint32_t slot);

typedef void change_entry(entry_word *entry, uint64_t first, unsigned int shift, struct range range,
			  uint32_t slot);

/* Changes each part, of 1 << shift bytes, that the allocation touches. */
static void change_parts(change_entry *change, uint32_t number, uint64_t first, unsigned int shift,
			 struct range range, uint32_t slot)
{
	struct split *split = lookup_split(number);
	uint64_t from = range.base > first ? (range.base - first) >> shift : 0;
	uint64_t to = (range.last - first) >> shift;

	for (uint64_t i = from; i <= to && i < FAN; i++)
		change(&split->parts[i], first + (i << shift), shift, range, slot);
}

/* A split with all that `word` and its full bucket lead to; nobody sees it yet. */
static uint32_t divide(uint64_t word, uint64_t first, unsigned int shift)
{
	uint32_t replaced = entry_inside(word), number = take_split(), slot = entry_before(word);

	if (slot)
		change_parts(link_entry, number, first, shift - FAN_SHIFT, range_of(slot), slot);
	for (unsigned int i = 0; i < SLOTS; i++) {
		slot = (uint32_t)lookup_load(&lookup_node(replaced)->words[i]);
		change_parts(link_entry, number, first, shift - FAN_SHIFT, range_of(slot), slot);
	}
	side_of(number)->replaced = replaced;
	return number;
}

/* False: there is no room. */
static bool link_in_bucket(uint32_t number, uint64_t word)
{
	for (unsigned int i = 0; i < SLOTS; i++) {
		if (lookup_load(&lookup_node(number)->words[i]))
			continue;
		store(&lookup_node(number)->words[i], word);
		return true;
	}
	return false;
}

/* What begins behind the entry's first byte. */
static void link_inside(entry_word *entry, uint64_t first, unsigned int shift, struct range range,
			uint32_t slot)
{
	uint64_t word = lookup_load(entry), own_word = bucket_word(first, range.base, slot);
	uint32_t inside = entry_inside(word);

	if (!inside) {
		inside = take_bucket();
		set(last_bucket, inside);
		link_in_bucket(inside, own_word);
		store(entry, with_inside(word, inside));
		return;
	}
	if (!(inside & INSIDE_SPLIT)) {
		if (link_in_bucket(inside, own_word))
			return;
		inside = divide(word, first, shift) | INSIDE_SPLIT;
		store(entry, with_inside(word, inside));
	}
	change_parts(link_entry, inside & ~INSIDE_SPLIT, first, shift - FAN_SHIFT, range, slot);
}

static NEAR void link_entry(entry_word *entry, uint64_t first, unsigned int shift, struct range range,
			    uint32_t slot)
{
	uint64_t word = lookup_load(entry);

	if (range.base > first) {
		link_inside(entry, first, shift, range, slot);
		return;
	}
	if (entry_inside(word) & INSIDE_SPLIT)
		change_parts(link_entry, entry_inside(word) & ~INSIDE_SPLIT, first, shift - FAN_SHIFT, range,
			     slot);
	store(entry, with_before(word, slot));
}

static void unlink_from_bucket(uint32_t number, uint32_t slot)
{
	for (unsigned int i = 0; i < SLOTS; i++) {
		if ((uint32_t)lookup_load(&lookup_node(number)->words[i]) == slot)
			store(&lookup_node(number)->words[i], 0);
	}
}

static void unlink_entry(entry_word *entry, uint64_t first, unsigned int shift, struct range range,
			 uint32_t slot)
{
	uint64_t word = lookup_load(entry);
	uint32_t inside = entry_inside(word), number = inside & ~INSIDE_SPLIT;
	bool empty;

	if (entry_before(word) == slot) {
		word = with_before(word, 0);
		store(entry, word);
	}
	if (!inside)
		return;
	if (inside & INSIDE_SPLIT) {
		change_parts(unlink_entry, number, first, shift - FAN_SHIFT, range, slot);
		empty = is_empty(lookup_split(number)->parts, FAN);
	} else {
		unlink_from_bucket(number, slot);
		empty = is_empty(lookup_node(number)->words, SLOTS);
	}
	if (!empty)
		return;
	store(entry, with_inside(word, 0));
	if (inside & INSIDE_SPLIT)
		give_split(number);
	else
		give_bucket(number);
}

/* ---- blocks ---- */

static entry_word *entry_of(uint64_t block)
{
	struct leaf *leaf = lookup_load(&lookup_root[block >> (LEAF_SHIFT - BLOCK_SHIFT)]);

	return leaf ? &leaf->entries[block % LEAF_ENTRIES] : NULL;
}

static int make_leaf(uint64_t number)
{
	uint32_t fresh;

	if (lookup_load(&lookup_root[number]))
		return 0;
	if (arena_grow(&leaf_arena, leaf_arena.used + 1))
		return -ENOMEM;
	fresh = arena_next(&leaf_arena);
	store(&lookup_root[number], (struct leaf *)leaf_arena.base + fresh);
	return 0;
}

NEAR int index_prepare(struct range range)
{
	if (arena_grow(&bucket_arena, bucket_arena.used + SLOTS_SPARE) ||
	    arena_grow(&split_arena, split_arena.used + SPLITS_SPARE) ||
	    arena_grow(&side_arena, split_arena.used + SPLITS_SPARE))
		return -ENOMEM;
	store(&lookup_buckets, (struct bucket *)bucket_arena.base);
	store(&lookup_splits, (struct split *)split_arena.base);
	for (uint64_t leaf = range.base >> LEAF_SHIFT; leaf <= range.last >> LEAF_SHIFT; leaf++) {
		if (make_leaf(leaf))
			return -ENOMEM;
	}
	return 0;
}

static void change_blocks(change_entry *change, struct range range, uint32_t slot)
{
	for (uint64_t block = range.base >> BLOCK_SHIFT; block <= range.last >> BLOCK_SHIFT; block++)
		change(entry_of(block), block << BLOCK_SHIFT, BLOCK_SHIFT, range, slot);
}

NEAR void index_expect(void)
{
	near_fetch_read(&bucket_arena);
	near_fetch_read(&split_arena);
	near_fetch_read(&leaf_arena);
	near_fetch_read(&lookup_splits);
	near_fetch(&free_buckets);
	near_fetch(get(last_entry));
	near_fetch_read(&lookup_root[get(last_block) >> (LEAF_SHIFT - BLOCK_SHIFT)]);
	if (get(last_bucket))
		near_fetch(lookup_node(get(last_bucket)));
}

NEAR void index_link(struct range range, uint32_t slot)
{
	set(last_block, range.base >> BLOCK_SHIFT);
	set(last_entry, entry_of(range.base >> BLOCK_SHIFT));
	change_blocks(link_entry, range, slot);
}

void index_unlink(struct range range, uint32_t slot)
{
	change_blocks(unlink_entry, range, slot);
}

/* ---- what overlaps a range ---- */

static uint32_t begins_within(uint32_t slot, struct range range)
{
	return slot && range_of(slot).base - range.base <= range.last - range.base ? slot : 0;
}

/* Some record that covers the first byte of an entry within the range, or begins within it. */
static uint32_t overlapping_entry(uint64_t word, uint64_t first, unsigned int shift, struct range range)
{
	uint32_t inside = entry_inside(word), found = 0;
	uint64_t part;

	if (first >= range.base && first <= range.last && entry_before(word))
		return entry_before(word);
	if (!inside)
		return 0;
	if (!(inside & INSIDE_SPLIT)) {
		for (unsigned int i = 0; i < SLOTS && !found; i++)
			found = begins_within((uint32_t)lookup_load(&lookup_node(inside)->words[i]), range);
		return found;
	}
	shift -= FAN_SHIFT;
	for (unsigned int i = 0; i < FAN && !found; i++) {
		part = first + ((uint64_t)i << shift);
		if (part <= range.last && part + ((uint64_t)1 << shift) > range.base)
			found = overlapping_entry(
				lookup_load(&lookup_split(inside & ~INSIDE_SPLIT)->parts[i]), part, shift,
				range);
	}
	return found;
}

NEAR uint32_t index_overlapping(struct range range)
{
	struct found at;
	uint32_t found;

	if (lookup(range.base, &at))
		return at.slot;
	for (uint64_t block = range.base >> BLOCK_SHIFT; block <= range.last >> BLOCK_SHIFT; block++) {
		entry_word *entry = entry_of(block);

		if (!entry) {
			/* Nothing has ever been in all of this leaf: ranges may be as large as the caller says. */
			block |= LEAF_ENTRIES - 1;
			continue;
		}
		found = overlapping_entry(lookup_load(entry), block << BLOCK_SHIFT, BLOCK_SHIFT, range);
		if (found)
			return found;
	}
	return 0;
}

uint32_t index_nodes_made(void)
{
	return bucket_arena.used + split_arena.used;
}
