/* SPDX-License-Identifier: BSD-3-Clause */
/* checks_rdma.c -- checks of the RDMA adapters, their kernel drivers and libibverbs */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/doctor/checks.h"
#include "tools/units.h"

#define CLASS "/sys/class/infiniband"

/* False: no adapter is visible; the finding has the reason. */
static bool checks_rdma_has_adapters(struct host *host, struct finding *finding)
{
	const struct machine *machine = machine_of(host);

	if (machine->adapter_count)
		return true;
	if (!had_no_time(host, finding, "verbs/ended"))
		finding_add(finding, UNKNOWN,
			    machine->adapters_are_known ? NO_ADAPTER : CLASS " cannot be read");
	return false;
}

/* Rate without parentheses: "100 Gb/sec" of "100 Gb/sec (4X EDR)". */
static const char *checks_rdma_rate(struct host *host, const char *adapter, const char *port)
{
	const char *rate = host_text(host, CLASS "/%s/ports/%s/rate", adapter, port);
	size_t length = rate ? strcspn(rate, "(") : 0;

	while (length && rate[length - 1] == ' ')
		length--;
	return rate ? text_of("%.*s", (int)length, rate) : "rate unknown";
}

/* State without number: "ACTIVE" of "4: ACTIVE". */
static const char *checks_rdma_state(struct host *host, const char *adapter, const char *port)
{
	const char *state = host_text(host, CLASS "/%s/ports/%s/state", adapter, port);
	const char *word = state ? strstr(state, ": ") : NULL;

	return word ? word + 2 : state ? state : "of unknown state";
}

static void checks_rdma_ports(struct host *host, const struct adapter *adapter,
			      struct finding *finding)
{
	enum result down = adapter->ports == PORTS_ACTIVE    ? OK
			   : adapter->ports == PORTS_UNKNOWN ? UNKNOWN
							     : WARN;
	const char *at = host_text(host, CLASS "/%s/ports/", adapter->name), *layer, *state;
	bool active;
	char port[16];

	if (!at) {
		state = host_text(host, "verbs/%s/port/1", adapter->name);
		finding_item(finding, down, adapter->name, "%s (reported by libibverbs alone)",
			     state ? state : "of unknown state");
	}
	while (host_line(&at, port, sizeof(port))) {
		layer = host_text(host, CLASS "/%s/ports/%s/link_layer", adapter->name, port);
		state = checks_rdma_state(host, adapter->name, port);
		active = !strcmp(state, "ACTIVE");
		finding_item(finding, active ? OK : down,
			     strcmp(port, "1") ? text_of("%s:%s", adapter->name, port)
					       : adapter->name,
			     "%s %s", layer ? layer : "link unknown",
			     active ? checks_rdma_rate(host, adapter->name, port) : state);
	}
}

static void checks_rdma_link(struct host *host, const struct adapter *adapter,
			     struct finding *finding)
{
	const char *speed = host_text(host, CLASS "/%s/device/current_link_speed", adapter->name);
	const char *most = host_text(host, CLASS "/%s/device/max_link_speed", adapter->name);
	int64_t width = 0, widest = 0;
	bool known =
		host_number(host, &width, CLASS "/%s/device/current_link_width", adapter->name) &&
		host_number(host, &widest, CLASS "/%s/device/max_link_width", adapter->name);

	if ((known && width < widest) || (speed && most && atof(speed) < atof(most))) {
		finding_item(finding, WARN, adapter->name, "PCIe link %s x%d, it could do %s x%d",
			     speed ? speed : "?", (int)width, most ? most : "?", (int)widest);
		finding_fix(finding,
			    "ask your administrator: another slot, or reseat the adapter (lspci "
			    "-vv%s%s)",
			    *adapter->pci ? " -s " : "", adapter->pci);
	}
}

