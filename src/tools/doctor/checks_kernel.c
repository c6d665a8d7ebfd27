/* SPDX-License-Identifier: BSD-3-Clause */
/* checks_kernel.c -- checks of NVIDIA's driver and of kernel restrictions */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/doctor/groups.h"

/* "550.54.15": the module's version, or else from /proc/driver/nvidia/version: the number after
 * "Kernel Module". "": unreadable number; NULL: no driver. */
static const char *checks_kernel_driver_version(struct host *host, char version[32])
{
	const char *text = host_text(host, "/sys/module/nvidia/version"), *at;

	version[0] = '\0';
	if (text) {
		snprintf(version, 32, "%s", text);
		return version;
	}
	text = host_text(host, "/proc/driver/nvidia/version");
	for (at = text ? strstr(text, "Kernel Module") : NULL; at && *at && *at != '\n'; at++) {
		if (at[0] == ' ' && at[1] >= '0' && at[1] <= '9' &&
		    sscanf(at, " %31[0-9.]", version) == 1)
			return version;
	}
	return text ? "" : NULL;
}

static void checks_kernel_report_no_driver(struct host *host, struct finding *finding)
{
	const struct machine *machine = machine_of(host);

	if (machine->driver_answers && machine->gpu_count) {
		finding_set(finding, VERDICT_UNKNOWN,
			    "CUDA answers, but its kernel module is not visible in /proc and /sys");
		finding_fix(finding, "run it on the host itself, outside of the container");
	} else if (machine->gpu_count + machine->hidden_gpus) {
		finding_set(finding, VERDICT_FAIL,
			    "an NVIDIA GPU is on the PCI bus, but no NVIDIA driver is loaded");
		finding_fix(finding, "ask your administrator: install the NVIDIA driver with its "
				     "open kernel modules");
	} else {
		finding_set(finding, VERDICT_UNKNOWN,
			    "no NVIDIA driver is loaded, and no NVIDIA GPU is visible");
		finding_fix(finding,
			    "run it where the GPUs are: srun -N 1 --gpus 1 peerpin doctor, or "
			    "docker run --gpus all");
	}
}

void check_driver(struct host *host, struct finding *finding)
{
	enum flavour flavour = driver_flavour(host);
	const char *kernel = host_text(host, "identity/kernel"), *version;
	char number[32], cuda[32] = "", missing[160];
	int64_t value;

	finding_read(finding, "/proc/driver/nvidia/version, /sys/module/nvidia/version, "
			      "cuDriverGetVersion, uname -r");
	version = checks_kernel_driver_version(host, number);
	if (flavour == FLAVOUR_NONE && !version) {
		checks_kernel_report_no_driver(host, finding);
		return;
	}
	if (flavour != FLAVOUR_OPEN && flavour != FLAVOUR_PROPRIETARY) {
		finding_set(finding, VERDICT_UNKNOWN,
			    "/proc/driver/nvidia/version cannot be read%s%s",
			    version && *version ? "; driver " : "", version ? version : "");
		return;
	}
	if (host_number(host, &value, "cuda/driver_version"))
		snprintf(cuda, sizeof(cuda), ", CUDA %d.%d", (int)value / 1000,
			 (int)value % 1000 / 10);
	snprintf(missing, sizeof(missing), "%s, %s kernel module%s, Linux %s", version,
		 flavour == FLAVOUR_OPEN ? "open" : "proprietary", cuda,
		 kernel ? kernel : "of unknown version");
	finding_set(finding, VERDICT_OK, "%s", missing);
	if (flavour == FLAVOUR_PROPRIETARY) {
		strncat(missing, ": no dma-buf", sizeof(missing) - strlen(missing) - 1);
		finding_without(host, finding, WAY_PEER_MEMORY, missing);
		finding_fix(finding,
			    "ask your administrator: install the driver's open kernel modules "
			    "(package nvidia-open)");
	} else if (kernel && !kernel_is_at_least(host, 5, 12)) {
		strncat(missing, ": older than 5.12, no dma-buf",
			sizeof(missing) - strlen(missing) - 1);
		finding_without(host, finding, WAY_PEER_MEMORY, missing);
		finding_fix(finding,
			    "ask your administrator: a kernel from 5.12 on, or nvidia-peermem");
	}
}

/* ---- peer memory ---- */

static bool checks_kernel_modules_are_readable(struct host *host, struct finding *finding)
{
	if (host_has(host, "/sys/module/"))
		return true;
	finding_set(finding, VERDICT_UNKNOWN, "/sys/module cannot be read");
	finding_fix(finding, "give this container /sys, or run it on the host");
	return false;
}

