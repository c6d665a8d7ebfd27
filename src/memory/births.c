/* SPDX-License-Identifier: BSD-3-Clause */
/* births.c -- what is told at the birth of an allocation, and where it comes from */
#include "memory/memory.h"

#include <errno.h>
#include <stddef.h>

#include "base/log.h"
#include "base/process.h"
#include "base/statistics.h"
#include "memory/driver.h"
#include "memory/events.h"
#include "memory/table.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* What the guide names as the memory that can be registered (GPUDirect RDMA guide 5.1). */
static bool is_plain(enum allocation_kind kind)
{
	return kind == ALLOCATION_DEVICE || kind == ALLOCATION_PITCHED;
}

/* RANGE_SIZE is that of the allocation but for mapped memory, where it is the reservation's (measured). */
static void read_size(uint64_t address, struct allocation *allocation)
{
	const struct driver_calls *driver = driver_calls();
	size_t size = 0;

	if (driver->cuPointerGetAttribute)
		driver->cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address);
	allocation->size = size;
}

bool attributes_read(uint64_t address, struct allocation *allocation)
{
	const struct driver_calls *driver = driver_calls();
	unsigned int capable = 0;
	CUpointer_attribute attributes[] = {
		CU_POINTER_ATTRIBUTE_CONTEXT,
		CU_POINTER_ATTRIBUTE_BUFFER_ID,
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
		CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE,
	};
	void *values[] = { &allocation->context, &allocation->buffer_id, &allocation->device, &capable };
	CUresult result = CUDA_ERROR_NOT_SUPPORTED;

	allocation->context = NULL;
	allocation->buffer_id = 0;
	allocation->device = -1;
	if (driver->cuPointerGetAttributes)
		result = driver->cuPointerGetAttributes(COUNT(attributes), attributes, values, address);
	if (result == CUDA_SUCCESS) {
		allocation->rdma_capable = capable;
		if (!allocation->size && allocation->buffer_id)
			read_size(address, allocation);
		return allocation->buffer_id != 0;
	}
	/* A driver from before 11.1 does not know the last one and refuses the list. Then the guide's word
	 * holds: plain device memory can be registered. */
	if (driver->cuPointerGetAttributes)
		result = driver->cuPointerGetAttributes(COUNT(attributes) - 1, attributes, values, address);
	allocation->rdma_capable = is_plain(allocation->kind);
	return result == CUDA_SUCCESS && allocation->buffer_id != 0;
}

bool attributes_match(const struct allocation *allocation)
{
	struct allocation now = *allocation;

	return attributes_read(allocation->base, &now) && now.buffer_id == allocation->buffer_id;
}

void memory_freed_unseen(const struct allocation *ended)
{
	statistics_count(unseen_frees);
	log_once(LOG_WARN,
		 "memory at 0x%llx was freed in a way that peerpin does not see; its registrations "
		 "are ended now. Please report how the program frees GPU memory.",
		 (unsigned long long)ended->base);
	events_dying(ended);
}

/* Another thread may be at the same address too, so this may take more than one try. */
static int insert(struct allocation *allocation)
{
	struct allocation ended;
	int error;

	while ((error = table_insert(allocation)) == -EEXIST) {
		if (!table_take_overlapping(allocation->base, allocation->size, &ended))
			continue;
		memory_freed_unseen(&ended);
	}
	return error;
}

void memory_insert(struct allocation *allocation)
{
	int error = insert(allocation);

	if (!error) {
		events_born(allocation);
		return;
	}
	statistics_count(untracked);
	log_message(LOG_INFO, "memory at 0x%llx, %llu bytes, is not tracked: %s",
		    (unsigned long long)allocation->base, (unsigned long long)allocation->size,
		    error == -ENOMEM ? "out of memory" : "unusual address");
}

void memory_range_taken(uint64_t base, uint64_t size)
{
	struct allocation ended;

	while (table_take_overlapping(base, size, &ended))
		memory_freed_unseen(&ended);
}

void memory_born(enum allocation_kind kind, uint64_t base, uint64_t size)
{
	/* What is mapped is accessible once somebody has said so. */
	struct allocation allocation = {
		.base = base, .size = size, .kind = kind, .accessible = kind != ALLOCATION_MAPPED
	};
	struct allocation known;

	process_activate();
	if (!attributes_read(base, &allocation)) {
		/* A captured allocation is no memory before its graph runs (measured): nobody can use it, and
		 * whatever was known there is gone. */
		if (kind == ALLOCATION_POOL)
			statistics_count(graph_allocations);
		else
			statistics_count(untracked);
		/* Without a BUFFER_ID nobody could say later whether this is still the same memory. */
		memory_range_taken(base, size);
		return;
	}
	/* A wrapped call may reach the driver through another wrapped call, which has told it already. */
	if (memory_find(base, &known) && known.base == base && known.buffer_id == allocation.buffer_id)
		return;
	statistics_count(births);
	statistics_add(born_bytes, size);
	memory_insert(&allocation);
}

bool memory_find(uint64_t address, struct allocation *found)
{
	return table_find(address, found);
}

bool memory_is_alive(uint64_t base, uint64_t id)
{
	return table_contains(base, id);
}

void memory_visit(void (*visit)(const struct allocation *allocation, void *argument), void *argument)
{
	table_visit(visit, argument);
}

void memory_used_by_adapter(const struct allocation *allocation)
{
	const struct driver_calls *driver = driver_calls();
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	unsigned int on = 1;

	/* Of mapped memory the driver refuses it (measured). */
	if (allocation->kind == ALLOCATION_MAPPED)
		return;
	if (!driver->cuPointerSetAttribute || !table_mark_used(allocation->base, allocation->id))
		return;
	/* In the default mode this call would invalidate a capture of the application's (measured). */
	if (driver->cuThreadExchangeStreamCaptureMode)
		driver->cuThreadExchangeStreamCaptureMode(&mode);
	if (driver->cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, allocation->base))
		log_once(LOG_INFO, "CU_POINTER_ATTRIBUTE_SYNC_MEMOPS could not be set at 0x%llx",
			 (unsigned long long)allocation->base);
	if (driver->cuThreadExchangeStreamCaptureMode)
		driver->cuThreadExchangeStreamCaptureMode(&mode);
}
