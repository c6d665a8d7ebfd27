/* SPDX-License-Identifier: BSD-3-Clause */
/* machine.c -- finds GPUs and adapters in the readings, and their distances */
#include "tools/doctor/machine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/units.h"

#define DEVICES "/sys/bus/pci/devices"
#define CLASS	"/sys/class/infiniband"

#define PORTS_MAX 255

static struct machine machine;
static struct host *machine_host;
static char *machine_refused; /* notes of unreadable data, repeated for each caller of machine_of */

static void machine_copy(char *to, size_t size, const char *from)
{
	snprintf(to, size, "%s", from ? from : "");
}

/* Reads distance data through host_read, which notes no error: unreadable data only makes the
 * distance unknown. */
static const char *machine_text_or_empty(const struct reading *reading)
{
	return reading->error ? "" : reading->text;
}

static int64_t machine_node(const struct reading *reading)
{
	return reading->error ? -1 : atoi(reading->text);
}

static bool machine_is_gpu(struct host *host, const char *pci)
{
	const char *vendor = host_text(host, DEVICES "/%s/vendor", pci), *class;

	if (!vendor || strcmp(vendor, "0x10de"))
		return false;
	class = host_text(host, DEVICES "/%s/class", pci);
	return class && !strncmp(class, "0x03", 4);
}

static void machine_add_gpu(struct host *host, int ordinal, const char *pci)
{
	struct gpu *gpu = &machine.gpus[machine.gpu_count];

	if (machine.gpu_count == GPUS_MAX)
		return;
	machine.gpu_count++;
	gpu->ordinal = ordinal;
	gpu->node = -1;
	machine_copy(gpu->pci, sizeof(gpu->pci), pci);
	if (ordinal >= 0)
		snprintf(gpu->label, sizeof(gpu->label), "GPU%d", ordinal);
	else
		machine_copy(gpu->label, sizeof(gpu->label), pci);
	if (!*gpu->pci)
		return;
	machine_copy(gpu->path, sizeof(gpu->path),
		     machine_text_or_empty(host_read(host, DEVICES "/%s@", pci)));
	gpu->node = machine_node(host_read(host, DEVICES "/%s/numa_node", pci));
}

static void machine_find_gpus(struct host *host)
{
	const char *result = host_text(host, "cuda/init");
	int64_t count = 0;
	unsigned int on_bus = 0;
	char pci[64];

	machine.driver_answers = result && !strcmp(result, "CUDA_SUCCESS");
	if (machine.driver_answers && host_number(host, &count, "cuda/count")) {
		for (int i = 0; i < count && i < GPUS_MAX; i++)
			machine_add_gpu(host, i, host_text(host, "cuda/%d/pci", i));
	}
	for (const char *at = host_text(host, DEVICES "/"); host_line(&at, pci, sizeof(pci));) {
		if (!machine_is_gpu(host, pci))
			continue;
		on_bus++;
		if (!machine.driver_answers)
			machine_add_gpu(host, -1, pci);
	}
	machine.hidden_gpus = on_bus > machine.gpu_count ? on_bus - machine.gpu_count : 0;
}

static enum ports machine_better_ports(enum ports one, enum ports other)
{
	return one == PORTS_ACTIVE || other == PORTS_ACTIVE	? PORTS_ACTIVE
	       : one == PORTS_UNKNOWN || other == PORTS_UNKNOWN ? PORTS_UNKNOWN
								: PORTS_INACTIVE;
}

/* Port states of sysfs for the ports in `list`; NULL: those of libibverbs, from port 1 on, for
 * hidden sysfs or a simulated adapter: "4: ACTIVE", "ACTIVE InfiniBand". */
static enum ports machine_ports_of(struct host *host, const char *name, const char *list)
{
	enum ports ports = PORTS_INACTIVE;
	const struct reading *state;
	char port[16];
	int count = 0;

	for (; list ? host_line(&list, port, sizeof(port)) : count < PORTS_MAX; count++) {
		state = list ? host_read(host, CLASS "/%s/ports/%s/state", name, port)
			     : host_read(host, "verbs/%s/port/%d", name, count + 1);
		if (!list && state->error == ENOENT)
			break;
		ports = machine_better_ports(ports, state->error ? PORTS_UNKNOWN
						    : strstr(state->text, "ACTIVE")
							    ? PORTS_ACTIVE
							    : PORTS_INACTIVE);
	}
	return count ? ports : PORTS_UNKNOWN;
}

