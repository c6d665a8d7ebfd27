/* SPDX-License-Identifier: BSD-3-Clause */
/* range_index.h -- references of an allocation in a domain, found by the ranges of their regions
 *
 * An arena may have tens of thousands of parts, and each request looks for one that contains it.
 * An index is a treap: in the order of the ranges, and a heap by a mixed reference number. Each
 * node has the last address of its subtree, so a search skips subtrees that end before the request.
 * A search, an insertion and a removal take a logarithmic number of steps.
 *
 * With registration_lock held.
 */
#ifndef PEERPIN_REGISTRATION_RANGE_INDEX_H
#define PEERPIN_REGISTRATION_RANGE_INDEX_H

#include "registration/objects.h"

/* Commits the node of a reference. Returns 0 or -ENOMEM. */
int range_index_grow(uint32_t reference);

/* Return the new root. An index is its root, the number of a reference (holds.h); 0: empty. The
 * region of a reference stays as it is while the reference is in an index. */
uint32_t range_index_add(uint32_t root, const struct region_reference *reference);
uint32_t range_index_remove(uint32_t root, const struct region_reference *reference);

/* For range_index_find(). */
struct range_search {
	uint64_t base, end;
	bool smallest; /* the smallest ranges first, about; else the largest */
	/* True for a reference to return. */
	bool (*suits)(const struct region_reference *reference, const void *argument);
	const void *argument;
};

/* A reference that suits, with a range that contains [base, end); NULL: none. */
struct region_reference *range_index_find(uint32_t root, const struct range_search *search);

#endif