static void checks_rdma_no_adapter(struct host *host, struct finding *finding)
{
	const char *shared = host_text(host, "/sys/module/ib_core/parameters/netns_mode");

	if (!machine_of(host)->adapters_are_known) {
		if (host_read(host, "verbs/ended")->error != ETIME)
			finding_fix(finding, FIX_SYSFS);
	} else if (shared && *shared == 'N') {
		finding_problem(finding, FAIL,
				"ask your administrator: rdma system set netns shared, or rdma dev "
				"set ADAPTER netns NAME",
				"each adapter is in one network namespace alone");
	} else {
		finding->result = FAIL;
		finding_fix(finding, "%s",
			    is_container(host)
				    ? "docker run --net host --device /dev/infiniband: a container "
				      "needs the host's network"
				    : "ask your administrator: load the adapter's driver (modprobe "
				      "mlx5_ib)");
	}
}

void check_adapter(struct host *host, struct finding *finding)
{
	unsigned int inactive = 0;

	if (!checks_rdma_has_adapters(host, finding)) {
		checks_rdma_no_adapter(host, finding);
		return;
	}
	EACH_ADAPTER(host, adapter) {
		checks_rdma_ports(host, adapter, finding);
		inactive += adapter->ports == PORTS_INACTIVE;
	}
	EACH_ADAPTER(host, adapter)
		checks_rdma_link(host, adapter, finding);
	if (inactive == machine_of(host)->adapter_count)
		finding_add(finding, FAIL, "no port is active");
	if (inactive)
		finding_fix(finding, "ask your administrator: the cable, the switch's port, or the "
				     "subnet manager (ibstat)");
}

/* First adapter that libibverbs opened; NULL: none. */
static const char *checks_rdma_opened_adapter(struct host *host)
{
	EACH_ADAPTER(host, adapter) {
		if (!host_read(host, "verbs/%s/open", adapter->name)->error)
			return adapter->name;
	}
	return NULL;
}

/* Error of opening the adapter of a uverbs device: a measurement, which outranks the device's mode.
 * ENOENT: it was not tried, or the adapter is not known. */
static int checks_rdma_open_error(struct host *host, const char *uverbs)
{
	const struct reading *adapter =
		host_read(host, "/sys/class/infiniband_verbs/%s/ibdev", uverbs);

	return adapter->error ? ENOENT : host_read(host, "verbs/%s/open", adapter->text)->error;
}

static void checks_rdma_uverbs(struct host *host, const char *name, struct finding *finding)
{
	const struct reading *status = host_read(host, "/dev/infiniband/%s?", name);
	bool allowed = !status->error && status->length > 2 &&
		       !strcmp(status->text + status->length - 2, "rw");
	int error = checks_rdma_open_error(host, name);

	if (!error || (error == ENOENT && allowed)) {
		finding_item(finding, OK, name, "can be opened");
		return;
	}
	if (error == ENOENT && status->error) {
		finding_item(finding, UNKNOWN, name, "cannot be read");
		return;
	}
	finding_item(finding, FAIL, name, "cannot be opened by this user%s%s", allowed ? ": " : "",
		     allowed ? host_error_name(error) : "");
	if (!allowed)
		finding_fix(finding, "ask your administrator: mode 0666 for "
				     "/dev/infiniband/uverbs* (udev rules of rdma-core)");
	else if (error == EPERM || error == EACCES)
		finding_fix(finding, "ask your administrator: the devices cgroup of this job or "
				     "container has to allow /dev/infiniband (docker run --device "
				     "/dev/infiniband)");
	else
		finding_fix(finding, "dmesg | tail (as root)");
}

/* The module is loaded: another process of this host has the devices, or there is no adapter. */
static const char *checks_rdma_no_uverbs_fix(struct host *host)
{
	if (is_container(host))
		return "docker run --device /dev/infiniband --cap-add IPC_LOCK, or Kubernetes' "
		       "RDMA device plugin";
	return host_has(host, "/sys/module/ib_uverbs/")
		       ? "ask your administrator: the adapter's driver (modprobe mlx5_ib); in a "
			 "chroot or sandbox, bind /dev/infiniband into it"
		       : as_root(host, "modprobe ib_uverbs");
}

