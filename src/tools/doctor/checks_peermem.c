/* SPDX-License-Identifier: BSD-3-Clause */
/* checks_peermem.c -- checks of the peer-memory modules: loaded, registered, mode, installed */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/doctor/checks.h"

static bool checks_peermem_is_readable(struct host *host, struct finding *finding)
{
	if (host_has(host, "/sys/module/"))
		return true;
	finding_problem(finding, UNKNOWN, FIX_SYSFS, "/sys/module cannot be read");
	return false;
}

static bool checks_peermem_is_loaded(struct host *host, const char *module)
{
	return host_has(host, "/sys/module/%s/", module) ||
	       host_has(host, "/sys/module/%s/version", module);
}

#define NEW "nvidia_peermem"
#define OLD "nv_peer_mem"

/* nvidia_peermem comes with driver 470 and newer. */
static bool checks_peermem_is_of_old_driver(struct host *host)
{
	const char *driver = host_text(host, "/sys/module/nvidia/version");

	return driver && atoi(driver) < 470 && checks_peermem_is_loaded(host, OLD);
}

/* GPUDirect RDMA guide 12.6, 3.7. The service loads the module again at the next start. */
static const char *checks_peermem_replace(struct host *host)
{
	return as_root(host,
		       "sh -c 'service nv_peer_mem stop; rmmod nv_peer_mem nvidia_peermem; dpkg -P "
		       "nvidia-peer-memory nvidia-peer-memory-dkms || rpm -e nvidia_peer_memory; "
		       "modprobe nvidia-peermem'");
}

/* host_read notes no unreadable reading: the fix is equal for absent and unreadable data. */
const char *peermem_fix(struct host *host)
{
	bool can_be = !host_read(host, "kernel/module/nvidia-peermem")->error &&
		      !host_read(host, "kernel/symbol/ib_register_peer_memory_client")->error;

	if (checks_peermem_is_loaded(host, NEW) || checks_peermem_is_loaded(host, OLD))
		return "peerpin doctor --only peermem: it is loaded, but registers nothing";
	return can_be ? as_root(host, "modprobe nvidia-peermem")
		      : "peerpin doctor --only peermem-install: make it loadable first";
}

void check_peermem(struct host *host, struct finding *finding)
{
	const char *driver = host_text(host, "/sys/module/nvidia/version");
	const char *version = host_text(host, "/sys/module/nvidia_peermem/version");
	const char *measured = proof_of(host, NULL, NULL, METHOD_PEER_MEMORY);
	bool loaded = checks_peermem_is_loaded(host, NEW),
	     old = checks_peermem_is_loaded(host, OLD);
	enum result before;

	if (!checks_peermem_is_readable(host, finding))
		return;
	if (loaded && old)
		finding_implied(
			finding, NULL, measured, FAIL, checks_peermem_replace(host),
			"nvidia_peermem and the older nv_peer_mem are both loaded: they conflict");
	else if (checks_peermem_is_of_old_driver(host))
		finding_add(finding, OK, "nv_peer_mem is loaded; driver %s has no nvidia_peermem",
			    driver);
	else if (old)
		finding_implied(finding, NULL, measured, WARN, checks_peermem_replace(host),
				"the older nv_peer_mem is loaded in place of nvidia_peermem");
	else if (!loaded)
		finding_without(host, finding, measured, METHOD_DMA_BUF, peermem_fix(host),
				"nvidia_peermem is not loaded");
	else if (version && driver && strcmp(version, driver))
		finding_implied(finding, NULL, measured, FAIL,
				as_root(host, "sh -c 'rmmod nvidia_peermem && depmod -a && "
					      "modprobe nvidia-peermem'"),
				"nvidia_peermem %s differs from the driver's version %s", version,
				driver);
	else
		finding_add(finding, OK, "nvidia_peermem %s is loaded",
			    version ? version : "(no version)");
	/* A module that is not registered registers nothing, and reports no error. */
	before = finding->result;
	if ((loaded || old) && peer_memory_client(host)->error)
		finding_without(host, finding, measured, METHOD_DMA_BUF,
				"ask your administrator: reinstall the driver after MLNX_OFED or "
				"DOCA-OFED; it was built without their peer-memory interface",
				"%s; not registered with the RDMA stack", finding->text);
	finding->result = before > finding->result ? before : finding->result;
}

void check_peermem_mode(struct host *host, struct finding *finding)
{
	const char *folder = "/sys/module/nvidia_peermem/parameters";
	const char *driver = host_text(host, "/sys/module/nvidia/version");
	bool loaded = checks_peermem_is_loaded(host, NEW);
	int64_t persistent, direct;

	if (!checks_peermem_is_readable(host, finding))
		return;
	if (!loaded && !checks_peermem_is_loaded(host, OLD)) {
		finding_add(finding, NOT_NEEDED, "nvidia_peermem is not loaded, so it has no mode");
		return;
	}
	/* Without the parameter, drivers that register nv_mem_nc as well use the callback. */
	if (host_number(host, &persistent, "%s/persistent_api_support", folder) && persistent)
		finding_add(finding, OK,
			    "persistent: a missed free keeps its memory pinned until its "
			    "registration ends");
	else if (loaded && !host_has(host, "%s/persistent_api_support", folder) &&
		 !host_has(host, "/sys/kernel/mm/memory_peers/nv_mem_nc/version"))
		finding_add(finding, UNKNOWN, "nvidia_peermem does not report its mode");
	else if (driver && !method_suffices(host, METHOD_DMA_BUF))
		finding_defects(finding, "driver", driver);
	if (!finding->text)
		finding_add(finding, OK,
			    "callback: the driver invalidates registrations when their memory is "
			    "freed");
	if (host_number(host, &direct, "%s/peerdirect_support", folder) && direct)
		finding_add(finding, OK, "peerdirect_support is %d", (int)direct);
}

