/* SPDX-License-Identifier: BSD-3-Clause */
/* range_index.c -- references of an allocation in a domain, found by the ranges of their regions */
#include "registration/range_index.h"

#include "registration/holds.h"
#include "registration/session_lock.h"

struct range_node {
	uint32_t below[2]; /* subtrees before and after; 0: empty */
	uint64_t end;	   /* greatest end of a range in the subtree */
};

static struct arena range_nodes = ARENA_INITIALIZER(struct range_node, HOLDS_REFERENCES);

int range_index_grow(uint32_t reference)
{
	return arena_grow(&range_nodes, reference + 1);
}

static struct range_node *range_index_at(uint32_t number)
{
	return (struct range_node *)range_nodes.base + number;
}

static const struct region *range_index_region(uint32_t number)
{
	return holds_at(number)->region;
}

static uint64_t range_index_end(uint32_t number)
{
	return range_index_region(number)->base + range_index_region(number)->length;
}

/* Numbers of one allocation's references may be at any stride, where several get theirs in turn: a
 * product alone is monotone at some strides, and the tree a list. */
static uint32_t range_index_priority(uint32_t number)
{
	number = (number ^ number >> 16) * 0x7feb352du;
	number = (number ^ number >> 15) * 0x846ca68bu;
	return number ^ number >> 16;
}

/* By base; of one base the longest first; equal ranges by number. */
static bool range_index_is_before(uint32_t one, uint32_t other)
{
	const struct region *first = range_index_region(one), *second = range_index_region(other);

	if (first->base != second->base)
		return first->base < second->base;
	if (first->length != second->length)
		return first->length > second->length;
	return one < other;
}

/* After a change of a subtree. Returns `number`. */
static uint32_t range_index_update(uint32_t number)
{
	struct range_node *node = range_index_at(number);

	node->end = range_index_end(number);
	for (int i = 0; i < 2; i++) {
		if (node->below[i] && range_index_at(node->below[i])->end > node->end)
			node->end = range_index_at(node->below[i])->end;
	}
	return number;
}

/* Splits the subtree `root` into the nodes before `number` and those after. */
static void range_index_split(uint32_t root, uint32_t number, uint32_t parts[2])
{
	struct range_node *node = range_index_at(root);
	uint32_t below[2];
	bool before;

	if (!root) {
		parts[0] = parts[1] = 0;
		return;
	}
	before = range_index_is_before(root, number);
	range_index_split(node->below[before], number, below);
	node->below[before] = below[!before];
	parts[!before] = range_index_update(root);
	parts[before] = below[before];
}

/* All nodes of `before` are before those of `after`. */
static uint32_t range_index_join(uint32_t before, uint32_t after)
{
	if (!before || !after)
		return before | after;
	if (range_index_priority(before) > range_index_priority(after)) {
		range_index_at(before)->below[1] =
			range_index_join(range_index_at(before)->below[1], after);
		return range_index_update(before);
	}
	range_index_at(after)->below[0] = range_index_join(before, range_index_at(after)->below[0]);
	return range_index_update(after);
}

static uint32_t range_index_insert(uint32_t root, uint32_t number)
{
	uint32_t *below;

	if (!root || range_index_priority(number) > range_index_priority(root)) {
		range_index_split(root, number, range_index_at(number)->below);
		return range_index_update(number);
	}
	below = &range_index_at(root)->below[range_index_is_before(root, number)];
	*below = range_index_insert(*below, number);
	return range_index_update(root);
}

uint32_t range_index_add(uint32_t root, const struct region_reference *reference)
{
	session_assert();
	return range_index_insert(root, holds_number(reference));
}

static uint32_t range_index_delete(uint32_t root, uint32_t number)
{
	struct range_node *node = range_index_at(root);
	uint32_t *below;

	if (root == number)
		return range_index_join(node->below[0], node->below[1]);
	below = &node->below[range_index_is_before(root, number)];
	*below = range_index_delete(*below, number);
	return range_index_update(root);
}

uint32_t range_index_remove(uint32_t root, const struct region_reference *reference)
{
	session_assert();
	return range_index_delete(root, holds_number(reference));
}

static uint32_t range_index_search(uint32_t number, const struct range_search *search);

static uint32_t range_index_search_here(uint32_t number, const struct range_search *search)
{
	bool contains = range_index_region(number)->base <= search->base &&
			range_index_end(number) >= search->end;

	return contains && search->suits(holds_at(number), search->argument) ? number : 0;
}

/* Only ranges that begin at or before the request contain it: if that of the node begins after it,
 * so do those behind. */
static uint32_t range_index_search(uint32_t number, const struct range_search *search)
{
	const struct range_node *node = range_index_at(number);
	bool behind;
	uint32_t found;

	if (!number || node->end < search->end)
		return 0;
	behind = range_index_region(number)->base <= search->base;
	if (search->smallest) {
		found = behind ? range_index_search(node->below[1], search) : 0;
		found = found ? found : range_index_search_here(number, search);
		return found ? found : range_index_search(node->below[0], search);
	}
	found = range_index_search(node->below[0], search);
	found = found ? found : range_index_search_here(number, search);
	return found || !behind ? found : range_index_search(node->below[1], search);
}

struct region_reference *range_index_find(uint32_t root, const struct range_search *search)
{
	session_assert();
	return holds_at(range_index_search(root, search));
}
