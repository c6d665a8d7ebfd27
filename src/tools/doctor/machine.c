/* SPDX-License-Identifier: BSD-3-Clause */
/* machine.c -- finds GPUs and adapters among the readings, and how far they are from each other */
#include "tools/doctor/machine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES "/sys/bus/pci/devices"
#define CLASS	"/sys/class/infiniband"

#define PORTS_MAX 255

static struct machine machine;
static struct host *machine_host;
static char *machine_refused; /* whoever asks for the machine relies on what could not be read of it */

static void copy(char *to, size_t size, const char *from)
{
	snprintf(to, size, "%s", from ? from : "");
}

/* What it takes to tell a distance: where it cannot be read the distance is unknown, and nothing else is. */
static const char *text_or_empty(const struct reading *reading)
{
	return reading->error ? "" : reading->text;
}

static int64_t node_of(const struct reading *reading)
{
	return reading->error ? -1 : atoi(reading->text);
}

static bool is_gpu(struct host *host, const char *pci)
{
	const char *vendor = host_text(host, DEVICES "/%s/vendor", pci), *class;

	if (!vendor || strcmp(vendor, "0x10de"))
		return false;
	class = host_text(host, DEVICES "/%s/class", pci);
	return class && !strncmp(class, "0x03", 4);
}

static void add_gpu(struct host *host, int ordinal, const char *pci)
{
	struct gpu *gpu = &machine.gpus[machine.gpu_count];

	if (machine.gpu_count == GPUS_MAX)
		return;
	machine.gpu_count++;
	gpu->ordinal = ordinal;
	gpu->node = -1;
	copy(gpu->pci, sizeof(gpu->pci), pci);
	if (ordinal >= 0)
		snprintf(gpu->label, sizeof(gpu->label), "GPU%d", ordinal);
	else
		copy(gpu->label, sizeof(gpu->label), pci);
	if (!*gpu->pci)
		return;
	copy(gpu->path, sizeof(gpu->path), text_or_empty(host_read(host, DEVICES "/%s@", pci)));
	gpu->node = node_of(host_read(host, DEVICES "/%s/numa_node", pci));
}

static void find_gpus(struct host *host)
{
	const char *result = host_text(host, "cuda/init");
	int64_t count = 0;
	unsigned int on_bus = 0;
	char pci[64];

	machine.driver_answers = result && !strcmp(result, "CUDA_SUCCESS");
	if (machine.driver_answers && host_number(host, &count, "cuda/count")) {
		for (int i = 0; i < count && i < GPUS_MAX; i++)
			add_gpu(host, i, host_text(host, "cuda/%d/pci", i));
	}
	for (const char *at = host_text(host, DEVICES "/"); host_line(&at, pci, sizeof(pci));) {
		if (!is_gpu(host, pci))
			continue;
		on_bus++;
		if (!machine.driver_answers)
			add_gpu(host, -1, pci);
	}
	machine.hidden_gpus = on_bus > machine.gpu_count ? on_bus - machine.gpu_count : 0;
}

static enum ports better(enum ports one, enum ports other)
{
	return one == PORTS_ACTIVE || other == PORTS_ACTIVE	? PORTS_ACTIVE
	       : one == PORTS_UNKNOWN || other == PORTS_UNKNOWN ? PORTS_UNKNOWN
								: PORTS_INACTIVE;
}

static enum ports ports_of_sysfs(struct host *host, const char *name)
{
	const char *list = text_or_empty(host_read(host, CLASS "/%s/ports/", name));
	enum ports ports = *list ? PORTS_INACTIVE : PORTS_UNKNOWN;
	char port[16];

	for (const char *at = list; host_line(&at, port, sizeof(port));) {
		const struct reading *state = host_read(host, CLASS "/%s/ports/%s/state", name, port);

		ports = better(ports, state->error		      ? PORTS_UNKNOWN
				      : strstr(state->text, "ACTIVE") ? PORTS_ACTIVE
								      : PORTS_INACTIVE);
	}
	return ports;
}

/* Where sysfs is hidden, or an adapter is simulated, only libibverbs knows: "ACTIVE InfiniBand". Ports begin at 1. */
static enum ports ports_of_verbs(struct host *host, const char *name)
{
	enum ports ports = PORTS_UNKNOWN;

