/* SPDX-License-Identifier: BSD-3-Clause */
/* mapping.c -- reserved addresses, physical memory, and the one mapped to the other
 *
 * Physical memory is a memory file, so that two mappings of it show the same bytes, and another file mapped to the
 * same address shows others. It goes with its last handle and its last mapping.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim.h"

struct reservation {
	struct reservation *next;
	uint64_t base, size;
};

struct sim_physical {
	struct sim_physical *next;
	struct sim_physical *origin; /* what it was imported from, which is kept by that */
	uint64_t size;
	int file;
	int device;
	unsigned int handles, uses; /* uses: mappings, buffers and imports */
	bool rdma_capable;
};

static struct reservation *reservations;
static struct sim_physical *physicals;

static bool is_aligned(uint64_t value)
{
	return value && !(value % SIM_BLOCK);
}

static struct reservation *reservation_of(uint64_t address)
{
	struct reservation *reservation = reservations;

	while (reservation && address - reservation->base >= reservation->size)
		reservation = reservation->next;
	return reservation;
}

bool sim_find_reservation(uint64_t address, uint64_t *base, uint64_t *size)
{
	const struct reservation *reservation = reservation_of(address);

	*base = reservation ? reservation->base : 0;
	*size = reservation ? reservation->size : 0;
	return reservation != NULL;
}

CUresult cuMemAddressReserve(CUdeviceptr *address, size_t size, size_t alignment, CUdeviceptr wish,
			     unsigned long long flags)
{
	struct reservation *reservation;
	CUresult result = sim_enter();

	(void)alignment;
	(void)wish; /* a hint, which need not be followed */
	if (result != CUDA_SUCCESS)
		return result;
	if (!address || !is_aligned(size) || flags)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	reservation = calloc(1, sizeof(*reservation));
	if (!reservation)
		return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
	reservation->base = sim_reserve_addresses(size);
	if (!reservation->base) {
		free(reservation);
		return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
	}
	reservation->size = size;
	reservation->next = reservations;
	reservations = reservation;
	*address = reservation->base;
	return sim_leave(CUDA_SUCCESS);
}

/* The first mapping at or after `address`, before `end`; NULL: none. */
static struct sim_allocation *mapping_from(uint64_t address, uint64_t end)
{
	struct sim_allocation *mapping;

	for (; address < end; address += SIM_BLOCK) {
		mapping = sim_find_attached(address);
		if (mapping && mapping->kind == SIM_MAPPED)
			return mapping;
	}
	return NULL;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t size)
{
	struct reservation **place = &reservations, *reservation;
	CUresult result = sim_enter();

	if (result != CUDA_SUCCESS)
		return result;
	while (*place && (*place)->base != address)
		place = &(*place)->next;
	reservation = *place;
	if (!reservation || reservation->size != size || mapping_from(address, address + size))
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	*place = reservation->next;
	munmap((void *)(uintptr_t)reservation->base, reservation->size);
	free(reservation);
	return sim_leave(CUDA_SUCCESS);
}

static bool is_device_memory(const CUmemAllocationProp *properties)
{
	return properties && properties->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
	       properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE && properties->location.id >= 0 &&
	       properties->location.id < sim_device_count;
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *properties,
				       CUmemAllocationGranularity_flags option)
{
	CUresult result = sim_enter();

	(void)option;
	if (result != CUDA_SUCCESS)
		return result;
	if (!granularity || !is_device_memory(properties))
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	*granularity = SIM_BLOCK;
	return sim_leave(CUDA_SUCCESS);
}

static struct sim_physical *make(int device, int file, uint64_t size)
{
	struct sim_physical *physical = calloc(1, sizeof(*physical));

	if (!physical)
		return NULL;
	*physical = (struct sim_physical){
		.next = physicals, .device = device, .file = file, .size = size, .handles = 1
	};
	physicals = physical;
	return physical;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *properties,
		     unsigned long long flags)
{
	struct sim_physical *physical;
	struct sim_device *device;
	CUresult result = sim_enter();
	int file;

	if (result != CUDA_SUCCESS)
		return result;
	if (!handle || !is_aligned(size) || !is_device_memory(properties) || flags)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	device = &sim_devices[properties->location.id];
	if (size / SIM_BLOCK > device->memory / SIM_BLOCK - device->used_blocks)
		return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
	file = memfd_create("peerpin-sim-physical", MFD_CLOEXEC);
	if (file < 0 || ftruncate(file, (off_t)size)) {
		close(file);
		return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
	}
	physical = make(properties->location.id, file, size);
	if (!physical) {
		close(file);
		return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
	}
	physical->rdma_capable = properties->allocFlags.gpuDirectRDMACapable;
	device->used_blocks += size / SIM_BLOCK;
	*handle = (uintptr_t)physical;
	return sim_leave(CUDA_SUCCESS);
}

static struct sim_physical *physical_of(CUmemGenericAllocationHandle handle)
{
	struct sim_physical *physical = physicals;

	while (physical && (uintptr_t)physical != handle)
		physical = physical->next;
	return physical && physical->handles ? physical : NULL;
}

static void end_if_unused(struct sim_physical *physical)
{
	struct sim_physical **place = &physicals;

	if (physical->handles || physical->uses)
		return;
	while (*place != physical)
		place = &(*place)->next;
	*place = physical->next;
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
	end_if_unused(physical);
}

uint64_t sim_physical_size(const struct sim_physical *physical)
{
	return physical->size;
}

int sim_physical_file(const struct sim_physical *physical)
{
	return physical->file;
}

