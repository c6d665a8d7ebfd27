/* SPDX-License-Identifier: BSD-3-Clause */
/* rows_mapping.c -- the rows of reserved addresses, physical memory, and mappings */
#include <unistd.h>

#include "steps.h"
#include "../../vmm.h"

static bool map(CUdeviceptr *address, CUmemGenericAllocationHandle *handle)
{
	CUmemAccessDesc access = { .location = { CU_MEM_LOCATION_TYPE_DEVICE, device },
				   .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };

	return OK(driver.cuMemAddressReserve(address, 2 * UNIT, 0, 0, 0)) &&
	       OK(driver.cuMemCreate(handle, UNIT, &vmm_shared, 0)) &&
	       OK(driver.cuMemMap(*address, UNIT, 0, *handle, 0)) &&
	       OK(driver.cuMemSetAccess(*address, UNIT, &access, 1));
}

static bool unmap(CUdeviceptr address, CUmemGenericAllocationHandle handle)
{
	return OK(driver.cuMemUnmap(address, UNIT)) && OK(driver.cuMemRelease(handle)) &&
	       OK(driver.cuMemAddressFree(address, 2 * UNIT));
}

/* A record in the range is of memory whose free peerpin missed. */
bool test_cuMemAddressReserve(void)
{
	CUresult (*unmap_past)(CUdeviceptr, size_t) =
		(CUresult(*)(CUdeviceptr, size_t))bypass("cuMemUnmap");
	CUresult (*free_past)(CUdeviceptr, size_t) =
		(CUresult(*)(CUdeviceptr, size_t))bypass("cuMemAddressFree");
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address, again;

	NEED(map(&address, &handle) && OK(unmap_past(address, UNIT)) &&
	     OK(free_past(address, 2 * UNIT)) && OK(driver.cuMemRelease(handle)));
	NEED(RISES("missed_frees", f->cuMemAddressReserve(&again, 2 * UNIT, 0, address, 0)) &&
	     again == address);
	return OK(driver.cuMemAddressFree(again, 2 * UNIT));
}

bool test_cuMemMap(void)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;

	NEED(OK(driver.cuMemAddressReserve(&address, 2 * UNIT, 0, 0, 0)) &&
	     OK(driver.cuMemCreate(&handle, UNIT, &vmm_shared, 0)));
	NEED(RISES("allocations", f->cuMemMap(address, UNIT, 0, handle, 0)));
	return unmap(address, handle);
}

bool test_cuMemUnmap(void)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;

	NEED(map(&address, &handle));
	NEED(RISES("frees", f->cuMemUnmap(address, UNIT)));
	return OK(driver.cuMemRelease(handle)) && OK(driver.cuMemAddressFree(address, 2 * UNIT));
}

bool test_cuMemAddressFree(void)
{
	CUresult (*unmap_past)(CUdeviceptr, size_t) =
		(CUresult(*)(CUdeviceptr, size_t))bypass("cuMemUnmap");
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;

	NEED(map(&address, &handle) && OK(unmap_past(address, UNIT)));
	NEED(RISES("frees", f->cuMemAddressFree(address, 2 * UNIT)));
	return OK(driver.cuMemRelease(handle));
}

bool test_cuMemSetAccess(void)
{
	CUmemAccessDesc access = { .location = { CU_MEM_LOCATION_TYPE_DEVICE, device },
				   .flags = CU_MEM_ACCESS_FLAGS_PROT_NONE };
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;

	NEED(map(&address, &handle));
	NEED(RISES("access_removed", f->cuMemSetAccess(address, UNIT, &access, 1)));
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	NEED(RISES("access_granted", f->cuMemSetAccess(address, UNIT, &access, 1)));
	return unmap(address, handle);
}

bool test_cuMemGetHandleForAddressRange(void)
{
	CUdeviceptr address;
	int file;

	NEED(OK(driver.cuMemAlloc_v2(&address, 4 << 20)));
	NEED(RISES("exports",
		   f->cuMemGetHandleForAddressRange(&file, address, 65536,
						    CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0)));
	close(file);
	return OK(driver.cuMemFree_v2(address));
}
