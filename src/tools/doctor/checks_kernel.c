/* SPDX-License-Identifier: BSD-3-Clause */
/* checks_kernel.c -- checks of NVIDIA's driver and of kernel restrictions */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "tools/doctor/checks.h"
#include "tools/units.h"

/* "550.54.15": the module's version, or else from /proc/driver/nvidia/version: the number after
 * "Kernel Module". "": unreadable number; NULL: no driver. */
static const char *checks_kernel_driver_version(struct host *host)
{
	const char *text = host_text(host, "/sys/module/nvidia/version"), *at;

	if (text)
		return text;
	text = host_text(host, "/proc/driver/nvidia/version");
	for (at = text ? strstr(text, "Kernel Module") : NULL; at && *at && *at != '\n'; at++) {
		if (at[0] == ' ' && text_is_digit(at[1]))
			return text_of("%.*s", (int)strspn(at + 1, "0123456789."), at + 1);
	}
	return text ? "" : NULL;
}

/* The first CUDA with GPUDirect RDMA by the device tree: GPUDirect RDMA guide 12.6, 1.7 to 1.9. */
static void checks_kernel_integrated(struct host *host, struct finding *finding)
{
	static const struct {
		const char *model;
		int cuda;
	} models[] = { { "Orin", 11040 }, { "DRIVE", 11020 }, { "Xavier", 10010 } };
	const char *model = host_text(host, "/proc/device-tree/model");
	const char *kernel = host_text(host, "identity/kernel");
	int64_t cuda = 0;

	if (!host_number(host, &cuda, "cuda/driver_version"))
		cuda = 0;
	finding_add(finding, OK, "integrated GPU, CUDA %d.%d, Linux %s", (int)cuda / 1000,
		    (int)cuda % 1000 / 10, kernel ? kernel : "of unknown version");
	for (size_t i = 0; model && i < sizeof(models) / sizeof(models[0]); i++) {
		if (!strstr(model, models[i].model))
			continue;
		if (cuda < models[i].cuda)
			finding_problem(finding, WARN,
					"ask your administrator: a JetPack or DRIVE OS with a "
					"newer CUDA",
					"%s has GPUDirect RDMA from CUDA %d.%d on", model,
					models[i].cuda / 1000, models[i].cuda % 1000 / 10);
		break;
	}
}

static void checks_kernel_report_no_driver(struct host *host, struct finding *finding)
{
	const struct machine *machine = machine_of(host);

	if (gpus_are_integrated(host))
		checks_kernel_integrated(host, finding);
	else if (machine->driver_answers && machine->gpu_count)
		finding_problem(
			finding, UNKNOWN, FIX_NO_CONTAINER,
			"CUDA works, but its kernel module is not visible in /proc and /sys");
	else if (machine->gpu_count + machine->hidden_gpus)
		finding_problem(finding, FAIL,
				"ask your administrator: install the NVIDIA driver with its open "
				"kernel modules",
				"an NVIDIA GPU is on the PCI bus, but no NVIDIA driver is loaded");
	else
		finding_problem(finding, UNKNOWN, FIX_NO_GPU,
				"no NVIDIA driver is loaded, and no NVIDIA GPU is visible");
}

void check_driver(struct host *host, struct finding *finding)
{
	enum flavour flavour = driver_flavour(host);
	const char *kernel = host_text(host, "identity/kernel"), *version,
		   *measured = proof_of(host, NULL, NULL, METHOD_DMA_BUF);
	int64_t value;
	bool known;

	version = checks_kernel_driver_version(host);
	if (flavour == FLAVOUR_NONE && !version) {
		checks_kernel_report_no_driver(host, finding);
		return;
	}
	if (flavour != FLAVOUR_OPEN && flavour != FLAVOUR_PROPRIETARY) {
		finding_add(finding, UNKNOWN, "/proc/driver/nvidia/version cannot be read%s%s",
			    version && *version ? "; driver " : "", version ? version : "");
		return;
	}
	known = host_number(host, &value, "cuda/driver_version");
	finding_add(finding, OK, "%s, %s kernel module%s, Linux %s", version,
		    flavour == FLAVOUR_OPEN ? "open" : "proprietary",
		    known ? text_of(", CUDA %d.%d", (int)value / 1000, (int)value % 1000 / 10) : "",
		    kernel ? kernel : "of unknown version");
	if (flavour == FLAVOUR_PROPRIETARY)
		finding_without(host, finding, measured, METHOD_PEER_MEMORY, fix_no_export(host),
				"%s: no dma-buf", finding->text);
	else if (kernel && !kernel_is_at_least(host, 5, 12))
		finding_without(host, finding, measured, METHOD_PEER_MEMORY,
				"ask your administrator: a kernel from 5.12 on, or nvidia-peermem",
				"%s: older than 5.12, no dma-buf", finding->text);
}

