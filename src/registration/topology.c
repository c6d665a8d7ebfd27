/* SPDX-License-Identifier: BSD-3-Clause */
/* topology.c -- finds out of sysfs where GPUs and adapters are, and remembers it */
#include "registration/topology.h"

#include <errno.h>
#include <pthread.h>

#include "base/pci_path.h"
#include "base/system.h"
#include "base/text.h"
#include "memory/driver.h"
#include "registration/registration.h"
#include "registration/sysfs.h"

#define NAME_LENGTH 64 /* IBV_SYSFS_NAME_MAX */
#define VENDOR	    "0x10de"
#define RESOURCES   6 /* a PCI function has so many address ranges */

/* ---- what has been found out ---- */

enum fact { FACT_REGIONS, FACT_NEAR, FACT_BAR1, FACT_PATH };

struct known {
	enum fact fact;
	int device;
	char adapter[NAME_LENGTH];
	uint64_t value;
};

/* What there is no room for is found out again each time. An adapter is known by its name: a context's address is
 * another one's after it is closed. */
static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the rest; taken alone */
static struct known known[256];
static unsigned int known_count;
static const char *known_of; /* the sysfs that they are of */

static const struct known *find_known(enum fact fact, int device, const char *adapter)
{
	if (known_of != topology_sysfs)
		known_count = 0;
	known_of = topology_sysfs;
	for (unsigned int i = 0; i < known_count; i++) {
		if (known[i].fact == fact && known[i].device == device &&
		    text_equals(known[i].adapter, adapter))
			return &known[i];
	}
	return NULL;
}

static bool is_known(enum fact fact, int device, const char *adapter, uint64_t *value)
{
	const struct known *found;

	pthread_mutex_lock(&known_lock);
	found = find_known(fact, device, adapter);
	if (found)
		*value = found->value;
	pthread_mutex_unlock(&known_lock);
	return found;
}

static void remember(enum fact fact, int device, const char *adapter, uint64_t value)
{
	struct known *place;

	if (text_length(adapter) >= NAME_LENGTH)
		return;
	pthread_mutex_lock(&known_lock);
	if (!find_known(fact, device, adapter) && known_count < sizeof(known) / sizeof(known[0])) {
		place = &known[known_count++];
		*place = (struct known){ .fact = fact, .device = device, .value = value };
		for (size_t i = 0; adapter[i]; i++)
			place->adapter[i] = adapter[i];
	}
	pthread_mutex_unlock(&known_lock);
}

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
	const char *name = topology_adapter_name(context);
	struct ibv_device_attr attributes = { .max_mr = 0 };
	int saved_errno = errno;
	uint64_t limit = 0;

	if (!verbs->ibv_query_device || is_known(FACT_REGIONS, -1, name, &limit))
		return limit;
	if (!verbs->ibv_query_device(context, &attributes) && attributes.max_mr > 0)
		limit = (uint64_t)attributes.max_mr;
	if (limit && *name)
		remember(FACT_REGIONS, -1, name, limit);
	errno = saved_errno;
	return limit;
}

/* An adapter without a PCI function of its own or above it (Soft-RoCE) has no such link. */
static bool find_adapter(const char *name, char path[SYSFS_NAME_MAX])
{
	char link[SYSFS_NAME_MAX];
	int length = system_format(link, sizeof(link), "class/infiniband/%s/device", name);

	return *name && !text_find(name, '/') && length > 0 && (size_t)length < sizeof(link) &&
	       sysfs_resolve(link, path);
}

/* ---- GPUs ---- */

static bool ask(CUdevice_attribute attribute, int device, unsigned int *value)
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

/* Its folder among the PCI devices. False: it has none; or somebody else's device has the address that the driver tells,
 * which is then none of this machine (a virtual machine's, a simulated driver's). */
static bool find_gpu(int device, char name[64])
{
	unsigned int domain, bus, slot;
	char file[80], vendor[16];

	if (device < 0 || !ask(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, device, &domain) ||
	    !ask(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device, &bus) ||
	    !ask(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, device, &slot))
		return false;
	system_format(name, 64, "bus/pci/devices/%04x:%02x:%02x.0", domain, bus, slot);
	system_format(file, sizeof(file), "%s/vendor", name);
	return sysfs_read(file, vendor, sizeof(vendor)) && text_equals(vendor, VENDOR);
}

/* ---- distances ---- */

/* How many components of the GPU's path the adapter's does not share: how far up from the GPU the way goes before it
 * turns. What lies on the adapter's side does not count: a virtual function's path
 * is longer than its adapter's, and no way is. Behind other root complexes all are equally far. */
static unsigned int distance(const char *gpu, const char *adapter)
{
	return pci_path_links(gpu, pci_path_common(gpu, adapter));
}

