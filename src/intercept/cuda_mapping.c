/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_mapping.c -- physical memory that is mapped to reserved addresses
 *
 * Each cuMemMap is an allocation of its own: with its BUFFER_ID, its end by cuMemUnmap, and perhaps other memory
 * at the same address afterwards. The driver tells the reservation, not the mapping, as its range (measured), so
 * what is recorded is what the call says.
 */
#include "base/statistics.h"
#include "intercept/wrappers.h"

WRAP(cuMemAddressReserve, (address, size, alignment, wish, flags), CUdeviceptr *address, size_t size,
     size_t alignment, CUdeviceptr wish, unsigned long long flags)
{
	CUresult result = forward(address, size, alignment, wish, flags);

	if (result == CUDA_SUCCESS && address && !process_is_passive()) {
		statistics_count(reservations);
		memory_range_taken(*address, size);
	}
	return result;
}

/* While something is mapped there the driver refuses (measured). So there is nothing to let go of before; what is
 * still recorded afterwards was unmapped unseen. */
WRAP(cuMemAddressFree, (address, size), CUdeviceptr address, size_t size)
{
	CUresult result = forward(address, size);

	if (result == CUDA_SUCCESS && !process_is_passive())
		memory_range_gone(address, size);
	return result;
}

WRAP(cuMemMap, (address, size, offset, handle, flags), CUdeviceptr address, size_t size, size_t offset,
     CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	CUresult result = forward(address, size, offset, handle, flags);

	after_allocation(result, ALLOCATION_MAPPED, &address, size);
	return result;
}

/* What the call is going to end lets go first, as for a free. Where the driver was thought to refuse, a record was wrong. */
WRAP(cuMemUnmap, (address, size), CUdeviceptr address, size_t size)
{
	struct pending_frees *frees = process_is_passive() ? NULL : memory_range_freeing(address, size);
	CUresult result = forward(address, size);

	if (result == CUDA_SUCCESS && !frees && !process_is_passive())
		memory_range_gone(address, size);
	memory_frees_settled(frees, result != CUDA_SUCCESS);
	return result;
}

/* Only a device's own access to its memory counts; what is granted or taken by way of other devices leaves the
 * registrations alone. */
WRAP(cuMemSetAccess, (address, size, access, count), CUdeviceptr address, size_t size,
     const CUmemAccessDesc *access, size_t count)
{
	CUresult result;

	for (size_t i = 0; access && i < count && !process_is_passive(); i++) {
		if (access[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
		    access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
			memory_access_ending(address, size, access[i].location.id);
	}
	result = forward(address, size, access, count);
	if (!process_is_passive())
		memory_access_settled(address, size);
	return result;
}

/* Handles neither begin nor end memory that anybody can address: they are counted, so that the summary can say
 * why memory has not come back. */
static CUresult counted(CUresult result, bool released)
{
	if (result != CUDA_SUCCESS || process_is_passive())
		return result;
	if (released)
		statistics_count(handles_released);
	else
		statistics_count(handles_made);
	return result;
}

WRAP(cuMemCreate, (handle, size, properties, flags), CUmemGenericAllocationHandle *handle, size_t size,
     const CUmemAllocationProp *properties, unsigned long long flags)
{
	return counted(forward(handle, size, properties, flags), false);
}

WRAP(cuMemImportFromShareableHandle, (handle, shareable, type), CUmemGenericAllocationHandle *handle,
     void *shareable, CUmemAllocationHandleType type)
{
	return counted(forward(handle, shareable, type), false);
}

WRAP(cuMemRelease, (handle), CUmemGenericAllocationHandle handle)
{
	return counted(forward(handle), true);
}