bool sim_physical_is_rdma_capable(const struct sim_physical *physical)
{
	return physical->rdma_capable && !physical->origin;
}

/* By the file's inode: descriptors are copied and passed on. */
struct sim_physical *sim_open_physical(int file)
{
	struct stat wanted, found;

	if (fstat(file, &wanted))
		return NULL;
	for (struct sim_physical *physical = physicals; physical; physical = physical->next) {
		if (!physical->origin && !fstat(physical->file, &found) && found.st_ino == wanted.st_ino &&
		    found.st_dev == wanted.st_dev) {
			physical->uses++;
			return physical;
		}
	}
	return NULL;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct sim_physical *physical;
	CUresult result = sim_enter();

	if (result != CUDA_SUCCESS)
		return result;
	physical = physical_of(handle);
	if (!physical)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	physical->handles--;
	end_if_unused(physical);
	return sim_leave(CUDA_SUCCESS);
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
	const struct sim_allocation *mapping;
	CUresult result = sim_enter();

	if (result != CUDA_SUCCESS)
		return result;
	mapping = sim_find_attached((uintptr_t)address);
	if (!handle || !mapping || mapping->kind != SIM_MAPPED)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	mapping->physical->handles++;
	*handle = (uintptr_t)mapping->physical;
	return sim_leave(CUDA_SUCCESS);
}

CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
				      CUmemAllocationHandleType type, unsigned long long flags)
{
	struct sim_physical *physical;
	CUresult result = sim_enter();

	if (result != CUDA_SUCCESS)
		return result;
	physical = physical_of(handle);
	if (!shareable || !physical || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	*(int *)shareable = dup(physical->file);
	return sim_leave(CUDA_SUCCESS);
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shareable,
					CUmemAllocationHandleType type)
{
	struct sim_physical *origin, *physical = NULL;
	CUresult result = sim_enter();
	int file = (int)(intptr_t)shareable;

	if (result != CUDA_SUCCESS)
		return result;
	if (!handle || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	origin = sim_open_physical(file);
	if (!origin)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	file = dup(origin->file);
	if (file >= 0)
		physical = make(origin->device, file, origin->size);
	if (!physical) {
		close(file);
		sim_close_physical(origin);
		return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
	}
	physical->origin = origin;
	*handle = (uintptr_t)physical;
	return sim_leave(CUDA_SUCCESS);
}

/* A handle is mapped as a whole, to addresses where nothing is mapped (measured: NOT_SUPPORTED otherwise). */
CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
		  unsigned long long flags)
{
	const struct reservation *reservation;
	struct sim_physical *physical;
	struct sim_allocation *mapping;
	CUresult result = sim_enter();

	if (result != CUDA_SUCCESS)
		return result;
	physical = physical_of(handle);
	reservation = reservation_of(address);
	if (!physical || !reservation || flags || address % SIM_BLOCK ||
	    size > reservation->size - (address - reservation->base))
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	if (offset || size != physical->size || mapping_from(address, address + size))
		return sim_leave(CUDA_ERROR_NOT_SUPPORTED);
	mapping = sim_attach(SIM_MAPPED, NULL, physical->device, address, physical->file, 0, size);
	if (!mapping)
		return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
	mapping->access = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	mapping->physical = physical;
	mapping->range_base = reservation->base;
	mapping->range_size = reservation->size;
	physical->uses++;
	return sim_leave(CUDA_SUCCESS);
}

/* Whether the range begins and ends where mappings do; `holes`: it may also reach over what is not mapped. */
static bool is_whole(uint64_t address, uint64_t size, bool holes)
{
	const struct sim_allocation *mapping;
	uint64_t end = address + size;

	if (address % SIM_BLOCK || !is_aligned(size))
		return false;
	while (address < end) {
		mapping = sim_find_attached(address);
		if (mapping && mapping->kind == SIM_MAPPED) {
			if (mapping->base != address || mapping->base + mapping->size > end)
				return false;
			address += mapping->size;
		} else if (holes && reservation_of(address)) {
			address += SIM_BLOCK;
		} else {
			return false;
		}
	}
	return true;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t size)
{
	struct sim_allocation *mapping;
	CUresult result = sim_enter();

	if (result != CUDA_SUCCESS)
		return result;
	if (!is_whole(address, size, true))
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	while ((mapping = mapping_from(address, address + size)))
		sim_detach(mapping, true);
	return sim_leave(CUDA_SUCCESS);
}

/* The bytes stay readable for the processor whatever is said: who reads memory without access has a fault that
 * the tests do not have. */
CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc *access, size_t count)
{
	struct sim_allocation *mapping;
	uint64_t at = address;
	CUresult result = sim_enter();

	if (result != CUDA_SUCCESS)
		return result;
	if (!access || !count || !is_whole(address, size, false))
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	for (; (mapping = mapping_from(at, address + size)); at = mapping->base + mapping->size) {
		for (size_t i = 0; i < count; i++) {
			if (access[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
			    access[i].location.id == mapping->device)
				mapping->access = access[i].flags;
		}
	}
	return sim_leave(CUDA_SUCCESS);
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address)
{
	const struct sim_allocation *mapping;
	CUresult result = sim_enter();

	if (result != CUDA_SUCCESS)
		return result;
	mapping = sim_find_attached(address);
	if (!flags || !location || !mapping || mapping->kind != SIM_MAPPED)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	*flags = location->id == mapping->device ? mapping->access : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return sim_leave(CUDA_SUCCESS);
}
