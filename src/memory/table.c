/* SPDX-License-Identifier: BSD-3-Clause */
/* table.c -- the allocation table: two levels of 2 MiB blocks, and starts inside a block
 *
 * A block of 2 MiB is what the driver carves small allocations from (measured sheet cuda-driver-h200), so
 * most blocks belong to one allocation: their entry points to its record. A block in which allocations begin
 * somewhere inside has a set of starts besides: one bit and one pointer for each 512 bytes.
 *
 * Why a reader that races with writers is right: let A be alive during the whole look-up and contain the
 * address. Nothing alive overlaps A, and whatever overlapped it before was taken out before A was put in, so
 * no start between A's base and the address is set while A lives. The highest start at or below the address
 * is therefore A's, whatever happens to other starts meanwhile. If no such A exists, the reader may come upon
 * any record; its generation and its range then say no.
 */
#include "memory/table.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/pool.h"

#define ADDRESS_BITS 48
#define BLOCK_SHIFT  21
#define LEAF_SHIFT   30 /* one leaf covers 1 GiB */
#define START_SHIFT  9
#define STARTS	     (1u << (BLOCK_SHIFT - START_SHIFT))
#define LEAF_ENTRIES (1u << (LEAF_SHIFT - BLOCK_SHIFT))
#define BLOCK_SIZE   ((uint64_t)1 << BLOCK_SHIFT)

/* Readers may look at a record at any time, also after its end: every field that they read is atomic. */
struct record {
	struct record *next_free;	/* the pool's word; no reader looks at it */
	struct record *previous, *next; /* all living records; under table_lock */
	_Atomic uint64_t generation;	/* the allocation's id: odd; even: nobody */
	_Atomic uint64_t base, size, buffer_id;
	_Atomic(CUcontext) context;
	_Atomic int device, kind;
	_Atomic bool rdma_capable, accessible, used;
};

struct starts {
	struct starts *next_free;
	_Atomic uint64_t summary;	     /* which words are not zero */
	_Atomic uint64_t words[STARTS / 64]; /* which starts are set */
	_Atomic(struct record *) records[STARTS];
};

struct entry {
	_Atomic(struct record *) from_before; /* begins at the block's first byte or in an earlier block */
	_Atomic(struct starts *) starts;      /* once made, kept for good */
};

struct leaf {
	struct entry entries[LEAF_ENTRIES];
};

static _Atomic(struct leaf *) root[(size_t)1 << (ADDRESS_BITS - LEAF_SHIFT)];

/* table_lock guards every store below, the pools, the list and the last id. */
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pool record_pool = POOL_INITIALIZER(struct record);
static struct pool leaf_pool = POOL_INITIALIZER(struct leaf);
static struct pool starts_pool = POOL_INITIALIZER(struct starts);
static struct record living = { .previous = &living, .next = &living };
static uint64_t last_id = 1;

#define load(place)	    atomic_load_explicit((place), memory_order_acquire)
#define store(place, value) atomic_store_explicit((place), (value), memory_order_release)

static struct entry *entry_of(uint64_t address)
{
	struct leaf *leaf;

	if (address >> ADDRESS_BITS)
		return NULL;
	leaf = load(&root[address >> LEAF_SHIFT]);
	return leaf ? &leaf->entries[(address >> BLOCK_SHIFT) % LEAF_ENTRIES] : NULL;
}

/* The record of the highest start at or below `start`; NULL if there is none. */
static struct record *start_at_or_below(struct starts *starts, unsigned int start)
{
	unsigned int word = start / 64;
	uint64_t bits = load(&starts->words[word]) & (~(uint64_t)0 >> (63 - start % 64));

	if (!bits) {
		uint64_t below = load(&starts->summary) & (((uint64_t)1 << word) - 1);

		if (!below)
			return NULL;
		word = 63 - (unsigned int)__builtin_clzll(below);
		bits = load(&starts->words[word]);
		if (!bits)
			return NULL;
	}
	return load(&starts->records[word * 64 + 63 - (unsigned int)__builtin_clzll(bits)]);
}

/* The only record that can contain `address`, if any does. */
static struct record *candidate(uint64_t address)
{
	struct entry *entry = entry_of(address);
	struct record *record = NULL;
	struct starts *starts;

	if (!entry)
		return NULL;
	starts = load(&entry->starts);
	if (starts)
		record = start_at_or_below(starts, (address >> START_SHIFT) % STARTS);
	return record ? record : load(&entry->from_before);
}