void check_uverbs(struct host *host, struct finding *finding)
{
	const struct reading *folder = host_read(host, "/dev/infiniband/");
	const char *opened = checks_rdma_opened_adapter(host);
	char name[64];

	if (!machine_of(host)->adapter_count && folder->error) {
		checks_rdma_has_adapters(host, finding);
		return;
	}
	for (const char *at = folder->error ? NULL : folder->text;
	     host_line(&at, name, sizeof(name));) {
		if (!strncmp(name, "uverbs", 6))
			checks_rdma_uverbs(host, name, finding);
	}
	if (finding_text(finding))
		return;
	if (opened)
		finding_add(finding, UNKNOWN, "no uverbs device is visible, but %s can be opened",
			    opened);
	else
		finding_problem(finding, FAIL, checks_rdma_no_uverbs_fix(host),
				"/dev/infiniband has no uverbs device%s",
				is_container(host) ? ": this container was not given it" : "");
}

/* False: libibverbs is missing or was not loaded; the finding has the reason. */
static bool checks_rdma_has_verbs(struct host *host, struct finding *finding)
{
	const struct reading *library = host_read(host, "verbs/library");
	const char *ended = host_text(host, "verbs/ended");

	if (!library->error)
		return true;
	if (had_no_time(host, finding, "verbs/ended"))
		return false;
	if (reading_is_refused(library))
		finding_add(finding, UNKNOWN, "libibverbs could not be queried: %s",
			    host_error_name(library->error));
	else if (!ended && !*library->text)
		finding_add(finding, UNKNOWN, "libibverbs was not queried");
	else if (ended && strcmp(ended, "ok"))
		finding_add(finding, UNKNOWN, "the libibverbs probe process %s", end_words(ended));
	else
		finding_problem(finding, FAIL,
				"apt install libibverbs1 ibverbs-providers, or dnf install "
				"libibverbs (as root; for a container, where it is built)",
				"libibverbs.so.1 cannot be loaded");
	return false;
}

void check_verbs(struct host *host, struct finding *finding)
{
	const char *version, *fork;

	if (!checks_rdma_has_verbs(host, finding))
		return;
	version = host_text(host, "verbs/symbol/ibv_reg_dmabuf_mr");
	if (version)
		finding_add(finding, OK, "libibverbs has ibv_reg_dmabuf_mr (%s)", version);
	else
		finding_without(host, finding, proof_of(host, NULL, NULL, METHOD_DMA_BUF),
				METHOD_PEER_MEMORY, "ask your administrator: rdma-core 35 or newer",
				"libibverbs has no ibv_reg_dmabuf_mr");
	if (host_has(host, "verbs/symbol/ibv_reg_mr_ex"))
		finding_add(finding, OK, "ibv_reg_mr_ex");
	if (host_has(host, "verbs/symbol/mlx5dv_reg_dmabuf_mr"))
		finding_add(finding, OK, "mlx5dv_reg_dmabuf_mr");
	fork = host_text(host, "verbs/fork");
	if (fork && !strcmp(fork, "enabled"))
		finding_add(finding, OK, "fork support is on");
}

/* `without`: result for an adapter without dma-buf. */
static void checks_rdma_dma_buf(struct host *host, const struct adapter *adapter,
				enum result without, struct finding *finding)
{
	const struct reading *opened = host_read(host, "verbs/%s/open", adapter->name);
	const struct reading *ended = host_read(host, "verbs/%s/ended", adapter->name);
	const char *error = host_text(host, "verbs/%s/dmabuf", adapter->name);
	const char *direct = host_text(host, "verbs/%s/dmabuf_data_direct", adapter->name);
	const char *measured = proof_of(host, NULL, adapter, METHOD_DMA_BUF);

