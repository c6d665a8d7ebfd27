/* SPDX-License-Identifier: BSD-3-Clause */
/* physical.c -- physical memory and its handles
 *
 * Physical memory is a memory file: 2 mappings of one handle show equal bytes, and another handle
 * mapped at an address shows other bytes. The last handle or mapping to end frees the file.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim.h"

static struct sim_physical *physicals;

static bool physical_is_device_memory(const CUmemAllocationProp *properties)
{
	return properties && properties->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
	       properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
	       properties->location.id >= 0 && properties->location.id < sim_device_count;
}

SIM_CALL(cuMemGetAllocationGranularity, (granularity, properties, option), size_t *granularity,
	 const CUmemAllocationProp *properties, CUmemAllocationGranularity_flags option)
{
	(void)option;
	if (!granularity || !physical_is_device_memory(properties))
		return CUDA_ERROR_INVALID_VALUE;
	*granularity = SIM_BLOCK;
	return CUDA_SUCCESS;
}

static struct sim_physical *physical_make(int device, int file, uint64_t size)
{
	struct sim_physical *physical = calloc(1, sizeof(*physical));

	if (!physical)
		return NULL;
	*physical = (struct sim_physical){ .next = physicals,
					   .device = device,
					   .file = file,
					   .size = size,
					   .handles = 1,
					   .id = sim_next_id() };
	physicals = physical;
	return physical;
}

SIM_CALL(cuMemCreate, (handle, size, properties, flags), CUmemGenericAllocationHandle *handle,
	 size_t size, const CUmemAllocationProp *properties, unsigned long long flags)
{
	struct sim_physical *physical;
	struct sim_device *device;
	int file;

	if (!handle || !sim_is_aligned(size) || !physical_is_device_memory(properties) || flags)
		return CUDA_ERROR_INVALID_VALUE;
	device = &sim_devices[properties->location.id];
	if (size / SIM_BLOCK > device->memory / SIM_BLOCK - device->used_blocks)
		return CUDA_ERROR_OUT_OF_MEMORY;
	file = memfd_create("peerpin-sim-physical", MFD_CLOEXEC);
	if (file < 0 || ftruncate(file, (off_t)size)) {
		close(file);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	physical = physical_make(properties->location.id, file, size);
	if (!physical) {
		close(file);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	physical->rdma_capable = properties->allocFlags.gpuDirectRDMACapable;
	physical->handle_types = properties->requestedHandleTypes;
	device->used_blocks += size / SIM_BLOCK;
	*handle = (uintptr_t)physical;
	return CUDA_SUCCESS;
}

struct sim_physical *sim_find_physical(CUmemGenericAllocationHandle handle)
{
	struct sim_physical *physical = physicals;

	while (physical && (uintptr_t)physical != handle)
		physical = physical->next;
	return physical && physical->handles ? physical : NULL;
}

static void physical_free_unused(struct sim_physical *physical)
{
	struct sim_physical **link = &physicals;

	if (physical->handles || physical->uses)
		return;
	while (*link != physical)
		link = &(*link)->next;
	*link = physical->next;
	close(physical->file);
	if (physical->origin)
		sim_close_physical(physical->origin);
	else
		sim_devices[physical->device].used_blocks -= physical->size / SIM_BLOCK;
	free(physical);
}

void sim_close_physical(struct sim_physical *physical)
{
	physical->uses--;
	physical_free_unused(physical);
}

bool sim_physical_is_rdma_capable(const struct sim_physical *physical)
{
	return physical->rdma_capable && !physical->origin;
}

bool sim_is_same_file(int one, int other)
{
	struct stat a, b;

	return !fstat(one, &a) && !fstat(other, &b) && a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

struct sim_physical *sim_open_physical(int file)
{
	for (struct sim_physical *physical = physicals; physical; physical = physical->next) {
		if (!physical->origin && sim_is_same_file(physical->file, file)) {
			physical->uses++;
			return physical;
		}
	}
	return NULL;
}

SIM_CALL(cuMemGetAllocationPropertiesFromHandle, (properties, handle),
	 CUmemAllocationProp *properties, CUmemGenericAllocationHandle handle)
{
	const struct sim_physical *physical = sim_find_physical(handle);

	if (!properties || !physical)
		return CUDA_ERROR_INVALID_VALUE;
	*properties = (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = physical->handle_types,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, physical->device },
		.allocFlags.gpuDirectRDMACapable = sim_physical_is_rdma_capable(physical),
	};
	return CUDA_SUCCESS;
}

SIM_CALL(cuMemRelease, (handle), CUmemGenericAllocationHandle handle)
{
	struct sim_physical *physical;

	physical = sim_find_physical(handle);
	if (!physical)
		return CUDA_ERROR_INVALID_VALUE;
	physical->handles--;
	physical_free_unused(physical);
	return CUDA_SUCCESS;
}

SIM_CALL(cuMemRetainAllocationHandle, (handle, address), CUmemGenericAllocationHandle *handle,
	 void *address)
{
	const struct sim_allocation *mapping;

	mapping = sim_find_attached((uintptr_t)address);
	if (!handle || !mapping || mapping->kind != SIM_MAPPED)
		return CUDA_ERROR_INVALID_VALUE;
	mapping->physical->handles++;
	*handle = (uintptr_t)mapping->physical;
	return CUDA_SUCCESS;
}

SIM_CALL(cuMemExportToShareableHandle, (shareable, handle, type, flags), void *shareable,
	 CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
	 unsigned long long flags)
{
	struct sim_physical *physical;

	physical = sim_find_physical(handle);
	if (!shareable || !physical || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags)
		return CUDA_ERROR_INVALID_VALUE;
	*(int *)shareable = dup(physical->file);
	return CUDA_SUCCESS;
}

SIM_CALL(cuMemImportFromShareableHandle, (handle, shareable, type),
	 CUmemGenericAllocationHandle *handle, void *shareable, CUmemAllocationHandleType type)
{
	struct sim_physical *origin, *physical = NULL;
	int file = (int)(intptr_t)shareable;

	if (!handle || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	origin = sim_open_physical(file);
	if (!origin)
		return CUDA_ERROR_INVALID_VALUE;
	file = dup(origin->file);
	if (file >= 0)
		physical = physical_make(origin->device, file, origin->size);
	if (!physical) {
		close(file);
		sim_close_physical(origin);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	physical->origin = origin;
	physical->handle_types = origin->handle_types;
	*handle = (uintptr_t)physical;
	return CUDA_SUCCESS;
}
