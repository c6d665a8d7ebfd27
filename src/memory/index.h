/* SPDX-License-Identifier: BSD-3-Clause */
/* index.h -- index from addresses to records: functions of the writers
 *
 * Callers hold table_lock. Readers (lookup.h) rely on one guarantee: a linked range leads to its
 * record until index_unlink(), whatever a writer links or unlinks beside it.
 */
#ifndef PEERPIN_MEMORY_INDEX_H
#define PEERPIN_MEMORY_INDEX_H

#include "memory/lookup.h"

struct range {
	uint64_t base, last; /* first and last byte */
};

/* Allocate all nodes that index_link() may need for the range, so that it cannot fail. Returns 0 or
 * -ENOMEM. */
int index_prepare(struct range range);

/* Link the range to the record `slot`, which has base and size already. No linked range
 * overlaps. */
void index_link(struct range range, uint32_t slot);
void index_unlink(struct range range, uint32_t slot);

/* One linked record that overlaps the range; 0: none. */
uint32_t index_overlapping(struct range range);

/* Number of nodes made, in use or not. */
uint32_t index_nodes_made(void);

#endif
