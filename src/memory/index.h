/* SPDX-License-Identifier: BSD-3-Clause */
/* index.h -- what leads readers from addresses to records, and how it changes
 *
 * The functions below are for the table's writers, with its lock held. Readers are in lookup.h, which says what they
 * rely on: what is linked leads to its record until it is unlinked, whatever is linked or unlinked beside it.
 */
#ifndef PEERPIN_MEMORY_INDEX_H
#define PEERPIN_MEMORY_INDEX_H

#include "memory/lookup.h"

struct range {
	uint64_t base, last; /* first and last byte */
};

/* Makes all that index_link() may need for the range, which cannot fail then. 0 or -ENOMEM. */
int index_prepare(struct range range);

/* Something is to be linked: fetches what that will need, as if it were where the last was. Without the lock, too. */
void index_expect(void);

/* Leads the range to the record `slot`, which has its base and size. Nothing linked overlaps it. */
void index_link(struct range range, uint32_t slot);
void index_unlink(struct range range, uint32_t slot);

/* Some linked record that overlaps the range; 0: none. */
uint32_t index_overlapping(struct range range);

/* How many nodes there are, in use or not. */
uint32_t index_nodes_made(void);

#endif