/* Copies the record if it is alive before and after. */
static bool copy(struct record *record, struct allocation *to)
{
	to->id = load(&record->generation);
	to->base = load(&record->base);
	to->size = load(&record->size);
	to->buffer_id = load(&record->buffer_id);
	to->context = load(&record->context);
	to->device = load(&record->device);
	to->kind = (enum allocation_kind)load(&record->kind);
	to->rdma_capable = load(&record->rdma_capable);
	to->accessible = load(&record->accessible);
	return (to->id & 1) && load(&record->generation) == to->id;
}

bool table_find(uint64_t address, struct allocation *found)
{
	struct record *record = candidate(address);

	return record && copy(record, found) && address - found->base < found->size;
}

bool table_contains(uint64_t base, uint64_t id)
{
	struct record *record = candidate(base);

	/* Sequentially consistent: whoever marks a death and then looks for users, and whoever becomes a
	 * user and then looks for death, must not miss each other. */
	return record && atomic_load(&record->generation) == id;
}

bool table_mark_used(uint64_t base, uint64_t id)
{
	struct record *record = candidate(base);

	if (!record || load(&record->used) || load(&record->generation) != id)
		return false;
	return !atomic_exchange(&record->used, true);
}

/* ---- writers: table_lock is held ---- */

static struct leaf *leaf_for(uint64_t address)
{
	struct leaf *leaf = load(&root[address >> LEAF_SHIFT]);

	if (!leaf) {
		leaf = pool_get(&leaf_pool);
		if (leaf)
			store(&root[address >> LEAF_SHIFT], leaf);
	}
	return leaf;
}

/* Makes every node that [base, base + size) needs, so that linking cannot fail half-way. */
static int make_nodes(uint64_t base, uint64_t size)
{
	uint64_t last = base + size - 1;
	struct entry *entry;
	struct starts *starts;

	for (uint64_t leaf = base >> LEAF_SHIFT; leaf <= last >> LEAF_SHIFT; leaf++) {
		if (!leaf_for(leaf << LEAF_SHIFT))
			return -ENOMEM;
	}
	if (base % BLOCK_SIZE == 0)
		return 0;
	entry = entry_of(base);
	if (load(&entry->starts))
		return 0;
	starts = pool_get(&starts_pool);
	if (!starts)
		return -ENOMEM;
	store(&entry->starts, starts);
	return 0;
}

static void set_start(struct starts *starts, unsigned int start, struct record *record)
{
	unsigned int word = start / 64;
	uint64_t bit = (uint64_t)1 << (start % 64);
	uint64_t bits = load(&starts->words[word]);

	if (record) {
		store(&starts->records[start], record);
		store(&starts->words[word], bits | bit);
		store(&starts->summary, load(&starts->summary) | (uint64_t)1 << word);
		return;
	}
	store(&starts->words[word], bits & ~bit);
	if (!(bits & ~bit))
		store(&starts->summary, load(&starts->summary) & ~((uint64_t)1 << word));
	store(&starts->records[start], NULL);
}

/* Points everything that [base, base + size) touches to `record`, or to nothing. */
static void link_range(uint64_t base, uint64_t size, struct record *record)
{
	uint64_t last = base + size - 1;
	uint64_t block = base >> BLOCK_SHIFT;

	if (base % BLOCK_SIZE) {
		set_start(load(&entry_of(base)->starts), (base >> START_SHIFT) % STARTS, record);
		block++;
	}
	for (; block <= last >> BLOCK_SHIFT; block++)
		store(&entry_of(block << BLOCK_SHIFT)->from_before, record);
}

/* The lowest start in [from, to] of a block. */
static struct record *first_start(struct starts *starts, unsigned int from, unsigned int to)
{
	for (unsigned int word = from / 64; word <= to / 64; word++) {
		uint64_t bits = load(&starts->words[word]);

		if (word == from / 64)
			bits &= ~(uint64_t)0 << (from % 64);
		if (word == to / 64)
			bits &= ~(uint64_t)0 >> (63 - to % 64);
		if (bits)
			return load(&starts->records[word * 64 + (unsigned int)__builtin_ctzll(bits)]);
	}
	return NULL;
}

/* Some living record that overlaps [base, base + size). */
static struct record *overlapping(uint64_t base, uint64_t size)
{
	struct record *record = candidate(base);
	uint64_t last = base + size - 1;

