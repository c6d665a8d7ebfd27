/* SPDX-License-Identifier: BSD-3-Clause */
/* kept.h -- inside the memory layer: the lists of kept memory, and their limits
 *
 * keep.c owns the lists, and keep_lock, which guards them and is taken alone; keep_limits.c knows
 * how much may be kept, and releases what others need.
 */
#ifndef PEERPIN_MEMORY_KEPT_H
#define PEERPIN_MEMORY_KEPT_H

#include "memory/keep.h"

/* Kept memory has a list for each GPU, and one for the host. Higher ordinals share the last list of
 * a device. */
#define KEPT_HOST  DEVICES_MAX /* number of the host's list */
#define KEPT_LISTS (KEPT_HOST + 1)

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

/* Bytes that the driver takes for device memory of a size: whole blocks, or the size. */
static inline uint64_t kept_bytes_for(uint64_t size)
{
	return size > KEPT_SMALL ? (size + BLOCK - 1) & ~(BLOCK - 1) : size;
}

static inline uint64_t kept_bytes_of(const struct allocation *allocation)
{
	return allocation->kind == ALLOCATION_HOST ? allocation->size
						   : kept_bytes_for(allocation->size);
}

/* The ordinal of the calling thread's current device; KEEP_CURRENT: none. */
int kept_current_device(void);

/* Bytes kept in the list. */
uint64_t kept_bytes(unsigned int list);

/* Kept memory in the lists [from, to), of that context, or of any (NULL). */
struct kept_part {
	unsigned int from, to;
	CUcontext context;
};

/* Release it. False: nothing was kept there. */
bool kept_release(const struct kept_part *part);

/* Release all that is kept there: on a device, KEEP_HOST or KEEP_DEVICES. False: nothing was. */
bool keep_release(int device);

/* The context of the memory that was kept first in the list; NULL: none is kept. */
CUcontext kept_first_context(unsigned int list);

/* Wait until other threads have released what they began to release of it before. */
void kept_await_releases(const struct kept_part *part);

/* ---- limits ---- */

/* The program has the allocation, or no longer has it. With table_lock held. */
void kept_count_live(const struct allocation *allocation, bool begins);

/* Bytes that may be kept in the list where the program frees so many, at most. May call the
 * driver. */
uint64_t kept_limit(unsigned int list, uint64_t freed);

/* Bytes that may be kept beside the program's, of which so many are ending: together at most 1.5
 * times the most that the program has had at a time; but 32 MiB at least. Host memory has no such
 * bound. */
uint64_t kept_room(unsigned int list, uint64_t ending);

/* Bytes of GPU memory up to which memory is kept that may never be reused: half of that peak, and
 * 32 MiB at least. */
uint64_t kept_trial(unsigned int list);

/* True while a call that was refused for want of memory is repeated, and for 100 ms after another
 * rank's request for memory was seen: frees keep nothing in that list, and release what their
 * context keeps there. */
bool kept_is_wanted(unsigned int list);

/* Look for such requests, at most every 10 ms; and likewise for any list. */
void kept_look_for_ranks(void);
bool kept_is_asked(void);

/* ---- waits (keep_wait.c) ---- */

/* Wait for all work of the context, as the driver's free does: for no other context (measured, also
 * for a context with peer access, whose kernel then fails). Ends no capture. An error: the driver's
 * own free has to decide. */
CUresult keep_wait(CUcontext context);

/* True if the context has no work now, or becomes so within 1 s: a release waits for work alone
 * that another thread adds meanwhile. False, too, if the driver has no events of contexts. */
bool keep_is_idle(CUcontext context);
bool keep_becomes_idle(CUcontext context);

/* ---- pools ---- */

/* Return the memory that the device's pool holds. False: it held none. */
bool kept_trim_pool(int device);

/* memory_renew(). */
void kept_renew(void);

#endif
