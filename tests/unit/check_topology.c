/* SPDX-License-Identifier: BSD-3-Clause */
/* check_topology.c -- distances of GPUs and adapters, from a simulated sysfs */
#include "suite.h"

#include <errno.h>

#include "registration/topology.h"
#include "standin.h"
#include "sysfs_fixture.h"

#define ERRNO 77 /* the caller's, to be preserved */

/* A device pointer points to the device's name. */
static char near_name[] = "mlx5_0", far_name[] = "mlx5_1", soft_name[] = "rxe0";
static struct ibv_context near = { (struct ibv_device *)near_name };
static struct ibv_context far = { (struct ibv_device *)far_name };
static struct ibv_context soft = { (struct ibv_device *)soft_name };

static int addresses[3]; /* domain, bus, device; negative: the driver refuses */
static int limit, limit_error;

static const char *device_name(struct ibv_device *device)
{
	return (const char *)device;
}

static int query_device(struct ibv_context *context, struct ibv_device_attr *attributes)
{
	(void)context;
	errno = EIO;
	attributes->max_mr = limit;
	return limit_error;
}

static CUresult get_attribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	int which = attribute == CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID ? 0
		    : attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID  ? 1
								   : 2;

	ck_assert(which < 2 || attribute == CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
	errno = EIO;
	if (device || addresses[which] < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	*value = addresses[which];
	return CUDA_SUCCESS;
}

#define SWITCH "devices/pci0000:00/0000:00:01.0/0000:01:00.0/"
#define GPU    SWITCH "0000:02:00.0/0001:0c:1f.0"
#define NEAR   SWITCH "0000:02:01.0/0000:04:00.0"
#define FAR    "devices/pci0000:80/0000:80:01.0/0000:81:00.0"
#define LINE   "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"

static void set_up(void)
{
	standin_reset();
	standin_driver.cuDeviceGetAttribute = get_attribute;
	standin_verbs.ibv_get_device_name = device_name;
	standin_verbs.ibv_query_device = query_device;
	addresses[0] = 1;
	addresses[1] = 0xc;
	addresses[2] = 0x1f;
	limit = 1000;
	limit_error = 0;
	sysfs_begin();
	sysfs_make_file(GPU "/vendor", "0x10de\n");
	sysfs_make_file(
		GPU "/resource",
		"0x00000000b9000000 0x00000000b9ffffff 0x0000000000040200\n"
		"0x000000a000000000 0x000000afffffffff 0x000000000014220c\n" LINE
		"0x000000b000000000 0x000000b001ffffff 0x000000000014220c\n" LINE LINE LINE);
	sysfs_make_link("bus/pci/devices/0001:0c:1f.0", "../../../" GPU);
	errno = ERRNO;
}

static void tear_down(void)
{
	sysfs_end();
}

static bool is_near(struct ibv_context *context)
{
	bool answer;

	errno = ERRNO;
	answer = topology_is_near(context, 0);
	ck_assert_int_eq(errno, ERRNO);
	return answer;
}

CASE(topology, .set_up = set_up, .tear_down = tear_down);

/* Two adapters, and whether each is near. */
static const struct {
	const char *promise, *first, *second;
	bool first_is_near, second_is_near;
} pairs[] = {
	{ "the adapter behind the GPU's switch is near, and another is not", NEAR, FAR, true,
	  false },
	{ "the nearest adapter is near, however far it is", NULL, FAR, true, true },
	/* A subfunction of the adapter: a longer sysfs path, the same PCIe distance. */
	{ "adapters at the same distance are both near", NEAR, NEAR "/mlx5_core.sf.4", true, true },
	{ "behind other root complexes all are equally far", "devices/pci0000:40/0000:40:01.0", FAR,
	  true, true },
	{ "names that begin alike are not the same place",
	  "devices/pci0000:00/0000:00:01.00/0000:04:00.0",
	  "devices/pci0000:00/0000:00:02.0/0000:05:00.0", true, true },
	{ "the root complex of the GPU is nearer than another",
	  "devices/pci0000:00/0000:00:02.0/0000:05:00.0", FAR, true, false },
};

LOOP_TEST(topology, the_nearest_adapters_are_near, 0, sizeof(pairs) / sizeof(pairs[0]))
{
	if (pairs[_i].first)
		sysfs_make_adapter("mlx5_0", pairs[_i].first);
	sysfs_make_adapter("mlx5_1", pairs[_i].second);
	ck_assert_msg((!pairs[_i].first || is_near(&near) == pairs[_i].first_is_near) &&
			      is_near(&far) == pairs[_i].second_is_near,
		      "%s", pairs[_i].promise);
}

static const struct {
	const char *adapter, *gpu_node, *adapter_node, *path;
} ways[] = {
	{ NEAR, "0", "0", "PIX" },
	{ SWITCH "0000:02:01.0/0000:04:00.0/0000:05:00.0/0000:06:00.0", "0", "0", "PXB" },
	{ "devices/pci0000:00/0000:00:02.0/0000:07:00.0", "0", "0", "PHB" },
	{ FAR, "0", "0", "NODE" },
	{ FAR, "0", "1", "SYS" },
	{ FAR, "-1", "-1", "SYS" },
	{ FAR, NULL, NULL, "" },
};

LOOP_TEST(topology, the_way_over_pci_has_the_name_that_nvidia_smi_gives_it, 0,
	  sizeof(ways) / sizeof(ways[0]))
{
	char file[300];

	sysfs_make_adapter("mlx5_0", ways[_i].adapter);
	snprintf(file, sizeof(file), "%s/numa_node", ways[_i].adapter);
	if (ways[_i].gpu_node) {
		sysfs_make_file(GPU "/numa_node", ways[_i].gpu_node);
		sysfs_make_file(file, ways[_i].adapter_node);
	}
	ck_assert_str_eq(topology_path(&near, 0), ways[_i].path);
	/* Cached. */
	ck_assert_str_eq(topology_path(&near, 0), ways[_i].path);
}

TEST(topology, an_adapter_without_pci_is_near_and_makes_no_other_one_far)
{
	sysfs_make_adapter("mlx5_1", FAR);
	sysfs_make_folders("devices/virtual/infiniband/rxe0/");
	sysfs_make_link("class/infiniband/rxe0", "../../devices/virtual/infiniband/rxe0");
	ck_assert(is_near(&soft));
	ck_assert(is_near(&far));
}

TEST(topology, where_the_gpu_is_unknown_all_are_near)
{
	sysfs_make_adapter("mlx5_0", NEAR);
	sysfs_make_adapter("mlx5_1", FAR);
	for (int i = 0; i < 3; i++) {
		int address = addresses[i];

		addresses[i] = -1;
		ck_assert(is_near(&far));
		addresses[i] = address;
	}
	ck_assert(topology_is_near(&far, 1));
	ck_assert(topology_is_near(&far, -1));
	standin_driver.cuDeviceGetAttribute = NULL;
	ck_assert(is_near(&far));
	standin_driver.cuDeviceGetAttribute = get_attribute;
	ck_assert(!is_near(&far));
}

TEST(topology, somebody_else_s_device_at_the_address_is_not_the_gpu)
{
	sysfs_make_adapter("mlx5_0", NEAR);
	sysfs_make_adapter("mlx5_1", FAR);
	sysfs_make_file(GPU "/vendor", "0x8086\n");
	ck_assert(is_near(&far));
	ck_assert_uint_eq(topology_bar1_bytes(0), 0);
	sysfs_remove(GPU "/vendor");
	ck_assert(is_near(&far));
	ck_assert_uint_eq(topology_bar1_bytes(0), 0);
	sysfs_remove("bus");
	ck_assert(is_near(&far));
	ck_assert_uint_eq(topology_bar1_bytes(0), 0);
	ck_assert_int_eq(errno, ERRNO);
}

TEST(topology, an_adapter_without_a_name_is_near)
{
	struct ibv_context unknown = { NULL };

	sysfs_make_adapter("mlx5_0", NEAR);
	ck_assert_str_eq(topology_adapter_name(&near), "mlx5_0");
	ck_assert_str_eq(topology_adapter_name(&unknown), "");
	ck_assert(is_near(&unknown));
	standin_verbs.ibv_get_device_name = NULL;
	ck_assert_str_eq(topology_adapter_name(&far), "");
	ck_assert(is_near(&far));
}

TEST(topology, without_a_sysfs_all_are_near_and_nothing_is_known)
{
	sysfs_remove("bus");
	sysfs_remove("devices");
	ck_assert(is_near(&near));
	ck_assert_uint_eq(topology_bar1_bytes(0), 0);
	ck_assert_int_eq(errno, ERRNO);
}

TEST(topology, bar1_is_the_second_range)
{
	ck_assert_uint_eq(topology_bar1_bytes(0), (uint64_t)64 << 30);
	ck_assert_int_eq(errno, ERRNO);
}

TEST(topology, bar1_lies_behind_an_empty_line_where_addresses_are_wide)
{
	sysfs_make_file(GPU "/resource",
			"0x0000042042000000 0x0000042042ffffff 0x000000000014220c\n" LINE
			"0x0000040000000000 0x0000043fffffffff 0x000000000014220c\n" LINE
			"0x0000042040000000 0x0000042041ffffff 0x000000000014220c\n" LINE);
	ck_assert_uint_eq(topology_bar1_bytes(0), (uint64_t)256 << 30);
}

LOOP_TEST(topology, one_range_and_what_is_no_address_are_no_bar1, 0, 8)
{
	static const char *const files[] = {
		"",
		"\n\n\n",
		"0x0 0xffff 0x0\n" LINE LINE LINE LINE LINE "0x0 0xffff 0x0\n",
		LINE LINE,
		"nonsense\n",
		/* The firmware assigned no address; the kernel did not, either. */
		"0xb9000000 0xb9ffffff 0x40200\n0x0 0xfffffffff 0x2014220c\n" LINE
		"0xb000000000 0xb001ffffff 0x14220c\n" LINE,
		"0xb9000000 0xb9ffffff 0x40200\n" LINE LINE
		"0xb000000000 0xb001ffffff 0x14220c\n" LINE,
		"0xb001000000 0xb001ffffff 0x14220c\n" LINE LINE LINE
		"0xb000000000 0xb001ffffff 0x14220c\n" LINE,
	};

	sysfs_make_file(GPU "/resource", files[_i]);
	ck_assert_uint_eq(topology_bar1_bytes(0), 0);
}

TEST(topology, a_missing_file_is_no_bar1)
{
	sysfs_remove(GPU "/resource");
	ck_assert_uint_eq(topology_bar1_bytes(0), 0);
}

TEST(topology, the_limit_of_regions_is_the_adapter_s)
{
	ck_assert_uint_eq(topology_region_limit(&near), 1000);
	limit = 5;
	ck_assert_uint_eq(topology_region_limit(&far), 5);
	ck_assert_int_eq(errno, ERRNO);
}

TEST(topology, a_limit_that_is_not_told_is_none)
{
	limit_error = EIO;
	ck_assert_uint_eq(topology_region_limit(&near), 0);
	limit_error = 0;
	limit = -1;
	ck_assert_uint_eq(topology_region_limit(&near), 0);
	standin_verbs.ibv_query_device = NULL;
	ck_assert_uint_eq(topology_region_limit(&near), 0);
	ck_assert_int_eq(errno, ERRNO);
}

SUITE("topology")
