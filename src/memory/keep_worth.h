/* SPDX-License-Identifier: BSD-3-Clause */
/* keep_worth.h -- inside the memory layer: whether freed memory of cuMemAlloc is kept
 *
 * Kept memory that is not reused costs time: the driver takes other memory instead of what was just
 * freed, and for small memory, which shares blocks, new blocks. Measured (H200), an allocation and
 * its free, of sizes each above all before: from 512 KiB 27 µs instead of 2.4, from 64 MiB 222
 * instead of 151. So an allocation that gets kept memory is a credit of 1, or more, and one that
 * gets none, while some is kept, of -1. Without credit no memory is kept, until the program
 * allocates again a size that it freed: a credit, too. Each GPU has its own credits, for small
 * memory (up to KEPT_SMALL) and for larger memory. Any thread.
 */
#ifndef PEERPIN_MEMORY_KEEP_WORTH_H
#define PEERPIN_MEMORY_KEEP_WORTH_H

#include <stdbool.h>
#include <stdint.h>

/* Memory of `bytes` in a list of kept memory (kept_list_number()). False: it is not to be kept. */
bool keep_worth_has(unsigned int list, uint64_t bytes);

/* It is freed, and not kept. */
void keep_worth_freed(unsigned int list, uint64_t bytes);

/* An allocation got kept memory. */
void keep_worth_matched(unsigned int list, uint64_t bytes);

/* An allocation got none. `has_kept`: small, or larger, memory is kept there. */
void keep_worth_missed(unsigned int list, uint64_t bytes, bool has_kept);

#endif