/* A software adapter has a parent (network interface), or a name that starts with rxe or siw. */
static void machine_add_adapter(struct host *host, const char *name)
{
	struct adapter *adapter = &machine.adapters[machine.adapter_count];
	const char *end;

	for (unsigned int i = 0; i < machine.adapter_count; i++) {
		if (!strcmp(machine.adapters[i].name, name))
			return;
	}
	if (machine.adapter_count == ADAPTERS_MAX)
		return;
	machine.adapter_count++;
	adapter->node = -1;
	machine_copy(adapter->name, sizeof(adapter->name), name);
	machine_copy(adapter->path, sizeof(adapter->path),
		     host_text(host, CLASS "/%s/device@", name));
	end = strrchr(adapter->path, '/');
	machine_copy(adapter->pci, sizeof(adapter->pci), end ? end + 1 : "");
	adapter->node = machine_node(host_read(host, CLASS "/%s/device/numa_node", name));
	adapter->ports = machine_ports_of(
		host, name, machine_text_or_empty(host_read(host, CLASS "/%s/ports/", name)));
	if (adapter->ports != PORTS_ACTIVE) {
		enum ports by_verbs = machine_ports_of(host, name, NULL);

		adapter->ports = by_verbs == PORTS_UNKNOWN ? adapter->ports : by_verbs;
	}
	adapter->software = host_has(host, CLASS "/%s/parent", name) || !strncmp(name, "rxe", 3) ||
			    !strncmp(name, "siw", 3);
}

/* True if the folder is readable, or absent from a readable /sys. */
static bool machine_adapters_are_listed(struct host *host)
{
	return host_has(host, CLASS "/") || (!reading_is_refused(host_read(host, CLASS "/")) &&
					     host_has(host, "/sys/bus/pci/devices/"));
}

const struct machine *machine_of(struct host *host)
{
	char name[64], *before;

	if (machine_host == host) {
		host_note_refused(host, machine_refused);
		return &machine;
	}
	memset(&machine, 0, sizeof(machine));
	machine_host = host;
	before = host_take_refused(host);
	machine_find_gpus(host);
	machine.adapters_are_known =
		host_read(host, "verbs/ended")->error != ETIME && machine_adapters_are_listed(host);
	for (const char *at = host_text(host, CLASS "/"); host_line(&at, name, sizeof(name));)
		machine_add_adapter(host, name);
	for (const char *at = host_text(host, "verbs/devices"); host_line(&at, name, sizeof(name));)
		machine_add_adapter(host, name);
	machine_refused = host_take_refused(host);
	host_note_refused(host, before);
	host_note_refused(host, machine_refused);
	return &machine;
}

/* ---- distances ---- */

/* Last component of the first `length` bytes of the path. */
static const char *machine_last_component(const char *path, size_t length)
{
	while (length && path[length - 1] != '/')
		length--;
	return path + length;
}

enum pci_path distance_between(const struct gpu *gpu, const struct adapter *adapter)
{
	size_t common = pci_path_common(gpu->path, adapter->path);

	if (!*gpu->path || !*adapter->path || adapter->software)
		return PCI_PATH_UNKNOWN;
	if (!strncmp(machine_last_component(gpu->path, common), "pci", 3))
		return PCI_PATH_PHB;
	if (strncmp(gpu->path, "/sys/devices/pci", 16) || common > strlen("/sys/devices"))
		return pci_path_by_bridges(gpu->path, adapter->path, common);
	if (gpu->node < 0 || adapter->node < 0)
		return PCI_PATH_UNKNOWN;
	return gpu->node == adapter->node ? PCI_PATH_NODE : PCI_PATH_SYS;
}

const char *distance_name(enum pci_path distance)
{
	return distance == PCI_PATH_UNKNOWN ? "?" : pci_path_name(distance);
}

const char *pair_name(const struct gpu *gpu, const struct adapter *adapter)
{
	return text_of("%s-%s", gpu->label, adapter->name);
}

/* Appends the addresses ("0000:17:00.0") of a path behind offset `from`; the device at the end is
 * no bridge. */
static void machine_add_bridges(char list[BRIDGES_SIZE], const char *path, size_t from)
{
	for (const char *at = path + from; *at == '/'; at += 1 + strcspn(at + 1, "/")) {
		size_t length = strcspn(at + 1, "/"), end = strlen(list);

		if (at[1 + length] && length >= 12 && at[length - 1] == '.' &&
		    at[length - 4] == ':')
			snprintf(list + end, BRIDGES_SIZE - end, "%.*s\n", (int)length, at + 1);
	}
}

/* Ports below the common ancestor redirect: downstream ports of a switch, root ports of a host
 * bridge. */
void bridges_between(const struct gpu *gpu, const struct adapter *adapter, char list[BRIDGES_SIZE])
{
	size_t common = pci_path_common(gpu->path, adapter->path);

	*list = '\0';
	machine_add_bridges(list, gpu->path, common);
	machine_add_bridges(list, adapter->path, common);
}
