/* SPDX-License-Identifier: BSD-3-Clause */
/* wrappers.h -- what the wrappers of allocations and frees have in common */
#ifndef PEERPIN_INTERCEPT_WRAPPERS_H
#define PEERPIN_INTERCEPT_WRAPPERS_H

#include "base/process.h"
#include "intercept/entry_points.h"
#include "intercept/bypass.h"
#include "memory/memory.h"
#include "memory/queries.h"

/* Out-parameters are the driver's until it has said CUDA_SUCCESS, and may be null even then. A size of 0: as large
 * as the driver says. */
static inline void after_allocation(CUresult result, enum allocation_kind kind, const CUdeviceptr *address,
				    uint64_t size)
{
	if (result != CUDA_SUCCESS || !address || !*address || process_is_passive())
		return;
	memory_allocated(kind, *address, size);
	/* Who frees past us must be known before an answer is given that relies on hearing of it. What comes from a pool
	 * comes too often to look each time. */
	if (kind != ALLOCATION_POOL && queries_are_on())
		bypass_scan();
}

/* What a free knows of the memory that it ends. */
struct pending_free {
	bool tracked;
	struct allocation allocation;
};

static inline void before_free_by(enum memory_free way, struct pending_free *pending, uint64_t address)
{
	pending->tracked = !process_is_passive() && memory_freeing(way, address, &pending->allocation);
}

static inline void before_free(struct pending_free *pending, uint64_t address)
{
	before_free_by(FREE_DEVICE, pending, address);
}

static inline CUresult after_free(const struct pending_free *pending, CUresult result)
{
	if (pending->tracked && result != CUDA_SUCCESS)
		memory_free_refused(&pending->allocation);
	return result;
}

/* ---- frees that a capture refuses ----
 *
 * While a stream is captured a thread may be prohibited from calls that cannot be captured (cuda.h,
 * cuThreadExchangeStreamCaptureMode), and frees are such calls: they are refused whatever the address, and the capture is
 * lost (measured). A registration that clients hold must not be lost as well, and no question tells beforehand. So the
 * call is made for an address of nothing first: what refuses it would have refused the free, with the same effect, and is
 * the caller's answer; else nothing is freed by it.
 */
static inline bool free_ends_something(uint64_t address)
{
	struct allocation allocation;

	return !process_is_passive() && memory_find(address, &allocation);
}

static inline CUresult refusal(CUresult result)
{
	bool refused = result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED ||
		       result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ||
		       result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;

	return refused ? result : CUDA_SUCCESS;
}

#define REFUSAL_BY_CAPTURE(address, call_for_nothing)                                                        \
	(queries_may_be_captured() && free_ends_something(address) ? refusal(call_for_nothing) : CUDA_SUCCESS)

#endif
