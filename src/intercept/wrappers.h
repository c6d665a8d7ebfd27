/* SPDX-License-Identifier: BSD-3-Clause */
/* wrappers.h -- what the wrappers of allocations and frees have in common */
#ifndef PEERPIN_INTERCEPT_WRAPPERS_H
#define PEERPIN_INTERCEPT_WRAPPERS_H

#include "base/process.h"
#include "intercept/entry_points.h"
#include "intercept/escapes.h"
#include "memory/memory.h"
#include "memory/queries.h"

/* Out-parameters are the driver's until it has said CUDA_SUCCESS, and may be null even then. A size of 0: as large
 * as the driver says. */
static inline void born(CUresult result, enum allocation_kind kind, const CUdeviceptr *address, uint64_t size)
{
	if (result != CUDA_SUCCESS || !address || !*address || process_is_passive())
		return;
	memory_born(kind, *address, size);
	/* Who frees past us must be known before an answer is given that relies on hearing of it. What comes from a pool
	 * comes too often to look each time. */
	if (kind != ALLOCATION_POOL && queries_are_on())
		escapes_look();
}

/* What a free knows of the memory that it ends. */
struct death {
	bool tracked;
	struct allocation allocation;
};

static inline void before_free_by(enum memory_free way, struct death *death, uint64_t address)
{
	death->tracked = !process_is_passive() && memory_dying(way, address, &death->allocation);
}

static inline void before_free(struct death *death, uint64_t address)
{
	before_free_by(FREE_DEVICE, death, address);
}

/* While a stream is captured the driver refuses to free, whatever the address, and the capture is lost by that (measured).
 * A registration that clients hold must not be lost as well, and no question tells beforehand; so the call is made first
 * for the null address. That is refused like the one to come, with the same effect, or frees nothing. */
#define CAPTURE_REFUSES(call_for_null)                                                                       \
	(queries_may_be_captured() && !process_is_passive() &&                                               \
	 (call_for_null) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)

static inline CUresult after_free(const struct death *death, CUresult result)
{
	if (death->tracked && result != CUDA_SUCCESS)
		memory_survived(&death->allocation);
	return result;
}

#endif
