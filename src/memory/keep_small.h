/* SPDX-License-Identifier: BSD-3-Clause */
/* keep_small.h -- inside the memory layer: whether freed small memory is kept
 *
 * Small memory shares the driver's blocks. Where it is kept and not reused, other memory needs new
 * blocks: a pair of calls that takes 2.4 µs takes up to 27 (measured, H200). So it is kept only
 * while the program mostly allocates what it freed: until 16 more allocations find nothing among
 * kept memory than find some. Then it is released, and none is kept until the program allocates
 * again a size that it freed. Any thread.
 */
#ifndef PEERPIN_MEMORY_KEEP_SMALL_H
#define PEERPIN_MEMORY_KEEP_SMALL_H

#include <stdbool.h>
#include <stdint.h>

bool keep_small_is_on(void);

/* Small memory of so many bytes is freed, and not kept. */
void keep_small_freed(uint64_t bytes);

/* An allocation of small memory got kept memory; or none, while some is kept, or none is to be
 * kept. True: release what is kept. */
void keep_small_matched(void);
bool keep_small_missed(uint64_t bytes);

#endif
