/* SPDX-License-Identifier: BSD-3-Clause */
/* topology.c -- PCI location of GPUs and adapters, read from sysfs */
#include "registration/topology.h"

#include <errno.h>
#include <stdio.h>

#include "base/pci.h"
#include "base/text.h"
#include "memory/driver.h"
#include "registration/registration.h"
#include "registration/sysfs.h"

#define VENDOR	    "0x10de"
#define ADAPTERS    "class/infiniband"
#define PCI_DEVICES "bus/pci/devices"
#define GPU_NAME    32 /* bytes of 0000:00:00.0, and of any three numbers */

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
	return *name && !text_find(name, '/') && sysfs_resolve(ADAPTERS, name, "device", path);
}

/* ---- GPUs ---- */

/* The GPU's name among the PCI devices. False: none, or another vendor's device has the driver's
 * address. Such a GPU is not this machine's (virtual machine, simulated driver). */
static bool topology_find_gpu(int device, char name[GPU_NAME])
{
	int domain, bus, slot, saved_errno = errno;
	bool found = device >= 0 &&
		     driver_device_attribute(device, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, &domain) &&
		     driver_device_attribute(device, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, &bus) &&
		     driver_device_attribute(device, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, &slot);
	char vendor[16];

	errno = saved_errno;
	if (!found)
		return false;
	snprintf(name, GPU_NAME, "%04x:%02x:%02x.0", (unsigned int)domain, (unsigned int)bus,
		 (unsigned int)slot);
	return sysfs_read(PCI_DEVICES, name, "vendor", vendor, sizeof(vendor)) &&
	       text_equals(vendor, VENDOR);
}

/* ---- distances ---- */

/* Components of the GPU's path that the adapter's path does not share: the path up from the GPU
 * before the turn. The adapter's side does not count, because a virtual function's path is longer
 * than its adapter's at equal distance. Under other root complexes all are equally far. */
static unsigned int topology_distance(const char *gpu, const char *adapter)
{
	return pci_path_links(gpu, pci_path_common(gpu, adapter));
}

struct topology_search {
	const char *gpu;
	unsigned int limit;
	bool found; /* an adapter closer than `limit` exists */
};

static bool topology_is_no_closer(const char *name, void *argument)
{
	struct topology_search *search = argument;
	char path[SYSFS_NAME_MAX];

	search->found = topology_find_adapter(name, path) &&
			topology_distance(search->gpu, path) < search->limit;
	return !search->found;
}

bool topology_is_near(struct ibv_context *context, int device)
{
	char adapter[SYSFS_NAME_MAX], gpu[SYSFS_NAME_MAX], name[GPU_NAME];
	struct topology_search search = { .gpu = gpu };

	if (!topology_find_adapter(topology_adapter_name(context), adapter) ||
	    !topology_find_gpu(device, name) || !sysfs_resolve(PCI_DEVICES, name, "", gpu))
		return true;
	search.limit = topology_distance(gpu, adapter);
	sysfs_list(ADAPTERS, topology_is_no_closer, &search);
	return !search.found;
}

/* ---- kind of path ---- */

static enum pci_path topology_path_across_bridges(const char *gpu, const char *adapter)
{
	char one[16], other[16];

	if (!sysfs_read(PCI_DEVICES, gpu, "numa_node", one, sizeof(one)) ||
	    !sysfs_read(ADAPTERS, adapter, "device/numa_node", other, sizeof(other)))
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

	return *name && sysfs_resolve("class", "", "", path) && !topology_find_adapter(name, path);
}

const char *topology_path(struct ibv_context *context, int device)
{
	const char *name = topology_adapter_name(context);
	char adapter[SYSFS_NAME_MAX], gpu[SYSFS_NAME_MAX], gpu_name[GPU_NAME];
	enum pci_path path = PCI_PATH_UNKNOWN;
	size_t common, host;

	if (topology_is_software(name))
		return PCI_PATH_NONE;
	if (topology_find_adapter(name, adapter) && topology_find_gpu(device, gpu_name) &&
	    sysfs_resolve(PCI_DEVICES, gpu_name, "", gpu)) {
		common = pci_path_common(gpu, adapter);
		host = topology_host_bridge_end(gpu);
		if (host && common < host)
			path = topology_path_across_bridges(gpu_name, name);
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
	char name[GPU_NAME], text[1024];

	return topology_find_gpu(device, name) &&
			       sysfs_read(PCI_DEVICES, name, "resource", text, sizeof(text))
		       ? pci_resource_bar1(text)
		       : 0;
}
