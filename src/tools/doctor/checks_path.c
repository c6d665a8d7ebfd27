/* SPDX-License-Identifier: BSD-3-Clause */
/* checks_path.c -- checks of the PCIe path between each GPU and its adapter: distance, IOMMU */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/doctor/groups.h"

/* False: no GPU or no adapter; the finding has the reason. */
static bool checks_path_has_pairs(struct host *host, struct finding *finding)
{
	const struct machine *machine = machine_of(host);

	if (machine->gpu_count && machine->adapter_count)
		return true;
	finding_set(finding, VERDICT_UNKNOWN, "there is no path: %s",
		    machine->gpu_count	     ? "no RDMA adapter is visible"
		    : machine->adapter_count ? "no GPU is visible"
					     : "neither a GPU nor an RDMA adapter is visible");
	return false;
}

/* An adapter closer to the GPU than the chosen one; NULL: none. */
static const struct adapter *checks_path_closer_adapter(struct host *host, const struct gpu *gpu,
							const struct adapter *chosen)
{
	const struct machine *machine = machine_of(host);

	for (unsigned int i = 0; i < machine->adapter_count; i++) {
		const struct adapter *other = &machine->adapters[i];

		if (distance_between(gpu, other) < distance_between(gpu, chosen))
			return other;
	}
	return NULL;
}

void check_path(struct host *host, struct finding *finding)
{
	const struct machine *machine = machine_of(host);
	struct groups groups = { .count = 0 };
	bool far = false;

	finding_read(finding, "where /sys/bus/pci/devices/GPU and "
			      "/sys/class/infiniband/ADAPTER/device lead, numa_node");
	if (!checks_path_has_pairs(host, finding))
		return;
	for (unsigned int i = 0; i < machine->gpu_count; i++) {
		const struct gpu *gpu = &machine->gpus[i];
		struct answered answered;
		const struct adapter *chosen = adapter_of_gpu(host, gpu, &answered);
		enum pci_path distance = distance_between(gpu, chosen);
		const struct adapter *closer = checks_path_closer_adapter(host, gpu, chosen);
		char pair[96];

		snprintf(pair, sizeof(pair), "%s-%s", gpu->label, chosen->name);
		if (distance == PCI_PATH_UNKNOWN)
			groups_add(&groups, VERDICT_UNKNOWN, pair, "%s",
				   chosen->software ? "has no path over PCIe: software"
						    : "is of unknown distance");
		else
			groups_add(&groups, distance == PCI_PATH_SYS ? VERDICT_WARN : VERDICT_OK,
				   pair, "%s%s", distance_name(distance),
				   distance == PCI_PATH_SYS ? " (crosses sockets)" : "");
		far |= !closer && distance == PCI_PATH_SYS;
		if (closer) {
			groups_add(
				&groups, VERDICT_WARN, closer->name, "is closer to %s (%s), but %s",
				gpu->label, distance_name(distance_between(gpu, closer)),
				closer->ports == PORTS_ACTIVE	  ? "does not work as well"
				: closer->ports == PORTS_INACTIVE ? "its port is not active"
								  : "its port is of unknown state");
			finding_fix(finding,
				    "peerpin doctor --only adapter,dma-buf,probe --verbose (why is "
				    "%s not used?)",
				    closer->name);
		}
	}
	groups_say(&groups, finding);
	if (far)
		finding_fix(finding,
			    "run on a GPU that has an adapter of its own socket: the matrix of "
			    "peerpin doctor shows which "
			    "(CUDA_VISIBLE_DEVICES, UCX_NET_DEVICES)");
}

/* ---- IOMMU ---- */

/* True if the kernel command line disables IOMMU translation. */
static bool checks_path_is_passthrough(struct host *host)
{
	const char *line = host_text(host, "/proc/cmdline");

	return line && (strstr(line, "iommu=pt") || strstr(line, "iommu.passthrough=1") ||
			strstr(line, "intel_iommu=off") || strstr(line, "amd_iommu=off"));
}

static void checks_path_iommu_group(struct host *host, const char *pci, const char *label,
				    struct groups *groups)
{
	const struct reading *reading =
		host_read(host, "/sys/bus/pci/devices/%s/iommu_group/type", pci);
	const struct reading *folder = host_read(host, "/sys/bus/pci/devices/%s/iommu_group/", pci);
	const char *type = reading->error ? NULL : reading->text;

	if (reading_is_refused(reading) || (!type && reading_is_refused(folder)))
		groups_add(groups, VERDICT_UNKNOWN, label, "hides its IOMMU group (%s)",
			   host_error_name(reading_is_refused(reading) ? reading->error
								       : folder->error));
	else if (!type && checks_path_is_passthrough(host))
		groups_add(groups, VERDICT_OK, label, "passed through (kernel command line)");
	else if (!type && folder->error)
		groups_add(groups, VERDICT_OK, label, "behind no IOMMU");
	else if (!type)
		groups_add(groups, VERDICT_UNKNOWN, label, "does not tell its IOMMU's type");
	else if (!strcmp(type, "identity"))
		groups_add(groups, VERDICT_OK, label, "passed through");
	else
		groups_add(groups, VERDICT_WARN, label, "translated (%s)", type);
}

void check_iommu(struct host *host, struct finding *finding)
{
	const struct machine *machine = machine_of(host);
	const struct reading *all = host_read(host, "/sys/kernel/iommu_groups/");
	struct groups groups = { .count = 0 };

	finding_read(
		finding,
		"/sys/kernel/iommu_groups, /sys/bus/pci/devices/*/iommu_group/type, /proc/cmdline");
	if (all->error && (all->error != ENOENT || !host_has(host, "/sys/kernel/"))) {
		finding_set(finding, VERDICT_UNKNOWN, "/sys/kernel/iommu_groups cannot be read");
		finding_fix(finding, "give this container /sys, or run it on the host");
		return;
	}
	if (all->error || !all->length) {
		finding_set(finding, VERDICT_OK, "none is on");
		return;
	}
	if (!machine->gpu_count && !machine->adapter_count) {
		finding_set(finding, VERDICT_UNKNOWN,
			    "one is on, but neither a GPU nor an adapter is visible");
		return;
	}
	for (unsigned int i = 0; i < machine->gpu_count; i++) {
		if (*machine->gpus[i].pci)
			checks_path_iommu_group(host, machine->gpus[i].pci, machine->gpus[i].label,
						&groups);
	}
	for (unsigned int i = 0; i < machine->adapter_count; i++) {
		if (*machine->adapters[i].pci)
			checks_path_iommu_group(host, machine->adapters[i].pci,
						machine->adapters[i].name, &groups);
	}
	groups_say(&groups, finding);
	if (finding->verdict != VERDICT_WARN)
		return;
	if (!way_is_open(host, WAY_DMA_BUF))
		finding_add(finding, VERDICT_FAIL,
			    "peer memory, the only way here, does not go through it");
	finding_fix(
		finding,
		"ask your administrator: iommu=pt on the kernel's command line, then a restart");
}
