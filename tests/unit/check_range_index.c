/* SPDX-License-Identifier: BSD-3-Clause */
/* check_range_index.c -- searches of ranges against a walk over all of them */
#include "suite.h"

#include <stdio.h>

#include "registration/holds.h"
#include "registration/references.h"
#include "registration/session.h"
#include "registration_fixture.h"

#include "registration/range_index.c"

#define RANGES 3000

static void set_up_session(void)
{
	set_up();
	session_begin();
}

CASE(range_index, .set_up = set_up_session, .timeout = 100);

static struct region regions[RANGES];
static struct region_reference *references[RANGES]; /* NULL: not in the index */
static unsigned int seed, looks;
static uint32_t root;
static struct protection_domain of_all;

static unsigned int below(unsigned int limit)
{
	return (unsigned int)rand_r(&seed) % limit;
}

static void add(unsigned int i, unsigned int space)
{
	regions[i].base = below(space);
	regions[i].length = 1 + below(below(8) ? 16 : space);
	regions[i].used = below(4);
	references[i] = references_take(&regions[i]);
	ck_assert_ptr_nonnull(references[i]);
	root = range_index_add(root, references[i]);
}

static void drop(unsigned int i)
{
	root = range_index_remove(root, references[i]);
	references_put(&of_all, references[i]);
	references[i] = NULL;
}

static bool suits(const struct region_reference *reference, const void *argument)
{
	looks++;
	ck_assert_ptr_eq(argument, &root);
	return reference->region->used;
}

static bool contains(const struct region *region, uint64_t base, uint64_t end)
{
	return region->base <= base && end <= region->base + region->length;
}

/* The first one in the order of ranges; or the last one. */
static bool is_before(const struct region *one, const struct region *other)
{
	return one->base != other->base ? one->base < other->base : one->length > other->length;
}

static const struct region *walk(uint64_t base, uint64_t end, bool smallest)
{
	const struct region *found = NULL;

	for (unsigned int i = 0; i < RANGES; i++) {
		if (references[i] && regions[i].used && contains(&regions[i], base, end) &&
		    (!found || is_before(&regions[i], found) != smallest))
			found = &regions[i];
	}
	return found;
}

static void search(unsigned int space)
{
	uint64_t base = below(space), end = base + 1 + below(24);
	struct range_search what = { base, end, below(2), suits, &root };
	const struct region_reference *found = range_index_find(root, &what);
	const struct region *expected = walk(base, end, what.smallest);

	ck_assert_int_eq(!found, !expected);
	if (!found)
		return;
	ck_assert_uint_eq(found->region->base, expected->base);
	ck_assert_uint_eq(found->region->length, expected->length);
}

/* Few places, with many equal ranges; and many. */
LOOP_TEST(range_index, a_search_finds_what_a_walk_does, 0, 6)
{
	unsigned int space = _i % 2 ? 64 : 100000, i;

	seed = (unsigned int)_i + 1;
	for (unsigned int step = 0; step < 20000; step++) {
		i = below(below(10) ? RANGES / 50 : RANGES);
		if (references[i])
			drop(i);
		else
			add(i, space);
		if (step % 4 == 0)
			search(space);
	}
	for (i = 0; i < RANGES; i++) {
		if (references[i])
			drop(i);
	}
	ck_assert_uint_eq(root, 0);
}

static unsigned int depth(uint32_t number)
{
	unsigned int before, after;

	if (!number)
		return 0;
	before = depth(range_index_at(number)->below[0]);
	after = depth(range_index_at(number)->below[1]);
	return 1 + (before > after ? before : after);
}

static const unsigned int strides[] = { 1, 144, 150, 377, 610 };

/* As programs register pieces: in the order of addresses, of several allocations in turn. */
LOOP_TEST(range_index, the_tree_is_flat_whichever_numbers_its_references_have, 0,
	  sizeof(strides) / sizeof(strides[0]))
{
	for (unsigned int i = 0; i < RANGES; i++) {
		regions[i] = (struct region){ .base = i * 16, .length = 16 };
		for (unsigned int k = 1; k < strides[_i]; k++)
			references_take(&regions[i]);
		references[i] = references_take(&regions[i]);
		root = range_index_add(root, references[i]);
	}
	ck_assert_uint_le(depth(root), 40);
}

#ifdef NDEBUG
TEST(range_index, a_broken_invariant_is_counted)
{
	session_check(references[0] != NULL);
	session_check(references[0] == NULL);
	session_end();
	session_begin();
	session_end();
	ck_assert_uint_eq(statistics_get(internal_errors), 1);
}
#endif

SUITE("range index")
