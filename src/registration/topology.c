/* SPDX-License-Identifier: BSD-3-Clause */
/* topology.c -- PCI location of GPUs and adapters, read from sysfs */
#include "registration/topology.h"

#include <errno.h>

#include "base/pci_path.h"
#include "base/pci_resource.h"
#include "base/system.h"
#include "base/text.h"
#include "memory/driver.h"
#include "registration/registration.h"
#include "registration/sysfs.h"

#define VENDOR "0x10de"

/* ---- adapters ---- */

const char *topology_adapter_name(struct ibv_context *context)
{
	const struct verbs_calls *verbs = verbs_calls();
	const char *name = NULL;

	if (verbs->ibv_get_device_name && context->device)
		name = verbs->ibv_get_device_name(context->device);
	return name ? name : "";
}

uint64_t topology_region_limit(struct ibv_context *context)
{
	const struct verbs_calls *verbs = verbs_calls();
	struct ibv_device_attr attributes = { .max_mr = 0 };
	int saved_errno = errno;
	uint64_t limit = 0;

	if (verbs->ibv_query_device && !verbs->ibv_query_device(context, &attributes) &&
	    attributes.max_mr > 0)
		limit = (uint64_t)attributes.max_mr;
	errno = saved_errno;
	return limit;
}

/* No such link: an adapter without a PCI function of its own or above it (Soft-RoCE). */
static bool topology_find_adapter(const char *name, char path[SYSFS_NAME_MAX])
{
	char link[SYSFS_NAME_MAX];
	int length = system_format(link, sizeof(link), "class/infiniband/%s/device", name);

	return *name && !text_find(name, '/') && length > 0 && (size_t)length < sizeof(link) &&
	       sysfs_resolve(link, path);
}

/* ---- GPUs ---- */

static bool topology_query_attribute(CUdevice_attribute attribute, int device, unsigned int *value)
{
	const struct driver_calls *driver = driver_calls();
	int saved_errno = errno;
	int answer = -1;
	CUresult result;

	if (!driver->cuDeviceGetAttribute)
		return false;
	result = driver->cuDeviceGetAttribute(&answer, attribute, device);
	errno = saved_errno;
	*value = (unsigned int)answer;
	return result == CUDA_SUCCESS && answer >= 0;
}

/* The GPU's folder among the PCI devices. False: none, or another vendor's device has the driver's
 * address. Such a GPU is not this machine's (virtual machine, simulated driver). */
static bool topology_find_gpu(int device, char name[64])
{
	unsigned int domain, bus, slot;
	char file[80], vendor[16];

	if (device < 0 ||
	    !topology_query_attribute(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, device, &domain) ||
	    !topology_query_attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device, &bus) ||
	    !topology_query_attribute(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, device, &slot))
		return false;
	system_format(name, 64, "bus/pci/devices/%04x:%02x:%02x.0", domain, bus, slot);
	system_format(file, sizeof(file), "%s/vendor", name);
	return sysfs_read(file, vendor, sizeof(vendor)) && text_equals(vendor, VENDOR);
}

/* ---- distances ---- */

/* Components of the GPU's path that the adapter's path does not share: the path up from the GPU
 * before the turn. The adapter's side does not count, because a virtual function's path is longer
 * than its adapter's at equal distance. Under other root complexes all are equally far. */
static unsigned int topology_distance(const char *gpu, const char *adapter)
{
	return pci_path_links(gpu, pci_path_common(gpu, adapter));
}

struct search {
	const char *gpu;
	unsigned int limit;
	bool found; /* an adapter closer than `limit` exists */
};

static bool topology_is_no_closer(const char *name, void *argument)
{
	struct search *search = argument;
	char path[SYSFS_NAME_MAX];

	search->found = topology_find_adapter(name, path) &&
			topology_distance(search->gpu, path) < search->limit;
	return !search->found;
}

bool topology_is_near(struct ibv_context *context, int device)
{
	char adapter[SYSFS_NAME_MAX], gpu[SYSFS_NAME_MAX], folder[64];
	struct search search = { .gpu = gpu };

	if (!topology_find_adapter(topology_adapter_name(context), adapter) ||
	    !topology_find_gpu(device, folder) || !sysfs_resolve(folder, gpu))
		return true;
	search.limit = topology_distance(gpu, adapter);
	sysfs_list("class/infiniband", topology_is_no_closer, &search);
	return !search.found;
}

/* ---- kind of path ---- */

static bool topology_read_node(const char *device, char node[16])
{
	char file[SYSFS_NAME_MAX];
	int length = system_format(file, sizeof(file), "%s/numa_node", device);

	return length > 0 && (size_t)length < sizeof(file) && sysfs_read(file, node, 16);
}

static enum pci_path topology_path_across_bridges(const char *gpu, const char *adapter)
{
	char one[16], other[16];

	if (!topology_read_node(gpu, one) || !topology_read_node(adapter, other))
		return PCI_PATH_UNKNOWN;
	return text_equals(one, other) && one[0] != '-' ? PCI_PATH_NODE : PCI_PATH_SYS;
}

/* Offset of the end of the host bridge's name (pci0000:00); 0: none. */
static size_t topology_host_bridge_end(const char *path)
{
	for (size_t i = 0; path[i]; i++) {
		if (!text_begins(path + i, "/pci") || !text_is_digit(path[i + 4]))
			continue;
		for (i++; path[i] && path[i] != '/'; i++)
			;
		return i;
	}
	return 0;
}

/* Soft-RoCE has a name below class/infiniband without a device, a simulated adapter no name. */
static bool topology_is_software(const char *name)
{
	char path[SYSFS_NAME_MAX];

	return *name && sysfs_exists("class") && !topology_find_adapter(name, path);
}

const char *topology_path(struct ibv_context *context, int device)
{
	const char *name = topology_adapter_name(context);
	char adapter[SYSFS_NAME_MAX], gpu[SYSFS_NAME_MAX], folder[64], link[SYSFS_NAME_MAX];
	enum pci_path path = PCI_PATH_UNKNOWN;
	size_t common, host;

	if (topology_is_software(name))
		return PCI_PATH_NONE;
	if (topology_find_adapter(name, adapter) && topology_find_gpu(device, folder) &&
	    sysfs_resolve(folder, gpu)) {
		common = pci_path_common(gpu, adapter);
		host = topology_host_bridge_end(gpu);
		system_format(link, sizeof(link), "class/infiniband/%s/device", name);
		if (host && common < host)
			path = topology_path_across_bridges(folder, link);
		else if (host && common == host)
			path = PCI_PATH_PHB;
		else if (host)
			path = pci_path_by_bridges(gpu, adapter, common);
	}
	return pci_path_name(path);
}

/* ---- BAR1 ---- */

uint64_t topology_bar1_bytes(int device)
{
	char folder[64], file[80], text[1024];
	uint64_t bytes = 0;

	if (!topology_find_gpu(device, folder))
		return 0;
	system_format(file, sizeof(file), "%s/resource", folder);
	if (sysfs_read(file, text, sizeof(text)))
		bytes = pci_resource_bar1(text);
	return bytes;
}
