/* SPDX-License-Identifier: BSD-3-Clause */
/* keep_worth.h -- inside the memory layer: whether freed memory of cuMemAlloc is kept
 *
 * Kept memory that is not reused costs time: the driver takes other memory instead of what was just
 * freed, and for small memory, which shares blocks, new blocks. Measured (H200), an allocation and
 * its free, of sizes each above all before: from 512 KiB 27 µs instead of 2.4, from 64 MiB 222
 * instead of 151. So an allocation that gets kept memory is a credit of 1, or more. One that gets
 * none although other memory is kept is a miss, of -1 when the program frees it: memory that
 * stays would need a place anyway. Without credit frees keep nothing, and allocations of sizes that
 * were freed are credits. Each GPU has its own credits, for small memory (up to KEPT_SMALL) and for
 * larger memory.
 *
 * `list`: that of the GPU (kept_list_of()). `bytes`: of the program's request. Any thread.
 */
#ifndef PEERPIN_MEMORY_KEEP_WORTH_H
#define PEERPIN_MEMORY_KEEP_WORTH_H

#include <stdbool.h>
#include <stdint.h>

/* Call for each free. `is_new`: the allocation got no kept memory. False: keep nothing. */
bool keep_worth_has(unsigned int list, uint64_t bytes, bool is_new);

/* Call for each allocation that is freed, or released, for want of credit. */
void keep_worth_freed(unsigned int list, uint64_t bytes);

/* Call when an allocation gets kept memory. */
void keep_worth_matched(unsigned int list, uint64_t bytes);

/* Call when an allocation gets none: a credit if memory of its class of sizes was freed for want of
 * credit, and would have served it; else a miss, if there are fewer than `number`: of allocations
 * that are kept on that GPU, small ones if this is, or larger ones. */
void keep_worth_missed(unsigned int list, uint64_t bytes, uint64_t number);

#endif