static bool checks_kernel_has_peermem(struct host *host)
{
	return host_has(host, "/sys/module/nvidia_peermem/") ||
	       host_has(host, "/sys/module/nvidia_peermem/version");
}

static bool checks_kernel_has_old_peermem(struct host *host)
{
	return host_has(host, "/sys/module/nv_peer_mem/") ||
	       host_has(host, "/sys/module/nv_peer_mem/version");
}

const char *peermem_fix(struct host *host)
{
	bool can_be = host_has(host, "kernel/module/nvidia-peermem") &&
		      host_has(host, "kernel/symbol/ib_register_peer_memory_client");

	if (checks_kernel_has_peermem(host) || checks_kernel_has_old_peermem(host))
		return "peerpin doctor --only peermem,peermem-client: it is loaded, but does not "
		       "serve";
	return can_be ? "sudo modprobe nvidia-peermem"
		      : "peerpin doctor --only peermem-install: it has to be made loadable first";
}

void check_peermem(struct host *host, struct finding *finding)
{
	const char *driver = host_text(host, "/sys/module/nvidia/version");
	const char *version = host_text(host, "/sys/module/nvidia_peermem/version");

	finding_read(finding, "/sys/module/nvidia_peermem, /sys/module/nv_peer_mem");
	if (!checks_kernel_modules_are_readable(host, finding))
		return;
	if (checks_kernel_has_peermem(host) && checks_kernel_has_old_peermem(host)) {
		finding_set(
			finding, VERDICT_FAIL,
			"nvidia_peermem and the older nv_peer_mem are both loaded: they conflict");
		finding_fix(finding, "sudo rmmod nv_peer_mem");
	} else if (checks_kernel_has_old_peermem(host)) {
		finding_set(finding, VERDICT_WARN,
			    "the older nv_peer_mem is loaded in place of nvidia_peermem");
		finding_fix(finding, "sudo rmmod nv_peer_mem && sudo modprobe nvidia-peermem");
	} else if (!checks_kernel_has_peermem(host)) {
		finding_without(host, finding, WAY_DMA_BUF, "nvidia_peermem is not loaded");
		finding_fix(finding, "%s", peermem_fix(host));
	} else if (version && driver && strcmp(version, driver)) {
		finding_set(finding, VERDICT_FAIL,
			    "nvidia_peermem %s is not of the driver's version %s", version, driver);
		finding_fix(finding, "sudo rmmod nvidia_peermem && sudo depmod -a && sudo modprobe "
				     "nvidia-peermem");
	} else {
		finding_set(finding, VERDICT_OK, "nvidia_peermem %s is loaded",
			    version ? version : "(no version)");
	}
}

void check_peermem_client(struct host *host, struct finding *finding)
{
	const char *client;

	finding_read(finding, "/sys/kernel/mm/memory_peers/"
			      "{nvidia-peermem,nv_mem,nv_mem_nc,nvidia_peermem}/version");
	if (!checks_kernel_modules_are_readable(host, finding))
		return;
	client = peer_memory_client(host);
	if (client) {
		finding_set(finding, VERDICT_OK, "registered with the RDMA stack as %s", client);
	} else if (!checks_kernel_has_peermem(host) && !checks_kernel_has_old_peermem(host)) {
		finding_without(host, finding, WAY_DMA_BUF,
				"no peer-memory module is registered with the RDMA stack");
		finding_fix(finding, "%s", peermem_fix(host));
	} else {
		finding_without(
			host, finding, WAY_DMA_BUF,
			"a peer-memory module is loaded, but not registered with the RDMA stack");
		finding_fix(finding, "ask your administrator: reinstall the driver after MLNX_OFED "
				     "or DOCA-OFED; "
				     "it was built without their peer-memory interface");
	}
}

void check_peermem_mode(struct host *host, struct finding *finding)
{
	const char *folder = "/sys/module/nvidia_peermem/parameters";
	int64_t persistent, direct;

	finding_read(finding, "%s/{persistent_api_support,peerdirect_support}", folder);
	if (!checks_kernel_modules_are_readable(host, finding))
		return;
	if (!checks_kernel_has_peermem(host)) {
		if (way_suffices(host, WAY_DMA_BUF))
			finding_set(finding, VERDICT_NOT_NEEDED,
				    "nvidia_peermem is not loaded; not needed, dma-buf works");
		else
			finding_set(finding, VERDICT_UNKNOWN,
				    "nvidia_peermem is not loaded, so it has no mode");
	} else if (!host_number(host, &persistent, "%s/persistent_api_support", folder)) {
		finding_set(finding, VERDICT_UNKNOWN,
			    "nvidia_peermem tells no persistent_api_support");
	} else if (persistent) {
		finding_set(
			finding, VERDICT_WARN,
			"persistent: a registration outlives its memory until it is deregistered");
		finding_fix(finding, "ask your administrator: options nvidia_peermem "
				     "persistent_api_support=0 in "
				     "/etc/modprobe.d, unless dma-buf is used");
	} else {
		finding_set(finding, VERDICT_OK,
			    "registrations are invalidated when their memory is freed");
	}
	if (checks_kernel_has_peermem(host) &&
	    host_number(host, &direct, "%s/peerdirect_support", folder) && direct)
		finding_add(finding, VERDICT_OK, "peerdirect_support is %d", (int)direct);
}

