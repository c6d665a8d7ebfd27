/* SPDX-License-Identifier: BSD-3-Clause */
/* queries.h -- pointer queries, answered as the driver would: part of the memory layer's contract
 *
 * The driver answers pointer queries under one lock (measured), and MPI libraries
 * query each buffer of each message. peerpin answers five constant attributes of recorded memory
 * from the table. Any other query, and a list with any other attribute, is forwarded. So are all
 * queries with a bypassing caller, in a forked child, and during exit.
 *
 * Each function takes the driver's own as `forward`, and returns its result or an identical one.
 * Any thread; no lock. With PEERPIN_VERIFY each answer is compared with the driver's, which the
 * caller gets.
 */
#ifndef PEERPIN_MEMORY_QUERIES_H
#define PEERPIN_MEMORY_QUERIES_H

#include <stdbool.h>

#include "base/atomics.h"
#include "base/process.h"
#include "memory/cuda_abi.h"

/* The settings decide at the first query or allocation. */
enum queries_mode { QUERIES_UNDECIDED, QUERIES_OFF, QUERIES_ON, QUERIES_VERIFY };
extern _Atomic int queries_mode;

/* Leave QUERIES_UNDECIDED. */
void queries_begin(void);

static inline bool queries_are_on(void)
{
	if (__builtin_expect(load_relaxed(&queries_mode) == QUERIES_UNDECIDED, 0))
		queries_begin();
	return load_relaxed(&queries_mode) != QUERIES_OFF && !process_is_done();
}

static inline bool queries_are_verified(void)
{
	return load_relaxed(&queries_mode) == QUERIES_VERIFY;
}

/* Forward every query from now on. */
void queries_end(void);

CUresult queries_get(__typeof__(cuPointerGetAttribute) *forward, void *data,
		     CUpointer_attribute attribute, CUdeviceptr address);
CUresult queries_get_list(__typeof__(cuPointerGetAttributes) *forward, unsigned int count,
			  CUpointer_attribute *attributes, void **data, CUdeviceptr address);
CUresult queries_get_handle(__typeof__(cuMemRetainAllocationHandle) *forward,
			    CUmemGenericAllocationHandle *handle, void *address);

#endif
