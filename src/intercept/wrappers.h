/* SPDX-License-Identifier: BSD-3-Clause */
/* wrappers.h -- common parts of the wrappers of allocations, frees and contexts */
#ifndef PEERPIN_INTERCEPT_WRAPPERS_H
#define PEERPIN_INTERCEPT_WRAPPERS_H

#include "base/process.h"
#include "intercept/entry_points.h"
#include "intercept/bypass.h"
#include "memory/keep.h"
#include "memory/memory.h"
#include "memory/queries.h"

/* Call with the driver's result, which it returns. Out-parameters are read only after CUDA_SUCCESS,
 * and may be null. `size` in bytes; 0: the driver's size counts. */
static inline CUresult wrapper_allocated(CUresult result, enum allocation_kind kind,
					 const CUdeviceptr *address, uint64_t size)
{
	if (result != CUDA_SUCCESS || !address || !*address || process_is_passive())
		return result;
	memory_allocated(kind, *address, size);
	bypass_check();
	return result;
}

/* True: the request is served from kept memory. */
static inline bool wrapper_reuse(const struct keep_request *request, CUdeviceptr *address)
{
	return address && keep_is_on() && keep_allocate(request, address);
}

/* The result of `call`, which needs `bytes` on the device (an ordinal, or KEEP_*); 0: unknown. If
 * it fails for want of memory, release kept memory and repeat the call. */
#define WRAPPER_RETRY(device, bytes, call)                                                         \
	({                                                                                         \
		struct keep_refusal refusal_ = { 0 };                                              \
		CUresult result_;                                                                  \
                                                                                                   \
		do {                                                                               \
			refusal_.ended = load_relaxed(&keep_releases_ended);                       \
			result_ = (call);                                                          \
		} while (__builtin_expect(result_ == CUDA_ERROR_OUT_OF_MEMORY, 0) &&               \
			 keep_is_on() && keep_retry(&refusal_, device, bytes));                    \
		keep_settled(&refusal_);                                                           \
		result_;                                                                           \
	})

/* The result of `call`, in which clients may deregister in time, in hooks of theirs. */
#define WRAPPER_FREEING(call)                                                                      \
	({                                                                                         \
		CUresult freed_;                                                                   \
                                                                                                   \
		memory_frees_here++;                                                               \
		freed_ = (call);                                                                   \
		memory_frees_here--;                                                               \
		freed_;                                                                            \
	})

static inline bool wrapper_tracked_free(enum memory_free kind, uint64_t address,
					struct allocation *ended)
{
	return !process_is_passive() && memory_freeing(kind, address, ended);
}

/* ---- frees that a capture refuses ----
 *
 * While a stream is captured, a thread may be prohibited from calls that cannot be captured
 * (cuda.h, cuThreadExchangeStreamCaptureMode). Frees are such calls: the driver refuses them for
 * any address and invalidates the capture (measured). No driver call predicts the refusal, and
 * client MRs must survive it. Therefore the wrapper first calls `forward` with an address that has
 * no memory. A refusal there equals the refusal of the real free and is the caller's result;
 * otherwise this call frees nothing.
 */
static inline bool wrapper_needs_probe(uint64_t address)
{
	struct allocation allocation;

	return captures_may_be_open() && !process_is_passive() && memory_find(address, &allocation);
}

static inline bool wrapper_is_capture_refusal(CUresult result)
{
	return result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED ||
	       result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ||
	       result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

/* The result of a free of `address`, after the freeing event: of `call`, or of `probe`, the same
 * call with an address that has no memory. */
#define WRAPPER_FREE(kind, address, probe, call)                                                   \
	({                                                                                         \
		CUresult result_ = wrapper_needs_probe(address) ? (probe) : CUDA_SUCCESS;          \
		struct allocation ended_;                                                          \
		bool tracked_;                                                                     \
                                                                                                   \
		if (!wrapper_is_capture_refusal(result_)) {                                        \
			result_ = WRAPPER_FREEING(({                                               \
				tracked_ = wrapper_tracked_free(kind, address, &ended_);           \
				call;                                                              \
			}));                                                                       \
			if (tracked_ && result_ != CUDA_SUCCESS)                                   \
				memory_free_refused(&ended_);                                      \
		}                                                                                  \
		result_;                                                                           \
	})

#endif