static bool checks_kernel_is_loaded_at_boot(struct host *host)
{
	char name[128];
	const char *text;

	for (const char *at = host_text(host, "/etc/modules-load.d/");
	     host_line(&at, name, sizeof(name));) {
		text = host_text(host, "/etc/modules-load.d/%s", name);
		if (text && (strstr(text, "nvidia-peermem") || strstr(text, "nvidia_peermem")))
			return true;
	}
	return false;
}

/* Reports unreadable data: NOT NEEDED if dma-buf works for every GPU, else UNKNOWN. */
__attribute__((format(printf, 3, 4))) static void
checks_kernel_report_unreadable(struct host *host, struct finding *finding, const char *format, ...)
{
	va_list arguments;
	char text[256];

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (way_suffices(host, WAY_DMA_BUF))
		finding_set(finding, VERDICT_NOT_NEEDED, "%s; not needed, dma-buf works", text);
	else
		finding_set(finding, VERDICT_UNKNOWN, "%s", text);
}

void check_peermem_install(struct host *host, struct finding *finding)
{
	const struct reading *symbol =
		host_read(host, "kernel/symbol/ib_register_peer_memory_client");
	const struct reading *module = host_read(host, "kernel/module/nvidia-peermem");
	const char *kernel = host_text(host, "identity/kernel");

	finding_read(finding, "/lib/modules/%s/modules.dep, /proc/kallsyms, /etc/modules-load.d",
		     kernel ? kernel : "?");
	if (checks_kernel_has_peermem(host)) {
		finding_set(finding, VERDICT_OK, "installed%s",
			    checks_kernel_is_loaded_at_boot(host)
				    ? ", and loaded when the machine starts"
				    : "; nothing in /etc/modules-load.d loads it at start");
	} else if (reading_is_refused(module) && module->error != ENODATA) {
		checks_kernel_report_unreadable(
			host, finding, "the list of this kernel's modules cannot be read: %s",
			host_error_name(module->error));
	} else if (module->error && !host_has(host, "/lib/modules/%s/", kernel ? kernel : "?")) {
		checks_kernel_report_unreadable(host, finding,
						"this kernel's modules are not visible here");
		finding_fix(finding, "run it on the host itself, outside of the container");
	} else if (module->error == ENODATA) {
		checks_kernel_report_unreadable(host, finding,
						"this kernel's modules have no list (modules.dep)");
		finding_fix(finding, "ask your administrator: sudo depmod -a");
	} else if (module->error) {
		finding_without(host, finding, WAY_DMA_BUF,
				"nvidia-peermem is not installed for this kernel");
		finding_fix(finding, "ask your administrator: install the driver's kernel modules "
				     "for this kernel");
	} else if (symbol->error == ENODATA) {
		checks_kernel_report_unreadable(host, finding,
						"whether the RDMA stack has a peer-memory "
						"interface is not known: no /proc/kallsyms");
		finding_fix(finding, "run it on the host itself, outside of the container");
	} else if (reading_is_refused(symbol)) {
		checks_kernel_report_unreadable(host, finding,
						"whether the RDMA stack has a peer-memory "
						"interface is not known: /proc/kallsyms "
						"cannot be read: %s",
						host_error_name(symbol->error));
		finding_fix(finding, "sudo peerpin doctor --only peermem-install");
	} else if (symbol->error) {
		finding_without(host, finding, WAY_DMA_BUF,
				"the RDMA stack has no peer-memory interface "
				"(ib_register_peer_memory_client)");
		finding_fix(finding,
			    "ask your administrator: install MLNX_OFED or DOCA-OFED and then the "
			    "driver, or use dma-buf");
	} else {
		finding_set(finding, VERDICT_OK, "can be loaded: %s", module->text);
	}
}

