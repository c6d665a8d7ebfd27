/* SPDX-License-Identifier: BSD-3-Clause */
/* observe.h -- records what a program and its libraries do with GPU memory and registrations
 *
 * With PEERPIN_OBSERVE every call is forwarded unchanged; the intercept layer measures it, and
 * reports it here. No function calls CUDA or verbs. What the records have of memory are the
 * arguments of the calls.
 *
 * Counts and times are exact. Tables have a fixed size, in memory that the first call maps; what
 * finds no room in a table is counted as lost, and takes no part in the findings. Any thread. One
 * lock (observe.c), which is last in the order and not held across a look-up in loaded objects.
 *
 * Times are in nanoseconds, by system_clock(). `caller`: the return address of the call.
 */
#ifndef PEERPIN_OBSERVE_OBSERVE_H
#define PEERPIN_OBSERVE_OBSERVE_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/memory.h"

/* ---- memory ---- */

/* The driver has allocated memory in `ns`. */
void observe_allocated(enum allocation_kind kind, uint64_t address, uint64_t size, uint64_t ns);

/* State of a free between observe_freeing() and observe_freed(). */
struct observed_free {
	uint32_t memory; /* 0: none was recorded */
};

/* Call before the driver frees the memory at `address`: another thread may get the address. */
void observe_freeing(uint64_t address, struct observed_free *pending);

/* The call took `ns`. `waited`, if `sampled`: the time of a wait for the GPU immediately before. */
void observe_freed(const struct observed_free *pending, bool freed, uint64_t ns, bool sampled,
		   uint64_t waited);

/* True for one of so many frees: the caller waits for the GPU before it. A prime: programs free in
 * patterns, of which a sample of every 16th free would see one free alone. */
#define OBSERVE_SAMPLE 17u
bool observe_samples_free(void);

/* All mappings in the range end. */
void observe_unmapped(uint64_t address, uint64_t size, uint64_t ns);

/* SYNC_MEMOPS was set for the memory. */
void observe_synchronized(uint64_t address);

/* A dma-buf of [address, address + size) was exported. */
void observe_exported(int fd, uint64_t address, uint64_t size, uint64_t ns, const void *caller);

/* A context has ended: memory that is not freed until the exit may have ended with it. */
void observe_context_ended(void);

/* ---- registrations ---- */

enum observed_form { OBSERVED_ADDRESS, OBSERVED_DMA_BUF, OBSERVED_FORMS };

struct observed_registration {
	const void *mr; /* the client's struct, until it is deregistered */
	const void *pd;
	const void *device; /* open device */
	uint64_t address;   /* of a dma-buf: the offset */
	uint64_t length, iova;
	int access; /* flags */
	int fd;	    /* of a dma-buf */
	enum observed_form form;
};

/* A client allocated a protection domain on the adapter. `caller`: that of ibv_alloc_pd; NULL:
 * unknown. */
void observe_pd_allocated(const void *pd, const char *adapter, const void *caller);

/* Return 0, or the address of GPU memory that is registered for the first time, without SYNC_MEMOPS
 * of its own: the caller finds out whether the context has it. */
uint64_t observe_registered(const struct observed_registration *request, bool registered,
			    uint64_t ns);
void observe_deregistered(const void *mr, uint64_t ns);

/* The registration has another range, protection domain or other access flags from now on. Counts
 * as a deregistration and a registration. */
void observe_changed(const struct observed_registration *request, uint64_t ns);

/* A device whose struct is within these bytes is being closed: its registrations that are alive
 * were never deregistered. */
void observe_device_closing(const void *start, uint64_t bytes);

/* ---- the process ---- */

/* True if this process, or one that it descends from, has recorded anything. */
bool observe_has_begun(void);

/* Write the file, if anything was recorded. Called once, at exit. */
void observe_finish(void);

/* Forget all, in a child. */
void observe_renew(void);

#endif
