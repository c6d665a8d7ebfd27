/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_mapping.c -- VMM memory: physical memory mapped to reserved addresses
 *
 * Each cuMemMap is an allocation with its own BUFFER_ID. cuMemUnmap frees it, after which other
 * memory may be mapped at the address. The driver reports the reservation, not the mapping, as its
 * range (measured), so the record holds the arguments of the call.
 */
#include "intercept/wrappers.h"

WRAP(cuMemAddressReserve, (address, size, alignment, wish, flags), CUdeviceptr *address,
     size_t size, size_t alignment, CUdeviceptr wish, unsigned long long flags)
{
	CUresult result = forward(address, size, alignment, wish, flags);

	if (result == CUDA_SUCCESS && address && !process_is_passive())
		memory_reserved(*address, size);
	return result;
}

/* The driver refuses while a mapping remains (measured), so no registration has to be removed
 * first. A record that remains afterwards is a missed free. */
WRAP(cuMemAddressFree, (address, size), CUdeviceptr address, size_t size)
{
	CUresult result = forward(address, size);

	if (result == CUDA_SUCCESS && !process_is_passive())
		memory_range_gone(address, size);
	return result;
}

WRAP(cuMemMap, (address, size, offset, handle, flags), CUdeviceptr address, size_t size,
     size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	return wrapper_allocated(forward(address, size, offset, handle, flags), ALLOCATION_MAPPED,
				 &address, size);
}

/* Registrations are removed before the call, as for a free. If memory_range_freeing() expected a
 * refusal and the driver succeeds, a record was wrong. */
WRAP(cuMemUnmap, (address, size), CUdeviceptr address, size_t size)
{
	struct pending_frees *frees =
		process_is_passive() ? NULL : memory_range_freeing(address, size);
	CUresult result = WRAPPER_FREEING(forward(address, size));

	if (result == CUDA_SUCCESS && !frees && !process_is_passive())
		memory_range_gone(address, size);
	memory_frees_settled(frees, result != CUDA_SUCCESS);
	return result;
}

/* Only the owning device's access to its memory counts; access of other devices has no effect on
 * registrations. */
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

WRAP(cuMemCreate, (handle, size, properties, flags), CUmemGenericAllocationHandle *handle,
     size_t size, const CUmemAllocationProp *properties, unsigned long long flags)
{
	int device = properties && properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE
			     ? properties->location.id
			     : KEEP_HOST;

	return WRAPPER_RETRY(device, size, forward(handle, size, properties, flags));
}