/* ---- restrictions ---- */

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

	finding_read(finding, "/proc/driver/nvidia/params");
	if (parameters->error) {
		finding_set(finding, VERDICT_UNKNOWN,
			    "/proc/driver/nvidia/params cannot be read: %s",
			    parameters->error == ENOENT ? "no driver"
							: host_error_name(parameters->error));
		return;
	}
	if (!checks_kernel_parameter(parameters->text, "GrdmaPciTopoCheckOverride", &override))
		finding_set(finding, VERDICT_OK, "this driver has no check of the topology");
	else if (override == 2)
		finding_set(finding, VERDICT_FAIL,
			    "GrdmaPciTopoCheckOverride is 2: the driver denies GPUDirect RDMA");
	else
		finding_set(finding, VERDICT_OK, "%s",
			    override == 1
				    ? "allowed whatever the topology (GrdmaPciTopoCheckOverride 1)"
				    : "the driver decides by the topology");
	if (override == 2)
		finding_fix(finding,
			    "ask your administrator: remove NVreg_GrdmaPciTopoCheckOverride=2 from "
			    "/etc/modprobe.d");
	if (checks_kernel_parameter(parameters->text, "EnableResizableBar", &resizable))
		finding_add(finding, VERDICT_OK, "resizable BAR %s",
			    resizable ? "on" : "left to the firmware");
}

/* Modes of nvmlDeviceGetVirtualizationMode. */
enum { PASSED_THROUGH = 1, VIRTUAL_GPU, VIRTUAL_HOST, VIRTUAL_GRAPHICS_HOST };

static void checks_kernel_virtualization(struct host *host, struct finding *finding)
{
	const struct machine *machine = machine_of(host);
	struct groups groups = { .count = 0 };
	int64_t mode;

	for (unsigned int i = 0; i < machine->gpu_count; i++) {
		const struct gpu *gpu = &machine->gpus[i];

		if (gpu->ordinal < 0 ||
		    !host_number(host, &mode, "cuda/%d/virtualization", gpu->ordinal))
			continue;
		if (mode == PASSED_THROUGH)
			groups_add(&groups, VERDICT_OK, gpu->label,
				   "passed through to this virtual machine");
		if (mode == VIRTUAL_GPU) {
			groups_add(&groups, VERDICT_WARN, gpu->label,
				   "virtual: adapters reach few kinds of virtual GPUs");
			finding_fix(finding,
				    "ask your administrator: pass the whole GPU through, or a vGPU "
				    "type of the C series that has all of its memory");
		}
		if (mode == VIRTUAL_HOST || mode == VIRTUAL_GRAPHICS_HOST)
			groups_add(&groups, VERDICT_OK, gpu->label, "shared out as virtual GPUs");
	}
	groups_say(&groups, finding);
}

void check_platform(struct host *host, struct finding *finding)
{
	const char *version = host_text(host, "/proc/version");
	const char *lockdown = host_text(host, "/sys/kernel/security/lockdown");
	const char *vendor = host_text(host, "/sys/class/dmi/id/sys_vendor");
	const char *product = host_text(host, "/sys/class/dmi/id/product_name");
	bool container = host_has(host, "/.dockerenv?") || host_has(host, "/run/.containerenv?");

	finding_read(finding, "/proc/version, /sys/kernel/security/lockdown, /sys/class/dmi/id, "
			      "/dev/{tdx_guest,sev-guest}, nvmlDeviceGetVirtualizationMode");
	if (!version) {
		finding_set(finding, VERDICT_UNKNOWN, "/proc cannot be read");
		return;
	}
	/* sys_vendor shows a virtual machine and its hypervisor: UNKNOWN without. */
	finding_set(finding, vendor ? VERDICT_OK : VERDICT_UNKNOWN, "%s%s%s%s",
		    vendor ? vendor : "the machine's maker cannot be read",
		    vendor && product ? " " : "", vendor && product ? product : "",
		    container ? ", in a container" : "");
	checks_kernel_virtualization(host, finding);
	if (strstr(version, "icrosoft")) {
		finding_add(finding, VERDICT_WARN, "WSL2 has no GPUDirect RDMA");
		finding_fix(finding, "use Linux without Windows below it");
	}
	if (host_has(host, "/dev/tdx_guest?") || host_has(host, "/dev/sev-guest?")) {
		finding_add(finding, VERDICT_WARN,
			    "a confidential guest: adapters cannot reach memory that is encrypted");
		finding_fix(finding,
			    "ask your administrator: whether this guest's GPU allows peer access");
	}
	if (lockdown && !strstr(lockdown, "[none]")) {
		finding_add(finding, VERDICT_WARN, "the kernel is locked down: setpci is refused");
		finding_fix(finding,
			    "ask your administrator: switch ACS in the firmware; or lockdown off");
	}
}
