/* SPDX-License-Identifier: BSD-3-Clause */
/* checks_path.c -- checks of the PCIe path between each GPU and its adapter: distance, IOMMU */
#include <errno.h>
#include <string.h>

#include "tools/doctor/checks.h"

static void checks_path_closer(struct finding *finding, const struct gpu *gpu,
			       const struct adapter *closer)
{
	finding_item(finding, WARN, closer->name, "is closer to %s (%s), but %s", gpu->label,
		     distance_name(distance_between(gpu, closer)),
		     closer->ports == PORTS_ACTIVE     ? "does not work as well"
		     : closer->ports == PORTS_INACTIVE ? "its port is not active"
						       : "its port is of unknown state");
	finding_fix(finding,
		    "peerpin doctor --only adapter,dma-buf,probe --verbose (reason against %s)",
		    closer->name);
}

/* Reports the adapter to use. Returns true if it is across sockets, and no adapter is closer. */
static bool checks_path_gpu(struct host *host, const struct gpu *gpu, struct finding *finding)
{
	struct support support;
	const struct adapter *chosen = adapter_of_gpu(host, gpu, &support), *closer = NULL;
	enum pci_path distance = distance_between(gpu, chosen);
	const char *pair = pair_name(gpu, chosen);
	bool far = distance == PCI_PATH_SYS;

	EACH_ADAPTER(host, other) {
		if (!closer && distance_between(gpu, other) < distance)
			closer = other;
	}
	if (gpu_is_integrated(host, gpu))
		finding_item(finding, OK, pair, "host memory");
	else if (distance == PCI_PATH_UNKNOWN)
		finding_item(finding, UNKNOWN, pair,
			     chosen->software ? "has no path over PCIe: software"
					      : "is of unknown distance");
	else if (distance == PCI_PATH_NODE)
		finding_implied(finding, pair, proof_of(host, gpu, chosen, METHODS), WARN,
				"peerpin doctor --deep: transfers data over this path",
				"NODE, over two root complexes: may be slow, or fail");
	else
		finding_item(finding, far ? WARN : OK, pair, "%s%s", distance_name(distance),
			     far ? " (crosses sockets)"
			     : distance == PCI_PATH_PHB
				     ? ", over the host bridge: adapters may read GPU memory slowly"
				     : "");
	if (closer)
		checks_path_closer(finding, gpu, closer);
	return far && !closer;
}

void check_path(struct host *host, struct finding *finding)
{
	const struct machine *machine = machine_of(host);
	bool far = false, near = false;

	if (!machine->gpu_count || !machine->adapter_count) {
		finding_add(finding, UNKNOWN, "%s", invisible_words(machine));
		return;
	}
	EACH_GPU(host, gpu) {
		bool now = checks_path_gpu(host, gpu, finding);

		far |= now;
		near |= !now;
	}
	if (far && !near)
		finding_fix(finding, "ask your administrator: an adapter in a slot of the GPU's "
				     "socket");
	else if (far)
		finding_fix(finding,
			    "run on a GPU that has an adapter of its own socket: the matrix of "
			    "peerpin doctor shows which (CUDA_VISIBLE_DEVICES, UCX_NET_DEVICES)");
}

/* ---- IOMMU ---- */

/* True if the kernel's command line ends with one of these options on: the last value counts. */
static bool checks_path_is_passthrough(struct host *host)
{
	static const struct {
		const char *on, *off;
	} options[] = { { "iommu=pt", "iommu=nopt" },
			{ "iommu.passthrough=1", "iommu.passthrough=0" },
			{ "intel_iommu=off", "intel_iommu=on" },
			{ "amd_iommu=off", "amd_iommu=on" } };
	const char *line = host_text(host, "/proc/cmdline");
	bool any = false;

	for (size_t i = 0; line && i < sizeof(options) / sizeof(options[0]); i++) {
		bool on = false;

		for (const char *at = line; *at; at += strcspn(at, " ")) {
			at += strspn(at, " ");
			if (!strncmp(at, options[i].on, strlen(options[i].on)))
				on = true;
			else if (!strncmp(at, options[i].off, strlen(options[i].off)))
				on = false;
		}
		any |= on;
	}
	return any;
}

static void checks_path_iommu_group(struct host *host, const char *pci, const char *label,
				    struct finding *finding)
{
	const struct reading *reading, *folder;
	const char *type;

	if (!*pci)
		return;
	reading = host_read(host, "/sys/bus/pci/devices/%s/iommu_group/type", pci);
	folder = host_read(host, "/sys/bus/pci/devices/%s/iommu_group/", pci);
	type = reading->error ? NULL : reading->text;
	if (reading_is_refused(reading) || (!type && reading_is_refused(folder)))
		finding_item(finding, UNKNOWN, label, "IOMMU group cannot be read (%s)",
			     host_error_name(reading_is_refused(reading) ? reading->error
									 : folder->error));
	else if (!type && checks_path_is_passthrough(host))
		finding_item(finding, OK, label, "passed through (kernel command line)");
	else if (!type && folder->error)
		finding_item(finding, OK, label, "behind no IOMMU");
	else if (!type)
		finding_item(finding, UNKNOWN, label, "does not report its IOMMU's type");
	else if (!strcmp(type, "identity"))
		finding_item(finding, OK, label, "passed through");
	else
		finding_item(finding, WARN, label, "translated (%s)", type);
}

/* The parameter has another name on aarch64. Where it is set, it did not reach these devices. */
static const char *checks_path_iommu_fix(struct host *host)
{
	const char *machine = host_text(host, "identity/machine");

	if (checks_path_is_passthrough(host))
		return "ask your administrator: the kernel's command line has the setting already; "
		       "write identity to the type of these devices' IOMMU groups (a virtual "
		       "machine: in its host)";
	return machine && !strcmp(machine, "aarch64")
		       ? "ask your administrator: iommu.passthrough=1 on the kernel's command "
			 "line, then a restart"
		       : "ask your administrator: iommu=pt on the kernel's command line, then a "
			 "restart";
}

void check_iommu(struct host *host, struct finding *finding)
{
	const struct machine *machine = machine_of(host);
	const struct reading *all = host_read(host, "/sys/kernel/iommu_groups/");

	if (all->error && (all->error != ENOENT || !host_has(host, "/sys/kernel/")))
		finding_problem(finding, UNKNOWN, FIX_SYSFS,
				"/sys/kernel/iommu_groups cannot be read");
	else if (all->error || !all->length)
		finding_add(finding, OK, "none is on");
	else if (!machine->gpu_count && !machine->adapter_count)
		finding_add(finding, UNKNOWN,
			    "an IOMMU is on, but neither a GPU nor an adapter is visible");
	if (finding->text)
		return;
	EACH_GPU(host, gpu)
		checks_path_iommu_group(host, gpu->pci, gpu->label, finding);
	EACH_ADAPTER(host, adapter)
		checks_path_iommu_group(host, adapter->pci, adapter->name, finding);
	if (finding->result != WARN)
		return;
	if (!method_is_open(host, METHOD_DMA_BUF))
		finding_implied(finding, NULL, proof_of(host, NULL, NULL, METHOD_PEER_MEMORY), FAIL,
				NULL,
				"peer memory, the only method here, does not work through it");
	finding_fix(finding, "%s", checks_path_iommu_fix(host));
}