	for (int port = 1; port <= PORTS_MAX; port++) {
		const struct reading *told = host_read(host, "verbs/%s/port/%d", name, port);
		enum ports now = told->error			     ? PORTS_UNKNOWN
				 : !strncmp(told->text, "ACTIVE", 6) ? PORTS_ACTIVE
								     : PORTS_INACTIVE;

		if (told->error == ENOENT)
			break;
		ports = port == 1 ? now : better(ports, now);
	}
	return ports;
}

/* An adapter that is made of software stands on no bus, or says so by its name. */
static void add_adapter(struct host *host, const char *name)
{
	struct adapter *adapter = &machine.adapters[machine.adapter_count];
	const char *end;

	if (machine.adapter_count == ADAPTERS_MAX)
		return;
	machine.adapter_count++;
	adapter->node = -1;
	copy(adapter->name, sizeof(adapter->name), name);
	copy(adapter->path, sizeof(adapter->path), host_text(host, CLASS "/%s/device@", name));
	end = strrchr(adapter->path, '/');
	copy(adapter->pci, sizeof(adapter->pci), end ? end + 1 : "");
	adapter->node = node_of(host_read(host, CLASS "/%s/device/numa_node", name));
	adapter->ports = ports_of_sysfs(host, name);
	if (adapter->ports != PORTS_ACTIVE) {
		enum ports told = ports_of_verbs(host, name);

		adapter->ports = told == PORTS_UNKNOWN ? adapter->ports : told;
	}
	adapter->software = host_has(host, CLASS "/%s/parent", name) || !strncmp(name, "rxe", 3) ||
			    !strncmp(name, "siw", 3);
}

static bool is_listed(const char *name)
{
	for (unsigned int i = 0; i < machine.adapter_count; i++) {
		if (!strcmp(machine.adapters[i].name, name))
			return true;
	}
	return false;
}

/* The folder could be read, or is not there in a /sys that is. */
static bool adapters_are_listed(struct host *host)
{
	return host_has(host, CLASS "/") ||
	       (!reading_is_refused(host_read(host, CLASS "/")) && host_has(host, "/sys/bus/pci/devices/"));
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
	find_gpus(host);
	machine.adapters_are_known =
		host_read(host, "verbs/ended")->error != ETIME && adapters_are_listed(host);
	for (const char *at = host_text(host, CLASS "/"); host_line(&at, name, sizeof(name));)
		add_adapter(host, name);
	for (const char *at = host_text(host, "verbs/devices"); host_line(&at, name, sizeof(name));) {
		if (!is_listed(name))
			add_adapter(host, name);
	}
	free(machine_refused);
	machine_refused = host_take_refused(host);
	host_note_refused(host, before);
	host_note_refused(host, machine_refused);
	free(before);
	return &machine;
}

/* ---- distances ---- */

/* The last component of so much of the path. */
static const char *last_of(const char *path, size_t length)
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
	if (!strncmp(last_of(gpu->path, common), "pci", 3))
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

/* "0000:17:00.0" */
static bool is_address(const char *component, size_t length)
{
	return length >= 12 && component[length - 2] == '.' && component[length - 5] == ':';
}

/* The bridges of a path from where `from` ends, without the device at its end. */
static void visit_bridges(const char *path, size_t from, void (*visit)(const char *pci, void *argument),
			  void *argument)
{
	char pci[24];

	for (const char *at = path + from; *at == '/'; at += 1 + strcspn(at + 1, "/")) {
		size_t length = strcspn(at + 1, "/");

		if (at[1 + length] && is_address(at + 1, length) && length < sizeof(pci)) {
			snprintf(pci, sizeof(pci), "%.*s", (int)length, at + 1);
			visit(pci, argument);
		}
	}
}

/* Redirection is done by the ports below the meeting point: the downstream ports of a switch, the root ports of a host bridge. */
void each_bridge_between(const struct gpu *gpu, const struct adapter *adapter,
			 void (*visit)(const char *pci, void *argument), void *argument)
{
	size_t common = pci_path_common(gpu->path, adapter->path);

	visit_bridges(gpu->path, common, visit, argument);
	visit_bridges(adapter->path, common, visit, argument);
}
