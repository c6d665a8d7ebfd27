/* SPDX-License-Identifier: BSD-3-Clause */
/* queries.h -- pointer queries, answered as the driver would: part of the memory layer's contract
 *
 * The driver answers them under one lock (sheet cuda-driver-h200). What cannot change about recorded memory is
 * answered from the table, and that a page of the host is not CUDA's from what is remembered (host_pages.h). Anything
 * else goes to the driver: what is unknown, what depends on more than the address, wrong arguments, and all of it
 * where memory may be freed past us, in a forked child, and once the program exits.
 *
 * Each function takes the driver's own as `forward`, and returns the driver's result or what it would be. It calls it at
 * most once with what it came with; for a list perhaps before that with those attributes that are not known. Any thread; no lock.
 * With PEERPIN_VERIFY each answer is compared with the driver's, which is what the caller gets.
 */
#ifndef PEERPIN_MEMORY_QUERIES_H
#define PEERPIN_MEMORY_QUERIES_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/process.h"
#include "memory/cuda_abi.h"

/* Off before the first allocation: nothing is known yet. */
enum queries_mode { QUERIES_OFF, QUERIES_ON, QUERIES_VERIFY };
extern _Atomic int queries_mode;

static inline bool queries_are_on(void)
{
	return atomic_load_explicit(&queries_mode, memory_order_relaxed) != QUERIES_OFF && !process_is_done();
}

static inline bool queries_are_verified(void)
{
	return atomic_load_explicit(&queries_mode, memory_order_relaxed) == QUERIES_VERIFY;
}

/* At an allocation: decides once, by the settings, whether queries are answered. */
void queries_begin(void);

/* From now on the driver answers all of them. */
void queries_end(void);

CUresult queries_get(__typeof__(cuPointerGetAttribute) *forward, void *data, CUpointer_attribute attribute,
		     CUdeviceptr address);
CUresult queries_get_list(__typeof__(cuPointerGetAttributes) *forward, unsigned int count,
			  CUpointer_attribute *attributes, void **data, CUdeviceptr address);
CUresult queries_get_range(__typeof__(cuMemGetAddressRange_v2) *forward, CUdeviceptr *base, size_t *size,
			   CUdeviceptr address);
CUresult queries_get_handle(__typeof__(cuMemRetainAllocationHandle) *forward,
			    CUmemGenericAllocationHandle *handle, void *address);
CUresult queries_set(__typeof__(cuPointerSetAttribute) *forward, const void *value,
		     CUpointer_attribute attribute, CUdeviceptr address);

/* A stream of the program's is about to be captured, is or is not, or one has ended: meanwhile the driver refuses to set
 * SYNC_MEMOPS, and to free, and says so by ending the capture (measured). */
void queries_capture_begins(void);
void queries_capture_begun(bool begun);
void queries_capture_ended(void);
/* Whether one may be captured just now: rather too often than not, but for those that began in a way not known here. From any
 * thread. */
bool queries_may_be_captured(void);

#endif
