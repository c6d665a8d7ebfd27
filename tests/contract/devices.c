/* SPDX-License-Identifier: BSD-3-Clause */
/* devices.c -- initialisation, and attributes of devices
 *
 * Attributes differ between devices; the tests require that they are consistent with each other.
 */
#include "driver.h"

#include <stdio.h>
#include <string.h>

static int attribute(CUdevice_attribute which)
{
	int value = -1;

	ck_cuda(driver.cuDeviceGetAttribute(&value, which, device));
	return value;
}

CASE(devices, .set_up = context_set_up, .tear_down = context_tear_down);

TEST(devices, nothing_works_before_initialisation_but_asking_for_nothing)
{
	ck_assert_int_eq(before_init.count, CUDA_ERROR_NOT_INITIALIZED);
	ck_assert_int_eq(before_init.allocate, CUDA_ERROR_NOT_INITIALIZED);
	ck_assert_int_eq(before_init.range, CUDA_ERROR_NOT_INITIALIZED);
	ck_cuda(before_init.no_range);
	ck_assert_int_eq(before_init.query, CUDA_ERROR_NOT_INITIALIZED);
	ck_assert_int_eq(before_init.list, CUDA_ERROR_NOT_INITIALIZED);
}

TEST(devices, the_driver_leaves_the_process_until_it_is_initialised)
{
	ck_assert(leaves.before_init);
	ck_assert(!leaves.after_init);
}

TEST(devices, the_driver_can_be_initialised_again)
{
	ck_cuda(driver.cuInit(0));
}

TEST(devices, devices_are_numbered_from_0_to_their_count)
{
	CUdevice each;
	int count = 0;

	ck_cuda(driver.cuDeviceGetCount(&count));
	ck_assert_int_ge(count, 1);
	for (int i = 0; i < count; i++)
		ck_cuda(driver.cuDeviceGet(&each, i));
	ck_assert_int_eq(driver.cuDeviceGet(&each, count), CUDA_ERROR_INVALID_DEVICE);
}

TEST(devices, a_device_s_address_on_the_bus_is_the_one_of_its_attributes)
{
	unsigned int domain = 99, bus = 99, slot = 99;
	char id[32] = "";

	ck_cuda(driver.cuDeviceGetPCIBusId(id, sizeof(id), device));
	ck_assert_int_eq(sscanf(id, "%x:%x:%x.0", &domain, &bus, &slot), 3);
	ck_assert_int_eq(attribute(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID), (int)domain);
	ck_assert_int_eq(attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID), (int)bus);
	ck_assert_int_eq(attribute(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID), (int)slot);
}

TEST(devices, a_device_is_found_by_its_address_on_the_bus)
{
	CUdevice found = 99;
	char id[32] = "";

	ck_cuda(driver.cuDeviceGetPCIBusId(id, sizeof(id), device));
	ck_cuda(driver.cuDeviceGetByPCIBusId(&found, id));
	ck_assert_int_eq(found, device);
	*strchr(id, '.') = '\0'; /* the function may be left out */
	found = 99;
	ck_cuda(driver.cuDeviceGetByPCIBusId(&found, id));
	ck_assert_int_eq(found, device);
	ck_assert_int_eq(driver.cuDeviceGetByPCIBusId(NULL, id), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(driver.cuDeviceGetByPCIBusId(&found, NULL), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_ne(driver.cuDeviceGetByPCIBusId(&found, "no address"), CUDA_SUCCESS);
	/* Bus 0 has no GPU: the host bridge is there. */
	ck_assert_int_eq(driver.cuDeviceGetByPCIBusId(&found, "0000:00:00.0"),
			 CUDA_ERROR_INVALID_DEVICE);
}

TEST(devices, a_device_is_no_peer_of_its_own)
{
	int can = 99, back = 99, count = 0;

	ck_cuda(driver.cuDeviceGetCount(&count));
	for (int peer = 0; peer < count; peer++) {
		ck_cuda(driver.cuDeviceCanAccessPeer(&can, device, peer));
		ck_cuda(driver.cuDeviceCanAccessPeer(&back, peer, device));
		ck_assert(can == 0 || (can == 1 && peer != device));
		ck_assert_int_eq(can, back);
	}
	ck_assert_int_eq(driver.cuDeviceCanAccessPeer(NULL, device, device),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(driver.cuDeviceCanAccessPeer(&can, device, count),
			 CUDA_ERROR_INVALID_DEVICE);
	ck_assert_int_eq(driver.cuDeviceCanAccessPeer(&can, count, device),
			 CUDA_ERROR_INVALID_DEVICE);
}

TEST(devices, the_compute_capability_is_the_one_of_its_attributes)
{
	int major = -1, minor = -1;

	ck_cuda(driver.cuDeviceComputeCapability(&major, &minor, device));
	ck_assert_int_eq(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR), major);
	ck_assert_int_eq(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR), minor);
}

TEST(devices, memory_of_a_device_that_can_do_rdma_is_capable_of_it)
{
	CUdeviceptr address = allocate(4 << 20);
	unsigned int capable = 0;

	ck_assert_int_eq(attribute(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING), 1);
	ck_cuda(driver.cuPointerGetAttribute(
		&capable, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, address));
	ck_assert_int_eq((int)capable, attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED));
	ck_cuda(driver.cuMemFree_v2(address));
}

TEST(devices, no_more_memory_is_free_than_the_device_has)
{
	size_t all = 0, free = 0, total = 0;

	ck_cuda(driver.cuDeviceTotalMem_v2(&all, device));
	ck_cuda(driver.cuMemGetInfo_v2(&free, &total));
	ck_assert_uint_gt(free, 0);
	ck_assert_uint_le(free, total);
	ck_assert_uint_le(free, all);
}
