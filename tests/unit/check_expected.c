/* SPDX-License-Identifier: BSD-3-Clause */
/* check_expected.c -- memory for the first request of a known client (PEERPIN_PREREGISTER=eager),
 * on one adapter near the GPU and one that is not
 */
#include <check.h>

#include "registration_fixture.h"
#include "sysfs_fixture.h"

#define HOST	((uint64_t)0x7f9900000000)
#define RELAXED (RIGHTS | IBV_ACCESS_RELAXED_ORDERING)

/* A device pointer points to the device's name. */
static char near_name[] = "mlx5_0", far_name[] = "mlx5_1";
static struct ibv_context near_device = { (struct ibv_device *)near_name };
static struct ibv_context far_device = { (struct ibv_device *)far_name };
static struct ibv_pd near = { .context = &near_device, .handle = 2 };
static struct ibv_pd far = { .context = &far_device, .handle = 3 };

static const char *device_name(struct ibv_device *device)
{
	return (const char *)device;
}

static CUresult get_attribute(int *value, CUdevice_attribute attribute, CUdevice gpu)
{
	(void)gpu;
	*value = attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID;
	return CUDA_SUCCESS;
}

static void set_up_expected(void)
{
	setenv("PEERPIN_PREREGISTER", "eager", 1);
	standin_reset();
	standin_with_registration = true;
	standin_driver.cuDeviceGetAttribute = get_attribute;
	standin_verbs.ibv_get_device_name = device_name;
	sysfs_begin();
	sysfs_make_file("devices/pci0000:00/0000:01:00.0/vendor", "0x10de\n");
	sysfs_make_link("bus/pci/devices/0000:01:00.0", "../../../devices/pci0000:00/0000:01:00.0");
	sysfs_make_adapter("mlx5_0", "devices/pci0000:00/0000:02:00.0");
	sysfs_make_adapter("mlx5_1", "devices/pci0000:80/0000:81:00.0");
	registration_pd_opened(&near, false);
	registration_pd_opened(&far, false);
}

static void tear_down(void)
{
	sysfs_end();
}

static bool hits(struct ibv_pd *in, uint64_t address, int access)
{
	uint64_t before = statistics_tallied(TALLY_hits);
	struct registration_keys keys;

	ck_assert(ask_in(in, 1, address, BLOCK, access, &keys));
	ck_assert(registration_drop(&client_mrs[1]));
	return statistics_tallied(TALLY_hits) > before;
}

static void request_host_memory(struct ibv_pd *in, int access)
{
	struct registration_request request = request_in(in, 2, HOST, 4096, access);

	ck_assert(!registration_concerns(&request));
}

CASE(expected, .set_up = set_up_expected, .tear_down = tear_down);

TEST(expected, memory_near_the_adapter_is_registered_inside_the_allocation)
{
	registration_expect(&near, RIGHTS);
	registration_expect(&far, RIGHTS);
	begin(HOME, BLOCK);
	ck_assert_uint_eq(standin_registered(), 1);
	ck_assert(hits(&near, HOME, RIGHTS));
	ck_assert(!hits(&far, HOME, RIGHTS));
	/* A request enables the domain for all memory. */
	begin(HOME + 2 * BLOCK, BLOCK);
	ck_assert(hits(&near, HOME + 2 * BLOCK, RIGHTS));
	ck_assert(hits(&far, HOME + 2 * BLOCK, RIGHTS));
}

TEST(expected, the_worker_registers_memory_from_before_the_protection_domain)
{
	count_own_pins();
	begin(HOME, BLOCK);
	ck_assert_uint_eq(standin_registered(), 0);
	registration_expect(&near, RIGHTS);
	ck_assert_uint_eq(own_pins, 0);
	await("registrations_background", 1);
	ck_assert(hits(&near, HOME, RIGHTS));
	ck_assert_uint_eq(own_pins, 0);
}

TEST(expected, access_flags_match_exactly)
{
	registration_expect(&near, RIGHTS);
	begin(HOME, BLOCK);
	ck_assert(!hits(&near, HOME, IBV_ACCESS_LOCAL_WRITE));
	ck_assert_uint_eq(standin_registered(), 2);
}

TEST(expected, relaxed_ordering_is_expected_once_host_memory_has_it)
{
	registration_expect(&near, RIGHTS);
	request_host_memory(&near, RIGHTS);
	request_host_memory(&near, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING);
	begin(HOME, BLOCK);
	ck_assert_uint_eq(standin_registered(), 1);
	request_host_memory(&near, RELAXED);
	request_host_memory(&near, RELAXED);
	await("registrations_background", 2);
	begin(HOME + 2 * BLOCK, BLOCK);
	ck_assert_uint_eq(standin_registered(), 4);
	ck_assert(hits(&near, HOME, RELAXED) && hits(&near, HOME, RIGHTS));
	ck_assert(hits(&near, HOME + 2 * BLOCK, RELAXED));
}

TEST(expected, host_memory_of_an_unknown_client_is_no_sign)
{
	request_host_memory(&near, RELAXED);
	request_host_memory(&near, IBV_ACCESS_RELAXED_ORDERING);
	begin(HOME, BLOCK);
	ck_assert_uint_eq(standin_registered(), 0);
}

SUITE("expected")
