/* SPDX-License-Identifier: BSD-3-Clause */
/* mapping.c -- reserved addresses, and physical memory mapped there */
#include <stdlib.h>
#include <sys/mman.h>

#include "sim.h"

struct sim_reservation {
	struct sim_reservation *next;
	uint64_t base, size;
};

static struct sim_reservation *reservations;

static struct sim_reservation *mapping_reservation(uint64_t address)
{
	struct sim_reservation *reservation = reservations;

	while (reservation && address - reservation->base >= reservation->size)
		reservation = reservation->next;
	return reservation;
}

bool sim_find_reservation(uint64_t address, uint64_t *base, uint64_t *size)
{
	const struct sim_reservation *reservation = mapping_reservation(address);

	*base = reservation ? reservation->base : 0;
	*size = reservation ? reservation->size : 0;
	return reservation != NULL;
}

/* At the hint, where that is free: the driver may ignore it. */
static uint64_t mapping_reserve(uint64_t size, uint64_t hint)
{
	void *range = !hint || hint % SIM_BLOCK
			      ? MAP_FAILED
			      : mmap((void *)(uintptr_t)hint, size, PROT_NONE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (range != MAP_FAILED && (uintptr_t)range == hint)
		return hint;
	if (range != MAP_FAILED)
		munmap(range, size);
	return sim_reserve_addresses(size);
}

SIM_CALL(cuMemAddressReserve, (address, size, alignment, hint, flags), CUdeviceptr *address,
	 size_t size, size_t alignment, CUdeviceptr hint, unsigned long long flags)
{
	struct sim_reservation *reservation;

	(void)alignment;
	if (!address || !sim_is_aligned(size) || flags)
		return CUDA_ERROR_INVALID_VALUE;
	reservation = calloc(1, sizeof(*reservation));
	if (!reservation)
		return CUDA_ERROR_OUT_OF_MEMORY;
	reservation->base = mapping_reserve(size, hint);
	if (!reservation->base) {
		free(reservation);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	reservation->size = size;
	reservation->next = reservations;
	reservations = reservation;
	*address = reservation->base;
	return CUDA_SUCCESS;
}

/* The first mapping from `address` on, before `end`; NULL: none. */
static struct sim_allocation *mapping_find(uint64_t address, uint64_t end)
{
	struct sim_allocation *mapping;

	for (; address < end; address += SIM_BLOCK) {
		mapping = sim_find_attached(address);
		if (mapping && mapping->kind == SIM_MAPPED)
			return mapping;
	}
	return NULL;
}

SIM_CALL(cuMemAddressFree, (address, size), CUdeviceptr address, size_t size)
{
	struct sim_reservation **link = &reservations, *reservation;

	while (*link && (*link)->base != address)
		link = &(*link)->next;
	reservation = *link;
	if (!reservation || reservation->size != size || mapping_find(address, address + size))
		return CUDA_ERROR_INVALID_VALUE;
	*link = reservation->next;
	munmap((void *)(uintptr_t)reservation->base, reservation->size);
	free(reservation);
	return CUDA_SUCCESS;
}

/* Map a whole handle to unmapped addresses; else NOT_SUPPORTED (measured). */
SIM_CALL(cuMemMap, (address, size, offset, handle, flags), CUdeviceptr address, size_t size,
	 size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	const struct sim_reservation *reservation;
	struct sim_physical *physical;
	struct sim_allocation *mapping;

	physical = sim_find_physical(handle);
	reservation = mapping_reservation(address);
	if (!physical || !reservation || flags || address % SIM_BLOCK ||
	    size > reservation->size - (address - reservation->base))
		return CUDA_ERROR_INVALID_VALUE;
	if (offset || size != physical->size || mapping_find(address, address + size))
		return CUDA_ERROR_NOT_SUPPORTED;
	mapping = sim_attach(SIM_MAPPED, NULL, physical->device, address, physical->file, 0, size);
	if (!mapping)
		return CUDA_ERROR_OUT_OF_MEMORY;
	mapping->access = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	mapping->physical = physical;
	mapping->block_id = physical->id;
	mapping->range_base = reservation->base;
	mapping->range_size = reservation->size;
	physical->uses++;
	sim_populate(address, size);
	return CUDA_SUCCESS;
}

/* True if the range starts and ends at bounds of mappings. `holes`: reserved addresses without a
 * mapping may lie in between. */
static bool mapping_is_whole(uint64_t address, uint64_t size, bool holes)
{
	const struct sim_allocation *mapping;
	uint64_t end = address + size;

	if (address % SIM_BLOCK || !sim_is_aligned(size))
		return false;
	while (address < end) {
		mapping = sim_find_attached(address);
		if (mapping && mapping->kind == SIM_MAPPED) {
			if (mapping->base != address || mapping->base + mapping->size > end)
				return false;
			address += mapping->size;
		} else if (holes && mapping_reservation(address)) {
			address += SIM_BLOCK;
		} else {
			return false;
		}
	}
	return true;
}

SIM_CALL(cuMemUnmap, (address, size), CUdeviceptr address, size_t size)
{
	struct sim_allocation *mapping;

	if (!mapping_is_whole(address, size, true))
		return CUDA_ERROR_INVALID_VALUE;
	while ((mapping = mapping_find(address, address + size)))
		sim_detach(mapping, true);
	return CUDA_SUCCESS;
}

/* Access flags are only recorded: the pages stay readable by the processor. Real memory without
 * access faults; the tests never read such memory. */
SIM_CALL(cuMemSetAccess, (address, size, access, count), CUdeviceptr address, size_t size,
	 const CUmemAccessDesc *access, size_t count)
{
	struct sim_allocation *mapping;
	uint64_t at = address;

	if (!access || !count || !mapping_is_whole(address, size, false))
		return CUDA_ERROR_INVALID_VALUE;
	for (; (mapping = mapping_find(at, address + size)); at = mapping->base + mapping->size) {
		for (size_t i = 0; i < count; i++) {
			if (access[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
			    access[i].location.id == mapping->device)
				mapping->access = access[i].flags;
		}
	}
	return CUDA_SUCCESS;
}

SIM_CALL(cuMemGetAccess, (flags, location, address), unsigned long long *flags,
	 const CUmemLocation *location, CUdeviceptr address)
{
	const struct sim_allocation *mapping;

	mapping = sim_find_attached(address);
	if (!flags || !location || !mapping || mapping->kind != SIM_MAPPED)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = location->id == mapping->device ? mapping->access : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return CUDA_SUCCESS;
}
