/* SPDX-License-Identifier: BSD-3-Clause */
/* kept.h -- inside the memory layer: the list of kept allocations, its limits and its order
 *
 * kept_lock guards the list. Lock order: taken alone.
 */
#ifndef PEERPIN_MEMORY_KEPT_H
#define PEERPIN_MEMORY_KEPT_H

#include "memory/keep.h"

/* One kept allocation. Its record is hidden, or has ended. */
struct kept {
	struct allocation allocation;
	struct keep_request request;
	union keep_target target;
};

/* Add an allocation, as the most recently kept one. False: no memory for the entry. */
bool kept_add(const struct kept *kept);

/* Take out the most recently kept allocation of the context for the request. */
bool kept_take(CUcontext context, const struct keep_request *request, struct kept *taken);

/* Wait for all work of the context, as the driver's free does: for no other context (measured, also
 * for a context with peer access, whose kernel then fails). Ends no capture. An error: the driver's
 * own free has to decide. */
CUresult keep_wait(CUcontext context);

/* Bytes of an allocation: of blocks of its own, or as requested; and those of blocks alone. */
uint64_t kept_bytes_of(const struct allocation *allocation);
uint64_t kept_block_bytes_of(const struct allocation *allocation);

/* The limit of the allocation's GPU, or of the host, in bytes. */
uint64_t kept_limit(const struct allocation *allocation);

/* Return true if the limit of the allocation's GPU, or of the host, is at least its size. */
bool kept_is_within_limit(const struct allocation *allocation);

/* Release the least recently kept allocations beyond the limit of that GPU, or of the host. */
void kept_apply_limit(const struct allocation *allocation);

/* Release at least `bytes`, the largest allocations first, from the device (ordinal; KEEP_HOST:
 * from the host; KEEP_ANY; KEEP_POOL: from any device). False: nothing was kept there. */
bool kept_release(int device, uint64_t bytes);

/* Wait until no other thread is releasing memory of the context; NULL: until a thread has released
 * memory that it is releasing now. */
void kept_await_releases(CUcontext context);

/* Bytes of the driver's blocks that are kept on the device. */
uint64_t kept_block_bytes(int device);

/* True while another thread is releasing an allocation that contains the address: its record has
 * ended, and the driver still has it. */
bool kept_is_releasing(uint64_t address);

/* memory_renew() of the list: nothing is kept. */
void kept_renew(void);

#endif
