/* SPDX-License-Identifier: BSD-3-Clause */
/* mappings.c -- physical memory at reserved addresses */
#include "driver.h"
#include "../vmm.h"

#include <string.h>
#include <unistd.h>

#define UNITS 8

static size_t unit;
static CUdeviceptr home; /* reserved range of UNITS units */

static void set_up(void)
{
	context_set_up();
	ck_cuda(driver.cuMemGetAllocationGranularity(&unit, &vmm_shared,
						     CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	ck_cuda(driver.cuMemAddressReserve(&home, UNITS * unit, 0, 0, 0));
}

static void tear_down(void)
{
	ck_cuda(driver.cuMemUnmap(home, UNITS * unit));
	ck_cuda(driver.cuMemAddressFree(home, UNITS * unit));
	context_tear_down();
}

static CUmemGenericAllocationHandle make(size_t units, const CUmemAllocationProp *properties)
{
	CUmemGenericAllocationHandle handle;

	ck_cuda(driver.cuMemCreate(&handle, units * unit, properties, 0));
	return handle;
}

/* Map new physical memory; only the mapping holds it. */
static CUdeviceptr map(size_t at, size_t units)
{
	CUmemGenericAllocationHandle handle = make(units, &vmm_shared);

	ck_cuda(driver.cuMemMap(home + at * unit, units * unit, 0, handle, 0));
	ck_cuda(driver.cuMemRelease(handle));
	return home + at * unit;
}

static CUresult set_access(size_t at, size_t units, CUmemAccess_flags flags)
{
	CUmemAccessDesc access = { .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 }, .flags = flags };

	return driver.cuMemSetAccess(home + at * unit, units * unit, &access, 1);
}

static unsigned long long access_of(CUdeviceptr address)
{
	CUmemLocation location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 };
	unsigned long long flags = 99;

	ck_cuda(driver.cuMemGetAccess(&flags, &location, address));
	return flags;
}

CASE(mappings, .set_up = set_up, .tear_down = tear_down);

