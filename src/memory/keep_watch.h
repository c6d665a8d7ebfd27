/* SPDX-License-Identifier: BSD-3-Clause */
/* keep_watch.h -- measures what PEERPIN_KEEP would save, for the advice of a report
 *
 * An allocation is repeated if the program has freed one that would serve it (kept_most_of()), and
 * that no earlier allocation stands for: as if no other had got larger memory, and as if memory
 * were kept without credit, too (keep_worth.h). Counts `repeated`, `repeated_ns` and
 * `repeated_bytes`. Any thread.
 */
#ifndef PEERPIN_MEMORY_KEEP_WATCH_H
#define PEERPIN_MEMORY_KEEP_WATCH_H

#include <stdint.h>

/* The time now, for the call that follows; 0: nothing is measured. */
uint64_t keep_watch_begin(void);

/* The size of the allocation of cuMemAlloc at `base`; 0: none. */
uint64_t keep_watch_size(uint64_t base);

/* Call after an allocation, or a free of `size` bytes, that began at `start`. */
void keep_watch_allocated(uint64_t base, uint64_t start);
void keep_watch_freed(uint64_t size, uint64_t start);

#endif
