/* SPDX-License-Identifier: BSD-3-Clause */
/* host_pages.h -- pages that CUDA does not know, remembered from one question to the next
 *
 * A question about ordinary host memory is the dearest of all (sheet cuda-driver-h200), and
 * libraries ask it for every buffer of every message. That the driver knows nothing in a page is
 * remembered until something may have changed it: whatever can make memory of CUDA's tells which
 * addresses, and what is remembered there is forgotten, all of it at once by a count of
 * generations. Where only a part of a page may be CUDA's, the page is never remembered.
 *
 * Memory that comes up without such a call cannot be told: the image of a module that the driver
 * loads when a kernel is first launched, at addresses that were a host page's before, and whose
 * address the program has from a kernel. So all of this is off unless PEERPIN_HOST_POINTERS=1; and
 * off where the device reaches ordinary host memory (PAGEABLE_MEMORY_ACCESS), which is then known
 * to the driver.
 *
 * Any thread. Reading is wait-free.
 */
#ifndef PEERPIN_MEMORY_HOST_PAGES_H
#define PEERPIN_MEMORY_HOST_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomics.h"

#define HOST_PAGE_SHIFT	    12 /* no page is smaller */
#define HOST_PAGE_BITS	    (48 - HOST_PAGE_SHIFT)
#define HOST_PAGES_BITS	    14
#define HOST_GENERATION_MAX (((uint64_t)1 << (64 - HOST_PAGE_BITS)) - 1)

/* Where a page stands if it is remembered: its number below the generation in which it was. */
extern _Atomic uint64_t host_pages[1u << HOST_PAGES_BITS];
extern _Atomic uint64_t host_pages_generation; /* 0: off */

static inline uint32_t host_pages_place(uint64_t page)
{
	return (uint32_t)((page ^ page >> HOST_PAGES_BITS) & ((1u << HOST_PAGES_BITS) - 1));
}

/* Whether the driver is known to know nothing there. `address` is below 2^48. */
static inline bool host_pages_remember(uint64_t address)
{
	uint64_t generation = load_acquire(&host_pages_generation);
	uint64_t page = address >> HOST_PAGE_SHIFT;

	return generation && load_acquire(&host_pages[host_pages_place(page)]) ==
				     (generation << HOST_PAGE_BITS | page);
}

void host_pages_begin(void);
void host_pages_end(void);

/* The driver is asked whether it knows anything at `address`; if not, and nothing else stands
 * against it, the page is remembered. */
void host_pages_learn(uint64_t address);

/* That the next will be called: fetches what it needs. */
void host_pages_expect(void);

/* After a call that may have made memory of CUDA's in the range, before it returns to the program.
 */
void host_pages_forget(uint64_t base, uint64_t size);
void host_pages_forget_all(void);

/* The same, and memory there may come and go without any call, or end in the middle of a page. */
void host_pages_exclude(uint64_t base, uint64_t size);

#endif
