/* SPDX-License-Identifier: BSD-3-Clause */
/* heap.h -- between the files of the driver; the caller holds world_lock */
#ifndef PEERPIN_TESTS_RANDOM_HEAP_H
#define PEERPIN_TESTS_RANDOM_HEAP_H

#include "random/world.h"

struct memory {
	struct memory *next; /* in its block, by address; or the next free one */
	uint64_t base, size, buffer_id;
	CUcontext context;
	unsigned int gpu;
	bool rdma_capable, mapped, accessible;
	bool gone;		     /* ended with its context: unknown to the driver */
	struct keep_request request; /* of the program */
	struct world_kept kept;
};

/* The memory that holds the address, also if it is gone; NULL: none. */
struct memory *heap_at(uint64_t address);

void heap_end(struct memory *memory);

/* The memory after this one, in some order; NULL: the first one, or none. */
struct memory *heap_next(const struct memory *memory);

/* ---- kept.c ---- */

void kept_count(const struct memory *memory, bool begins);
void kept_ended(struct memory *memory);

/* ---- contexts.c ---- */

uint64_t gpu_bytes(void); /* of each */
bool context_is_relaxed(void);

bool gpu_has_room(unsigned int gpu, uint64_t size);
void gpu_use(unsigned int gpu, uint64_t size, bool begins);

/* The driver's functions for contexts. */
CUresult context_get_current(CUcontext *context);
CUresult context_get_device(CUdevice *device);
CUresult context_get_version(CUcontext context, unsigned int *version);
CUresult context_push(CUcontext context);
CUresult context_pop(CUcontext *context);
CUresult context_create_event(CUevent *event, unsigned int flags);
CUresult context_record_event(CUcontext context, CUevent event);
CUresult context_query_event(CUevent event);
CUresult context_synchronize_event(CUevent event);
CUresult context_destroy_event(CUevent event);
CUresult context_allocate(CUdeviceptr *address, size_t size);
CUresult context_free(CUdeviceptr address);
CUresult context_exchange_mode(CUstreamCaptureMode *mode);
CUresult context_memory(size_t *unused, size_t *total);

#endif