TEST(mappings, reserved_addresses_are_no_memory)
{
	struct attributes a = attributes_of(home);

	ck_assert_int_eq(query_buffer_id(home), CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(a.id, 0);
	ck_assert_int_eq(a.device, -2);
	ck_assert_uint_eq(a.range_base, home);
	ck_assert_uint_eq(a.range_size, UNITS * unit);
}

TEST(mappings, a_mapping_is_known_before_anybody_may_use_it)
{
	CUdeviceptr address = map(0, 1), base;
	struct attributes a = attributes_of(address);
	size_t size;

	ck_assert_uint_eq(a.id, buffer_id(address + 4096));
	ck_assert_ptr_null(a.context);
	ck_assert_uint_eq(a.rdma_capable, 1);
	ck_assert_uint_eq(a.ipc_capable, 0);
	ck_assert_int_eq(a.device, 0);
	/* The range is the reservation's. */
	ck_assert_uint_eq(a.range_base, home);
	ck_assert_uint_eq(a.range_size, UNITS * unit);
	ck_assert_uint_eq(access_of(address), CU_MEM_ACCESS_FLAGS_PROT_NONE);
	ck_assert_int_eq(driver.cuMemGetAddressRange_v2(&base, &size, address),
			 CUDA_ERROR_NOT_FOUND);
	ck_cuda(set_access(0, 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	ck_assert_uint_eq(access_of(address), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	ck_cuda(driver.cuMemGetAddressRange_v2(&base, &size, address));
	ck_assert_uint_eq(base, address);
	ck_assert_uint_eq(size, unit);
}

TEST(mappings, each_mapping_has_a_buffer_id_that_access_does_not_change)
{
	CUdeviceptr one = map(0, 1), other = map(1, 2);
	uint64_t id = buffer_id(one);

	ck_assert_uint_ne(id, buffer_id(other));
	ck_cuda(set_access(0, 3, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	ck_cuda(set_access(0, 1, CU_MEM_ACCESS_FLAGS_PROT_NONE));
	ck_assert_uint_eq(access_of(one), CU_MEM_ACCESS_FLAGS_PROT_NONE);
	ck_assert_uint_eq(access_of(other), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	ck_assert_uint_eq(buffer_id(one), id);
	ck_cuda(set_access(0, 1, CU_MEM_ACCESS_FLAGS_PROT_READ));
	ck_assert_uint_eq(access_of(one), CU_MEM_ACCESS_FLAGS_PROT_READ);
}

TEST(mappings, access_is_set_on_whole_mappings_without_holes)
{
	map(0, 1);
	map(1, 2);
	ck_assert_int_eq(set_access(1, 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(set_access(0, UNITS, CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(access_of(home), CU_MEM_ACCESS_FLAGS_PROT_NONE);
}

TEST(mappings, one_call_unmaps_several_mappings_and_holes_but_no_part)
{
	CUdeviceptr one = map(0, 1), two = map(1, 2), far = map(5, 1);

	ck_assert_int_eq(driver.cuMemUnmap(two, unit), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(driver.cuMemUnmap(one + 4096, 4096), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(query_buffer_id(two), CUDA_SUCCESS);
	ck_cuda(driver.cuMemUnmap(home, UNITS * unit));
	ck_assert_int_eq(query_buffer_id(one), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(query_buffer_id(two), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(query_buffer_id(far), CUDA_ERROR_INVALID_VALUE);
	ck_cuda(driver.cuMemUnmap(home, unit));
}

TEST(mappings, what_is_mapped_is_neither_freed_nor_unreserved)
{
	CUdeviceptr address = map(0, 1);
	uint64_t id = buffer_id(address);

	ck_assert_int_eq(driver.cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(driver.cuMemFreeAsync(address, NULL), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(driver.cuMemAddressFree(home, UNITS * unit), CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(buffer_id(address), id);
}

TEST(mappings, other_memory_at_the_same_address_is_another_allocation)
{
	CUdeviceptr address = map(0, 1);
	uint64_t id = buffer_id(address);
	unsigned char byte = 1;

	ck_cuda(set_access(0, 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	ck_cuda(driver.cuMemsetD8_v2(address, 0x77, unit));
	ck_cuda(driver.cuMemUnmap(address, unit));
	map(0, 1);
	ck_cuda(set_access(0, 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	ck_assert_uint_ne(buffer_id(address), id);
	ck_cuda(driver.cuMemsetD8_v2(address, 0x33, 1));
	ck_cuda(driver.cuMemcpyDtoH_v2(&byte, address, 1));
	ck_assert_uint_eq(byte, 0x33);
}

/* Unlike a free, which invalidates the capture. */
TEST(mappings, what_unmaps_disturbs_no_capture)
{
	CUdeviceptr address = map(0, 1);
	CUstream stream;
	CUgraph graph;

	ck_cuda(driver.cuStreamCreate(&stream, 1));
	ck_cuda(driver.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ck_cuda(driver.cuMemUnmap(address, unit));
	ck_cuda(driver.cuStreamEndCapture(stream, &graph));
	ck_cuda(driver.cuGraphDestroy(graph));
	ck_cuda(driver.cuStreamDestroy_v2(stream));
}

TEST(mappings, a_handle_can_be_mapped_twice_and_shows_the_same_bytes)
{
	CUmemGenericAllocationHandle handle = make(1, &vmm_shared);
	unsigned char byte = 0;

	ck_cuda(driver.cuMemMap(home, unit, 0, handle, 0));
	ck_cuda(driver.cuMemMap(home + unit, unit, 0, handle, 0));
	ck_cuda(driver.cuMemRelease(handle));
	ck_cuda(set_access(0, 2, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	ck_cuda(driver.cuMemsetD8_v2(home, 0x5a, unit));
	ck_cuda(driver.cuMemcpyDtoH_v2(&byte, home + unit + 100, 1));
	ck_assert_uint_eq(byte, 0x5a);
	ck_assert_uint_ne(buffer_id(home), buffer_id(home + unit));
}

TEST(mappings, copies_and_fills_reach_over_adjacent_mappings)
{
	const unsigned char written[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	unsigned char read[8] = { 0 };

	map(0, 1);
	map(1, 1);
	ck_cuda(set_access(0, 2, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	ck_cuda(driver.cuMemsetD8_v2(home, 0x5a, 2 * unit));
	ck_cuda(driver.cuMemcpyHtoD_v2(home + unit - 4, written, sizeof(written)));
	ck_cuda(driver.cuMemcpyDtoH_v2(read, home + unit - 4, sizeof(read)));
	ck_assert_mem_eq(read, written, sizeof(read));
	ck_cuda(driver.cuMemcpyDtoH_v2(read, home + unit + 4, 1));
	ck_assert_uint_eq(read[0], 0x5a);
}

TEST(mappings, the_handle_of_a_mapping_is_given_out_again_and_counted)
{
	CUmemGenericAllocationHandle handle = make(1, &vmm_shared), again = 0;

	ck_cuda(driver.cuMemMap(home, unit, 0, handle, 0));
	ck_cuda(driver.cuMemRetainAllocationHandle(&again, (void *)(home + 4096)));
	ck_assert_uint_eq(again, handle);
	ck_cuda(driver.cuMemRelease(handle));
	ck_cuda(driver.cuMemRelease(again));
	ck_assert_int_eq(query_buffer_id(home), CUDA_SUCCESS);
}

TEST(mappings, imported_memory_and_memory_made_without_the_flag_are_not_for_adapters)
{
	CUmemGenericAllocationHandle handle = make(1, &vmm_shared), imported,
				     without = make(1, &vmm_plain);
	int file = -1;

	ck_cuda(driver.cuMemExportToShareableHandle(&file, handle,
						    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	ck_cuda(driver.cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)file,
						      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(file);
	ck_cuda(driver.cuMemMap(home, unit, 0, imported, 0));
	ck_cuda(driver.cuMemMap(home + unit, unit, 0, without, 0));
	ck_assert_uint_eq(attributes_of(home).rdma_capable, 0);
	ck_assert_uint_eq(attributes_of(home + unit).rdma_capable, 0);
	ck_cuda(driver.cuMemRelease(handle));
	ck_cuda(driver.cuMemRelease(imported));
	ck_cuda(driver.cuMemRelease(without));
}

TEST(mappings, a_handle_returns_the_properties_that_it_was_made_with)
{
	CUmemGenericAllocationHandle handle = make(1, &vmm_shared), without = make(1, &vmm_plain);
	CUmemAllocationProp got;

	memset(&got, 0x55, sizeof(got));
	ck_cuda(driver.cuMemGetAllocationPropertiesFromHandle(&got, handle));
	ck_assert_int_eq(got.type, CU_MEM_ALLOCATION_TYPE_PINNED);
	ck_assert_int_eq(got.requestedHandleTypes, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	ck_assert_int_eq(got.location.type, CU_MEM_LOCATION_TYPE_DEVICE);
	ck_assert_int_eq(got.location.id, device);
	ck_assert_uint_eq(got.allocFlags.gpuDirectRDMACapable, 1);
	ck_cuda(driver.cuMemGetAllocationPropertiesFromHandle(&got, without));
	ck_assert_int_eq(got.requestedHandleTypes, CU_MEM_HANDLE_TYPE_NONE);
	ck_assert_uint_eq(got.allocFlags.gpuDirectRDMACapable, 0);
	ck_assert_int_eq(driver.cuMemGetAllocationPropertiesFromHandle(NULL, handle),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(driver.cuMemGetAllocationPropertiesFromHandle(&got, 0),
			 CUDA_ERROR_INVALID_VALUE);
	ck_cuda(driver.cuMemRelease(handle));
	ck_cuda(driver.cuMemRelease(without));
}

TEST(mappings, mappings_outlive_contexts)
{
	CUcontext other;

	ck_cuda(driver.cuCtxCreate_v2(&other, 0, device));
	map(0, 1);
	ck_cuda(driver.cuCtxDestroy_v2(other));
	ck_assert_int_eq(query_buffer_id(home), CUDA_SUCCESS);
}

TEST(mappings, one_dmabuf_may_reach_over_adjacent_mappings_but_not_into_a_hole)
{
	int file = -1;

	map(0, 1);
	map(1, 2);
	ck_cuda(set_access(0, 3, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	ck_cuda(driver.cuMemGetHandleForAddressRange(&file, home, 3 * unit,
						     CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	close(file);
	ck_assert_int_eq(driver.cuMemGetHandleForAddressRange(
				 &file, home, 4 * unit, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
			 CUDA_ERROR_INVALID_VALUE);
}

TEST(mappings, memory_is_mapped_as_a_whole_and_to_free_addresses)
{
	CUmemGenericAllocationHandle handle = make(2, &vmm_shared);
	uint64_t id = buffer_id(map(0, 1));

	ck_assert_int_eq(driver.cuMemMap(home, unit, 0, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
	ck_assert_int_eq(driver.cuMemMap(home + 2 * unit, unit, unit, handle, 0),
			 CUDA_ERROR_NOT_SUPPORTED);
	ck_assert_int_eq(driver.cuMemMap(home + 2 * unit, 4096, 0, handle, 0),
			 CUDA_ERROR_NOT_SUPPORTED);
	ck_assert_uint_eq(buffer_id(home), id);
	ck_assert_int_eq(query_buffer_id(home + 2 * unit), CUDA_ERROR_INVALID_VALUE);
	ck_cuda(driver.cuMemRelease(handle));
}