	if (record && base - load(&record->base) < load(&record->size))
		return record;
	for (uint64_t block = base >> BLOCK_SHIFT; block <= last >> BLOCK_SHIFT; block++) {
		struct entry *entry = entry_of(block << BLOCK_SHIFT);
		uint64_t first = block << BLOCK_SHIFT;
		struct starts *starts;

		if (!entry) {
			/* Nothing has ever been in all of this leaf: ranges may be as large as the caller says. */
			block |= LEAF_ENTRIES - 1;
			continue;
		}
		record = first > base ? load(&entry->from_before) : NULL;
		if (record)
			return record;
		starts = load(&entry->starts);
		if (!starts)
			continue;
		record = first_start(starts, first > base ? 0 : (base >> START_SHIFT) % STARTS,
				     last >> BLOCK_SHIFT > block ? STARTS - 1
								 : (last >> START_SHIFT) % STARTS);
		if (record)
			return record;
	}
	return NULL;
}

static void take(struct record *record, struct allocation *taken)
{
	copy(record, taken);
	atomic_store(&record->generation, taken->id & ~(uint64_t)1);
	link_range(taken->base, taken->size, NULL);
	record->previous->next = record->next;
	record->next->previous = record->previous;
	pool_put(&record_pool, record);
}

static int insert(struct allocation *allocation)
{
	struct record *record;
	int error;

	if (overlapping(allocation->base, allocation->size))
		return -EEXIST;
	error = make_nodes(allocation->base, allocation->size);
	if (error)
		return error;
	record = pool_get(&record_pool);
	if (!record)
		return -ENOMEM;
	last_id += 2;
	allocation->id = last_id;
	store(&record->base, allocation->base);
	store(&record->size, allocation->size);
	store(&record->buffer_id, allocation->buffer_id);
	store(&record->context, allocation->context);
	store(&record->device, allocation->device);
	store(&record->kind, (int)allocation->kind);
	store(&record->rdma_capable, allocation->rdma_capable);
	store(&record->accessible, allocation->accessible);
	store(&record->used, false);
	store(&record->generation, allocation->id);
	record->next = &living;
	record->previous = living.previous;
	living.previous->next = record;
	living.previous = record;
	link_range(allocation->base, allocation->size, record);
	return 0;
}

int table_insert(struct allocation *allocation)
{
	uint64_t limit = (uint64_t)1 << ADDRESS_BITS;
	int error;

	if (!allocation->size || allocation->base >= limit || allocation->size > limit - allocation->base ||
	    allocation->base % (1u << START_SHIFT))
		return -EINVAL;
	pthread_mutex_lock(&table_lock);
	error = insert(allocation);
	pthread_mutex_unlock(&table_lock);
	return error;
}

bool table_take(uint64_t base, uint64_t id, struct allocation *taken)
{
	struct record *record;
	bool found;

	pthread_mutex_lock(&table_lock);
	record = candidate(base);
	found = record && load(&record->base) == base && (!id || load(&record->generation) == id);
	if (found)
		take(record, taken);
	pthread_mutex_unlock(&table_lock);
	return found;
}

bool table_set_access(uint64_t base, uint64_t id, bool accessible, struct allocation *before,
		      struct allocation *after)
{
	struct record *record;
	bool found;

	pthread_mutex_lock(&table_lock);
	record = candidate(base);
	found = record && load(&record->base) == base && load(&record->generation) == id;
	if (found) {
		take(record, before);
		*after = *before;
		after->accessible = accessible;
		/* Its nodes are there, and its record is the next that the pool gives out. */
		found = !insert(after);
	}
	pthread_mutex_unlock(&table_lock);
	return found;
}

bool table_take_overlapping(uint64_t base, uint64_t size, struct allocation *taken)
{
	struct record *record;

	if (!size || base >> ADDRESS_BITS || (base + size - 1) >> ADDRESS_BITS)
		return false;
	pthread_mutex_lock(&table_lock);
	record = overlapping(base, size);
	if (record)
		take(record, taken);
	pthread_mutex_unlock(&table_lock);
	return record;
}

bool table_take_matching(bool (*match)(const struct allocation *allocation, void *argument), void *argument,
			 struct allocation *taken)
{
	struct record *record;
	bool found = false;

	pthread_mutex_lock(&table_lock);
	for (record = living.next; record != &living && !found; record = record->next) {
		copy(record, taken);
		if (match(taken, argument)) {
			take(record, taken);
			found = true;
		}
	}
	pthread_mutex_unlock(&table_lock);
	return found;
}

void table_visit(void (*visit)(const struct allocation *allocation, void *argument), void *argument)
{
	struct allocation allocation;

	pthread_mutex_lock(&table_lock);
	for (struct record *record = living.next; record != &living; record = record->next) {
		copy(record, &allocation);
		visit(&allocation, argument);
	}
	pthread_mutex_unlock(&table_lock);
}