struct search {
	const char *gpu;
	unsigned int limit;
	bool found; /* an adapter that is closer than that */
};

static bool is_no_closer(const char *name, void *argument)
{
	struct search *search = argument;
	char path[SYSFS_NAME_MAX];

	search->found = find_adapter(name, path) && distance(search->gpu, path) < search->limit;
	return !search->found;
}

bool topology_is_near(struct ibv_context *context, int device)
{
	const char *name = topology_adapter_name(context);
	char adapter[SYSFS_NAME_MAX], gpu[SYSFS_NAME_MAX], folder[64];
	struct search search = { .gpu = gpu };
	uint64_t near = true;

	if (is_known(FACT_NEAR, device, name, &near))
		return near;
	if (!find_adapter(name, adapter) || !find_gpu(device, folder) || !sysfs_resolve(folder, gpu))
		return true;
	search.limit = distance(gpu, adapter);
	sysfs_list("class/infiniband", is_no_closer, &search);
	remember(FACT_NEAR, device, name, !search.found);
	return !search.found;
}

/* ---- the kind of way ---- */

static bool read_node(const char *device, char node[16])
{
	char file[SYSFS_NAME_MAX];
	int length = system_format(file, sizeof(file), "%s/numa_node", device);

	return length > 0 && (size_t)length < sizeof(file) && sysfs_read(file, node, 16);
}

static enum pci_path across_hosts(const char *gpu, const char *adapter)
{
	char one[16], other[16];

	if (!read_node(gpu, one) || !read_node(adapter, other))
		return PCI_PATH_UNKNOWN;
	return text_equals(one, other) && one[0] != '-' ? PCI_PATH_NODE : PCI_PATH_SYS;
}

/* Where the host bridge's name (pci0000:00) ends; 0: there is none. */
static size_t host_bridge_end(const char *path)
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

const char *topology_path(struct ibv_context *context, int device)
{
	const char *name = topology_adapter_name(context);
	char adapter[SYSFS_NAME_MAX], gpu[SYSFS_NAME_MAX], folder[64], link[SYSFS_NAME_MAX];
	uint64_t path = PCI_PATH_UNKNOWN;
	size_t common, host;

	if (is_known(FACT_PATH, device, name, &path))
		return pci_path_name((enum pci_path)path);
	if (find_adapter(name, adapter) && find_gpu(device, folder) && sysfs_resolve(folder, gpu)) {
		common = pci_path_common(gpu, adapter);
		host = host_bridge_end(gpu);
		system_format(link, sizeof(link), "class/infiniband/%s/device", name);
		if (host && common < host)
			path = across_hosts(folder, link);
		else if (host && common == host)
			path = PCI_PATH_PHB;
		else if (host)
			path = pci_path_by_bridges(gpu, adapter, common);
	}
	remember(FACT_PATH, device, name, path);
	return pci_path_name((enum pci_path)path);
}

/* ---- BAR1 ---- */

/* A number of base 16 behind "0x"; moves *text behind it. */
static uint64_t read_number(const char **text)
{
	uint64_t value = 0;

	while (**text == ' ')
		++*text;
	if (text_begins(*text, "0x"))
		*text += 2;
	for (;; ++*text) {
		char digit = text_lower(**text);

		if (text_is_digit(digit))
			value = value << 4 | (uint64_t)(digit - '0');
		else if (digit >= 'a' && digit <= 'f')
			value = value << 4 | (uint64_t)(digit - 'a' + 10);
		else
			return value;
	}
}

/* Bytes of the range that a line tells: its first address, its last one, and flags. */
static uint64_t read_line(const char **text)
{
	uint64_t first = read_number(text), last = read_number(text);

	while (**text && **text != '\n')
		++*text;
	if (**text)
		++*text;
	return last > first ? last - first + 1 : 0;
}

/* The GPU's second range. Where addresses of 64 bits take the room of two, the line behind the first is empty. */
static uint64_t read_bar1(const char *text)
{
	unsigned int ranges = 0;
	uint64_t bytes;

	for (unsigned int line = 0; line < RESOURCES && *text; line++) {
		bytes = read_line(&text);
		if (bytes && ++ranges == 2)
			return bytes;
	}
	return 0;
}

uint64_t topology_bar1_bytes(int device)
{
	char folder[64], file[80], text[1024];
	uint64_t bytes = 0;

	if (is_known(FACT_BAR1, device, "", &bytes) || !find_gpu(device, folder))
		return bytes;
	system_format(file, sizeof(file), "%s/resource", folder);
	if (sysfs_read(file, text, sizeof(text)))
		bytes = read_bar1(text);
	remember(FACT_BAR1, device, "", bytes);
	return bytes;
}
