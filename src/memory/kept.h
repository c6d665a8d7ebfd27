/* SPDX-License-Identifier: BSD-3-Clause */
/* kept.h -- inside the memory layer: the list of kept allocations, its limits and its order
 *
 * kept_lock guards the list. Lock order: taken alone.
 */
#ifndef PEERPIN_MEMORY_KEPT_H
#define PEERPIN_MEMORY_KEPT_H

#include "memory/keep.h"

/* Kept memory has a list for each GPU, and one for the host. */
#define KEPT_HOST  DEVICES_MAX /* number of the host's list */
#define KEPT_LISTS (KEPT_HOST + 1)

/* Of a device (ordinal), or KEEP_HOST. Higher ordinals share the last list of a device. */
static inline unsigned int kept_list_of(int device)
{
	if (device == KEEP_HOST)
		return KEPT_HOST;
	return device < 0 || device >= DEVICES_MAX ? DEVICES_MAX - 1 : (unsigned int)device;
}

static inline unsigned int kept_list_number(const struct allocation *allocation)
{
	return kept_list_of(allocation->kind == ALLOCATION_HOST ? KEEP_HOST : allocation->device);
}

/* One kept allocation. Its record is hidden, or has ended. */
struct kept {
	struct allocation allocation;
	struct keep_request request;
	union keep_target target;
};

/* Add an allocation, as the most recently kept one. False: no memory for the entry. */
bool kept_add(const struct kept *kept);

/* Take out the most recently kept allocation of the context for the request. Without one, for
 * device memory: of the lowest class up to kept_most_of(), the smallest of few. */
bool kept_take(CUcontext context, const struct keep_request *request, struct kept *taken);

/* Wait for all work of the context, as the driver's free does: for no other context (measured, also
 * for a context with peer access, whose kernel then fails). Ends no capture. An error: the driver's
 * own free has to decide. */
CUresult keep_wait(CUcontext context);

/* An allocation above 1 MiB begins blocks of its own, which count as used (measured). */
#define KEPT_SMALL ((uint64_t)1 << 20)

/* The class of device memory, in which all sizes serve each other where they are large enough: of
 * blocks, for which the driver takes as much; of small memory, eight for each power of two. */
static inline uint64_t kept_class_of(uint64_t size)
{
	uint64_t unit = size > KEPT_SMALL ? BLOCK
			: size < 4096	  ? 512
					  : (uint64_t)1 << (60 - __builtin_clzll(size));

	return (size + unit - 1) & ~(unit - 1);
}

/* The highest class that serves a request. Larger memory serves its class alone: what it has in
 * excess cannot be given back while the program has it. Small memory serves requests of two thirds
 * of its size: random sizes up to 64 KiB or 1 MiB over UCX 1.22 take 2.3 times as long without. */
static inline uint64_t kept_most_of(uint64_t size)
{
	uint64_t least = kept_class_of(size), most = least + least / 2;

	return size > KEPT_SMALL ? least : most < KEPT_SMALL ? most : KEPT_SMALL;
}

/* Bytes of device memory of a size: whole blocks, or the size; and those of an allocation, and of
 * its blocks alone. */
static inline uint64_t kept_bytes_for(uint64_t size)
{
	return size > KEPT_SMALL ? kept_class_of(size) : size;
}

static inline uint64_t kept_block_bytes_of(const struct allocation *allocation)
{
	return allocation->kind == ALLOCATION_HOST || allocation->size <= KEPT_SMALL
		       ? 0
		       : kept_bytes_for(allocation->size);
}

static inline uint64_t kept_bytes_of(const struct allocation *allocation)
{
	return allocation->kind == ALLOCATION_HOST ? allocation->size
						   : kept_bytes_for(allocation->size);
}

/* The limit of a GPU where so many bytes are about to be kept; and of the allocation's GPU, or of
 * the host, in bytes. */
uint64_t kept_device_limit(int device, uint64_t freed);
uint64_t kept_limit(const struct allocation *allocation);

/* The limit where more processes of the job may use the GPU by now; UINT64_MAX: it is as before. */
uint64_t kept_later_limit(int device);

/* The device has too little memory for an allocation of `bytes`, and this process keeps none of it.
 * With PEERPIN_KEEP=auto: ask the job's other ranks on that GPU to release what they keep, and wait
 * while they do: for 20 ms, after each release for 20 ms more, and 200 ms at most; once in a second
 * where that was too little. True: more memory is free.
 * kept_answer_ranks(): release what another rank has asked for. Call where memory may be kept. */
bool kept_ask_ranks(int device, uint64_t bytes);
void kept_answer_ranks(void);

/* Return true if the limit of the allocation's GPU, or of the host, is at least its size. */
bool kept_is_within_limit(const struct allocation *allocation);

/* The program has the allocation, or no longer has it. With table_lock held. */
void kept_count_live(const struct allocation *allocation, bool begins);

/* Bytes that the program has, and bytes that it has allocated so far: the clock of kept memory. */
uint64_t kept_live(unsigned int list);
uint64_t kept_allocated(unsigned int list);

/* Bytes that may be kept beside the program's and `bytes` more: together at most 1.5 times the most
 * that the program has had at a time; but 32 MiB at least. Host memory has no such bound. */
uint64_t kept_room(unsigned int list, uint64_t bytes);

/* Release allocations beyond the limit of that GPU, or of the host, and beyond the room those that
 * the program has not reused for long: first the one with the most bytes, times the bytes allocated
 * since its free. */
void kept_apply_limit(const struct allocation *allocation);

/* Call before the driver allocates so many bytes on the device: releases what has no room then. */
void kept_make_room(int device, uint64_t bytes);

/* Release while more than `bytes` are kept in the list, and memory of which the program has
 * allocated `unused` times its size since the free. */
void kept_release_above(unsigned int list, uint64_t bytes, uint64_t unused);

/* Release two allocations of cuMemAlloc in the context of this one, small if this is, or larger:
 * first the one with the most bytes, times the bytes allocated since its free. */
void kept_release_like(const struct allocation *allocation);

/* Counts the kept bytes for the statistics, if the list has at most `limit` of them: an added
 * allocation exceeds the limit until others are released. */
void kept_count_peaks(unsigned int list, uint64_t limit);

/* Release at least `bytes`, the largest allocations first, from the device (ordinal; KEEP_HOST:
 * from the host; KEEP_ANY; KEEP_POOL: from any device). False: nothing was kept there. */
bool kept_release(int device, uint64_t bytes);

/* Wait until no other thread is releasing memory of the context; NULL: until a thread has released
 * memory that it is releasing now. */
void kept_await_releases(CUcontext context);

/* Bytes of the driver's blocks that are kept on the device. */
uint64_t kept_block_bytes(int device);

/* Number of allocations of cuMemAlloc in the list, small ones if `bytes` are, or larger ones. */
uint64_t kept_number_like(unsigned int list, uint64_t bytes);

/* True while another thread is releasing an allocation that contains the address: its record has
 * ended, and the driver still has it. */
bool kept_is_releasing(uint64_t address);

/* Call after an allocation from a pool. */
void kept_pool_allocated(const struct allocation *allocation);

/* Return the memory that the pools of the device (KEEP_POOL: of any) hold. False: they held none.
 */
bool kept_trim_pools(int device);

/* memory_renew() of the list, and of the pools: nothing is kept. */
void kept_renew(void);
void kept_renew_pools(void);

#endif