	if (ended->error == ETIME)
		finding_item(finding, UNKNOWN, adapter->name, NO_TIME);
	else if (!error && !ended->error && strcmp(ended->text, "ok"))
		finding_implied(finding, adapter->name, measured, WARN, "dmesg | tail (as root)",
				"the libibverbs probe process %s", end_words(ended->text));
	else if (opened->error && !error)
		finding_item(finding, UNKNOWN, adapter->name, "could not be queried%s%s",
			     opened->error == ENOENT ? "" : ": ibv_open_device: ",
			     opened->error == ENOENT ? "" : host_error_name(opened->error));
	else if (!error)
		finding_item(finding, UNKNOWN, adapter->name, "was not queried");
	else if (!strcmp(error, "EBADF"))
		finding_item(finding, OK, adapter->name, "dma-buf%s",
			     direct && !strcmp(direct, "EBADF")
				     ? " and data direct (peerpin forwards "
				       "registrations by mlx5dv_reg_dmabuf_mr)"
				     : "");
	else if (is_unsupported(error))
		finding_implied(finding, adapter->name, measured, without, NULL, "no dma-buf (%s)",
				error);
	else
		finding_implied(finding, adapter->name, measured, UNKNOWN, NULL,
				"rejects a dma-buf with %s", error);
}

/* Software adapters count where no other adapter is. */
void check_dma_buf(struct host *host, struct finding *finding)
{
	bool hardware = false;

	if (!checks_rdma_has_adapters(host, finding) || !checks_rdma_has_verbs(host, finding))
		return;
	EACH_ADAPTER(host, adapter)
		hardware |= !adapter->software;
	EACH_ADAPTER(host, adapter)
		checks_rdma_dma_buf(host, adapter, adapter->software && hardware ? OK : FAIL,
				    finding);
	if (finding->result != FAIL)
		return;
	finding_text(finding);
	if (method_suffices(host, METHOD_DMA_BUF))
		finding->result = OK; /* each GPU has another adapter with dma-buf */
	else
		finding_without(host, finding, NULL, METHOD_PEER_MEMORY,
				hardware ? "ask your administrator: a kernel from 5.12 on with the "
					   "adapter's own driver, or nvidia-peermem"
					 : FIX_HARDWARE,
				"%s", finding->text);
}

/* Adapters whose providers exchange private data with the kernel: docs/internals/registration.md.
 */
static const struct {
	const char *driver, *words;
} forwarded[] = {
	{ "ice", "by ice (irdma): peerpin serves registrations by dma-buf alone" },
	{ "i40e", "by i40e (irdma): peerpin serves registrations by dma-buf alone" },
	{ "ib_mthca", "by ib_mthca: peerpin serves no registrations" },
};

static void checks_rdma_provider(const struct adapter *adapter, const char *driver,
				 struct finding *finding)
{
	for (size_t i = 0; i < sizeof(forwarded) / sizeof(forwarded[0]); i++) {
		if (!strcmp(driver, forwarded[i].driver)) {
			finding_item(finding, WARN, adapter->name, "%s", forwarded[i].words);
			finding_fix(finding, "use an adapter of another driver, such as mlx5");
			return;
		}
	}
	finding_item(finding, OK, adapter->name, "by %s", driver);
}

void check_provider(struct host *host, struct finding *finding)
{
	if (!checks_rdma_has_adapters(host, finding))
		return;
	EACH_ADAPTER(host, adapter) {
		const char *path = host_text(host, CLASS "/%s/device/driver@", adapter->name);
		const char *name = path ? strrchr(path, '/') : NULL;

		if (adapter->software)
			finding_implied(
				finding, adapter->name, proof_of(host, NULL, adapter, METHODS),
				WARN, FIX_HARDWARE "; a software adapter is for tests",
				"is a software adapter: it copies, and cannot access GPU memory");
		else if (name)
			checks_rdma_provider(adapter, name + 1, finding);
		else
			finding_item(finding, UNKNOWN, adapter->name, "reports no driver");
	}
	if (host_has(host, "/sys/module/efa_nv_peermem/version"))
		finding_add(finding, OK, "efa_nv_peermem is loaded");
}