/* Reads the number of a line "Name: 3". */
static bool checks_kernel_parameter(const char *text, const char *name, long *value)
{
	const char *at = strstr(text, name);

	return at && sscanf(at + strlen(name), ": %ld", value) == 1;
}

void check_peer_mapping(struct host *host, struct finding *finding)
{
	const struct reading *parameters = host_read(host, "/proc/driver/nvidia/params");
	long override = 0, resizable;

	if (parameters->error) {
		finding_add(finding, UNKNOWN, "/proc/driver/nvidia/params cannot be read: %s",
			    parameters->error == ENOENT ? "no driver"
							: host_error_name(parameters->error));
		return;
	}
	if (!checks_kernel_parameter(parameters->text, "GrdmaPciTopoCheckOverride", &override))
		finding_add(finding, OK, "this driver does not check the topology");
	else if (override == 2)
		finding_implied(finding, NULL, proof_of(host, NULL, NULL, METHODS), FAIL,
				"ask your administrator: remove NVreg_GrdmaPciTopoCheckOverride=2 "
				"from /etc/modprobe.d",
				"GrdmaPciTopoCheckOverride is 2: the driver denies GPUDirect RDMA");
	else
		finding_add(finding, OK, "%s",
			    override == 1
				    ? "allowed for every topology (GrdmaPciTopoCheckOverride 1)"
				    : "the driver decides by the topology");
	if (checks_kernel_parameter(parameters->text, "EnableResizableBar", &resizable))
		finding_add(finding, OK, "resizable BAR %s",
			    resizable ? "on" : "left to the firmware");
}

/* Modes of nvmlDeviceGetVirtualizationMode. */
enum { PASSED_THROUGH = 1, VIRTUAL_GPU, VIRTUAL_HOST, VIRTUAL_GRAPHICS_HOST };

static void checks_kernel_virtualization(struct host *host, const struct gpu *gpu,
					 struct finding *finding)
{
	int64_t mode;

	if (gpu->ordinal < 0 || !host_number(host, &mode, "cuda/%d/virtualization", gpu->ordinal))
		return;
	if (mode == PASSED_THROUGH)
		finding_item(finding, OK, gpu->label, "passed through to this virtual machine");
	if (mode == VIRTUAL_GPU)
		finding_implied(finding, gpu->label, proof_of(host, gpu, NULL, METHODS), WARN,
				"ask your administrator: pass the whole GPU through, or a vGPU "
				"type of the C series that has all of its memory",
				"virtual: adapters can access few kinds of virtual GPUs");
	if (mode == VIRTUAL_HOST || mode == VIRTUAL_GRAPHICS_HOST)
		finding_item(finding, OK, gpu->label, "host of virtual GPUs");
}

void check_platform(struct host *host, struct finding *finding)
{
	const char *version = host_text(host, "/proc/version");
	const char *lockdown = host_text(host, "/sys/kernel/security/lockdown");
	const char *vendor = host_text(host, "/sys/class/dmi/id/sys_vendor");
	const char *product = host_text(host, "/sys/class/dmi/id/product_name");
	const char *measured = proof_of(host, NULL, NULL, METHODS);
	const char *machine = host_text(host, "identity/machine");
	bool container = is_container(host);

	if (!vendor)
		vendor = host_text(host, "/proc/device-tree/model");
	if (!version) {
		finding_add(finding, UNKNOWN, "/proc cannot be read");
		return;
	}
	/* sys_vendor shows a virtual machine and its hypervisor: UNKNOWN without. */
	finding_add(finding, vendor ? OK : UNKNOWN, "%s%s%s%s",
		    vendor ? vendor : "the machine's vendor cannot be read",
		    vendor && product ? " " : "", vendor && product ? product : "",
		    container ? ", in a container" : "");
	EACH_GPU(host, gpu)
		checks_kernel_virtualization(host, gpu, finding);
	if (machine && !measured && !gpus_are_integrated(host) &&
	    (!strcmp(machine, "ppc64le") || !strcmp(machine, "aarch64")))
		finding_problem(finding, WARN, "peerpin doctor --deep: transfers data",
				"%s: NVIDIA does not guarantee GPUDirect RDMA", machine);
	if (strstr(version, "icrosoft"))
		finding_implied(finding, NULL, measured, WARN, "use Linux on the hardware itself",
				"WSL2 has no GPUDirect RDMA");
	if (host_has(host, "/dev/tdx_guest?") || host_has(host, "/dev/sev-guest?"))
		finding_implied(
			finding, NULL, measured, WARN,
			"ask your administrator whether this guest's GPU allows peer access",
			"a confidential guest: adapters cannot access encrypted memory");
	if (lockdown && !strstr(lockdown, "[none]"))
		finding_add(finding, OK, "the kernel is locked down"); /* check_acs has the fix */
}