/* Folders of modules-load.d(5). */
static bool checks_peermem_is_loaded_at_boot(struct host *host)
{
	static const char *const folders[] = { "/etc", "/run", "/usr/lib" };
	char name[128], line[128];

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		const char *names = host_text(host, "%s/modules-load.d/", folders[i]);

		while (host_line(&names, name, sizeof(name))) {
			const char *text =
				host_text(host, "%s/modules-load.d/%s", folders[i], name);

			while (host_line(&text, line, sizeof(line))) {
				if (!strchr("#;", line[strspn(line, " \t")]) &&
				    (strstr(line, "nvidia-peermem") || strstr(line, NEW)))
					return true;
			}
		}
	}
	return false;
}

static void checks_peermem_boot(struct host *host, struct finding *finding)
{
	bool loaded = checks_peermem_is_loaded_at_boot(host);

	if (loaded || is_container(host) || method_suffices(host, METHOD_DMA_BUF))
		finding_add(finding, OK, "installed%s",
			    loaded ? ", and loaded when the machine starts" : "");
	else
		finding_problem(finding, WARN,
				as_root(host, "sh -c 'echo nvidia-peermem "
					      ">/etc/modules-load.d/nvidia-peermem.conf'"),
				"no file of modules-load.d loads it at the next start; without it "
				"no GPU memory is registered");
}

/* Reports unreadable data: NOT NEEDED if dma-buf works for every GPU, or peer memory was measured;
 * else UNKNOWN. */
static void checks_peermem_unreadable(struct host *host, struct finding *finding, const char *fix,
				      const char *text, const struct reading *reading)
{
	const char *works = method_suffices(host, METHOD_DMA_BUF)	     ? "dma-buf"
			    : proof_of(host, NULL, NULL, METHOD_PEER_MEMORY) ? "peermem"
									     : NULL;

	finding_problem(finding, works ? NOT_NEEDED : UNKNOWN, fix, "%s%s%s%s%s%s", text,
			reading ? ": " : "", reading ? host_error_name(reading->error) : "",
			works ? "; not needed, " : "", works ? works : "", works ? " works" : "");
}

void check_peermem_install(struct host *host, struct finding *finding)
{
	const struct reading *symbol =
		host_read(host, "kernel/symbol/ib_register_peer_memory_client");
	const struct reading *module = host_read(host, "kernel/module/nvidia-peermem");
	const char *kernel = host_text(host, "identity/kernel");
	const char *measured = proof_of(host, NULL, NULL, METHOD_PEER_MEMORY);

	if (checks_peermem_is_loaded(host, NEW))
		checks_peermem_boot(host, finding);
	else if (checks_peermem_is_of_old_driver(host))
		finding_add(finding, OK, "nv_peer_mem is installed");
	else if (reading_is_refused(module) && module->error != ENODATA)
		checks_peermem_unreadable(host, finding, NULL,
					  "the list of this kernel's modules cannot be read",
					  module);
	else if (module->error && !host_has(host, "/lib/modules/%s/", kernel ? kernel : "?"))
		checks_peermem_unreadable(host, finding, FIX_NO_CONTAINER,
					  "this kernel's modules are not visible here", NULL);
	else if (module->error == ENODATA)
		checks_peermem_unreadable(host, finding, "ask your administrator: sudo depmod -a",
					  "this kernel's modules have no list (modules.dep)", NULL);
	else if (module->error)
		finding_without(host, finding, measured, METHOD_DMA_BUF,
				"ask your administrator: install the driver's kernel modules for "
				"this kernel",
				"nvidia-peermem is not installed for this kernel");
	else if (symbol->error == ENODATA)
		checks_peermem_unreadable(host, finding, FIX_NO_CONTAINER,
					  "whether the RDMA stack has a peer-memory interface is "
					  "not known: no /proc/kallsyms",
					  NULL);
	else if (reading_is_refused(symbol))
		checks_peermem_unreadable(host, finding, fix_as_root_again(host, "peermem-install"),
					  "whether the RDMA stack has a peer-memory interface is "
					  "not known: /proc/kallsyms cannot be read",
					  symbol);
	else if (symbol->error)
		finding_without(host, finding, measured, METHOD_DMA_BUF,
				"ask your administrator: install MLNX_OFED or DOCA-OFED and then "
				"the driver, or use dma-buf",
				"the RDMA stack has no peer-memory interface "
				"(ib_register_peer_memory_client)");
	else
		finding_add(finding, OK, "can be loaded: %s", module->text);
}
