/* SPDX-License-Identifier: BSD-3-Clause */
/* checks_rdma.c -- checks of the RDMA adapters, their kernel drivers and libibverbs */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/doctor/groups.h"

#define CLASS "/sys/class/infiniband"

/* False: no adapter is visible; the finding has the reason. */
static bool checks_rdma_has_adapters(struct host *host, struct finding *finding)
{
	const struct machine *machine = machine_of(host);

	if (machine->adapter_count)
		return true;
	if (had_no_time(host, finding, "verbs/ended"))
		return false;
	finding_set(finding, VERDICT_UNKNOWN,
		    machine->adapters_are_known ? "no RDMA adapter is visible"
						: CLASS " cannot be read");
	return false;
}

/* Rate without parentheses: "100 Gb/sec" of "100 Gb/sec (4X EDR)". */
static void checks_rdma_rate(struct host *host, const char *adapter, const char *port, char to[32])
{
	const char *rate = host_text(host, CLASS "/%s/ports/%s/rate", adapter, port);

	snprintf(to, 32, "%s", rate ? rate : "rate unknown");
	to[strcspn(to, "(")] = '\0';
	while (*to && to[strlen(to) - 1] == ' ')
		to[strlen(to) - 1] = '\0';
}

/* State without number: "ACTIVE" of "4: ACTIVE". */
static const char *checks_rdma_state(struct host *host, const char *adapter, const char *port)
{
	const char *state = host_text(host, CLASS "/%s/ports/%s/state", adapter, port);
	const char *word = state ? strstr(state, ": ") : NULL;

	return word ? word + 2 : state ? state : "of unknown state";
}

static void checks_rdma_ports(struct host *host, const struct adapter *adapter,
			      struct groups *groups)
{
	const char *port_state = host_text(host, "verbs/%s/port/1", adapter->name);
	char port[16], item[96], rate[32];
	const char *layer, *state;

	if (!host_has(host, CLASS "/%s/ports/", adapter->name)) {
		groups_add(groups,
			   adapter->ports == PORTS_UNKNOWN  ? VERDICT_UNKNOWN
			   : adapter->ports == PORTS_ACTIVE ? VERDICT_OK
							    : VERDICT_WARN,
			   adapter->name, "%s (libibverbs alone tells of it)",
			   port_state ? port_state : "of unknown state");
		return;
	}
	for (const char *at = host_text(host, CLASS "/%s/ports/", adapter->name);
	     host_line(&at, port, sizeof(port));) {
		layer = host_text(host, CLASS "/%s/ports/%s/link_layer", adapter->name, port);
		state = checks_rdma_state(host, adapter->name, port);
		snprintf(item, sizeof(item), strcmp(port, "1") ? "%s:%s" : "%s", adapter->name,
			 port);
		if (!strcmp(state, "ACTIVE")) {
			checks_rdma_rate(host, adapter->name, port, rate);
			groups_add(groups, VERDICT_OK, item, "%s %s",
				   layer ? layer : "link unknown", rate);
		} else {
			groups_add(groups,
				   adapter->ports == PORTS_ACTIVE    ? VERDICT_OK
				   : adapter->ports == PORTS_UNKNOWN ? VERDICT_UNKNOWN
								     : VERDICT_WARN,
				   item, "%s %s", layer ? layer : "link unknown", state);
		}
	}
}

static void checks_rdma_link(struct host *host, const struct adapter *adapter,
			     struct groups *groups, struct finding *finding)
{
	const char *speed = host_text(host, CLASS "/%s/device/current_link_speed", adapter->name);
	const char *most = host_text(host, CLASS "/%s/device/max_link_speed", adapter->name);
	int64_t width = 0, widest = 0;
	bool known =
		host_number(host, &width, CLASS "/%s/device/current_link_width", adapter->name) &&
		host_number(host, &widest, CLASS "/%s/device/max_link_width", adapter->name);

	if ((known && width < widest) || (speed && most && atof(speed) < atof(most))) {
		groups_add(groups, VERDICT_WARN, adapter->name,
			   "PCIe link %s x%d, it could do %s x%d", speed ? speed : "?", (int)width,
			   most ? most : "?", (int)widest);
		finding_fix(finding,
			    "ask your administrator: another slot, or reseat the adapter (lspci "
			    "-vv -s %s)",
			    adapter->pci);
	}
}

void check_adapter(struct host *host, struct finding *finding)
{
	const struct machine *machine = machine_of(host);
	struct groups groups = { .count = 0 };
	unsigned int active = 0, known = 0;
	bool down = false;

	finding_read(
		finding, CLASS
		"/*/{ports/*/{state,link_layer,rate},device/{current,max}_link_{speed,width}}, "
		"/sys/module/ib_core/parameters/netns_mode");
	if (!checks_rdma_has_adapters(host, finding)) {
		const char *shared = host_text(host, "/sys/module/ib_core/parameters/netns_mode");

		if (machine->adapters_are_known && shared && *shared == 'N') {
			finding_add(finding, VERDICT_FAIL,
				    "each adapter is in one network namespace alone");
			finding_fix(
				finding,
				"ask your administrator: rdma system set netns shared, or rdma dev "
				"set ADAPTER netns NAME");
		} else if (machine->adapters_are_known) {
			finding->verdict = VERDICT_FAIL;
			finding_fix(finding, "ask your administrator: load the adapter's driver "
					     "(modprobe mlx5_ib); "
					     "a container needs the host's network: docker run "
					     "--net host --device "
					     "/dev/infiniband");
		} else if (host_read(host, "verbs/ended")->error != ETIME) {
			finding_fix(finding, "give this container /sys, or run it on the host");
		}
		return;
	}
	for (unsigned int i = 0; i < machine->adapter_count; i++) {
		checks_rdma_ports(host, &machine->adapters[i], &groups);
		known += machine->adapters[i].ports != PORTS_UNKNOWN;
		down |= machine->adapters[i].ports == PORTS_INACTIVE;
		active += machine->adapters[i].ports == PORTS_ACTIVE;
	}
	for (unsigned int i = 0; i < machine->adapter_count; i++)
		checks_rdma_link(host, &machine->adapters[i], &groups, finding);
	groups_say(&groups, finding);
	if (!active && known == machine->adapter_count)
		finding_add(finding, VERDICT_FAIL, "no port is active");
	if (down)
		finding_fix(finding,
			    "ask your administrator: the cable, the switch's port, or the subnet "
			    "manager (ibstat)");
}

/* First adapter that libibverbs opened; NULL: none. */
static const char *checks_rdma_opened_adapter(struct host *host)
{
	const struct machine *machine = machine_of(host);

	for (unsigned int i = 0; i < machine->adapter_count; i++) {
		if (!host_read(host, "verbs/%s/open", machine->adapters[i].name)->error)
			return machine->adapters[i].name;
	}
	return NULL;
}

void check_uverbs(struct host *host, struct finding *finding)
{
	const struct machine *machine = machine_of(host);
	const struct reading *folder = host_read(host, "/dev/infiniband/");
	bool container = host_has(host, "/.dockerenv?") || host_has(host, "/run/.containerenv?");
	const char *opened = checks_rdma_opened_adapter(host);
	char name[64];
	struct groups groups = { .count = 0 };
	unsigned int devices = 0;

	finding_read(finding, "/dev/infiniband/uverbs*, /sys/module/ib_uverbs");
	if (!machine->adapter_count && folder->error) {
		checks_rdma_has_adapters(host, finding);
		return;
	}
	for (const char *at = folder->error ? NULL : folder->text;
	     host_line(&at, name, sizeof(name));) {
		const char *status;

		if (strncmp(name, "uverbs", 6))
			continue;
		devices++;
		status = host_text(host, "/dev/infiniband/%s?", name);
		if (!status)
			groups_add(&groups, VERDICT_UNKNOWN, name, "cannot be looked at");
		else if (strlen(status) > 2 && !strcmp(status + strlen(status) - 2, "rw"))
			groups_add(&groups, VERDICT_OK, name, "can be opened");
		else
			groups_add(&groups, VERDICT_FAIL, name, "cannot be opened by this user");
	}
	groups_say(&groups, finding);
	if (finding->verdict == VERDICT_FAIL)
		finding_fix(finding,
			    "ask your administrator: mode 0666 for /dev/infiniband/uverbs* (udev "
			    "rules of rdma-core)");
	if (devices)
		return;
	if (opened) {
		finding_set(finding, VERDICT_UNKNOWN,
			    "no uverbs device is visible, but %s can be opened", opened);
		return;
	}
	finding_set(finding, VERDICT_FAIL, "/dev/infiniband has no uverbs device%s",
		    container ? ": this container was not given it" : "");
	if (container)
		finding_fix(finding, "docker run --device /dev/infiniband --cap-add IPC_LOCK, or "
				     "Kubernetes' RDMA device plugin");
	else
		finding_fix(finding, "sudo modprobe ib_uverbs");
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
		finding_set(finding, VERDICT_UNKNOWN, "libibverbs could not be asked: %s",
			    host_error_name(library->error));
	else if (!ended && !*library->text)
		finding_set(finding, VERDICT_UNKNOWN, "libibverbs was not asked");
	else if (ended && strcmp(ended, "ok"))
		finding_set(finding, VERDICT_UNKNOWN, "asking libibverbs ended with %s", ended);
	else
		finding_set(finding, VERDICT_FAIL, "libibverbs.so.1 cannot be loaded");
	if (finding->verdict == VERDICT_FAIL)
		finding_fix(finding, "sudo apt install libibverbs1 ibverbs-providers (or dnf "
				     "install libibverbs)");
	return false;
}

void check_verbs(struct host *host, struct finding *finding)
{
	const char *version, *fork;

	finding_read(finding, "libibverbs.so.1 and its symbols, ibv_is_fork_initialized");
	if (!checks_rdma_has_verbs(host, finding))
		return;
	version = host_text(host, "verbs/symbol/ibv_reg_dmabuf_mr");
	if (version) {
		finding_set(finding, VERDICT_OK, "libibverbs has ibv_reg_dmabuf_mr (%s)", version);
	} else {
		finding_without(host, finding, WAY_PEER_MEMORY,
				"libibverbs has no ibv_reg_dmabuf_mr");
		finding_fix(finding, "ask your administrator: rdma-core 34 or newer");
	}
	if (host_has(host, "verbs/symbol/ibv_reg_mr_ex"))
		finding_add(finding, VERDICT_OK, "ibv_reg_mr_ex");
	if (host_has(host, "verbs/symbol/mlx5dv_reg_dmabuf_mr"))
		finding_add(finding, VERDICT_OK, "mlx5dv_reg_dmabuf_mr");
	fork = host_text(host, "verbs/fork");
	if (fork && !strcmp(fork, "enabled"))
		finding_add(finding, VERDICT_OK, "fork support is on");
}

static void checks_rdma_dma_buf(struct host *host, const struct adapter *adapter,
				struct groups *groups)
{
	const struct reading *opened = host_read(host, "verbs/%s/open", adapter->name);
	const char *error = host_text(host, "verbs/%s/dmabuf", adapter->name);
	const char *direct = host_text(host, "verbs/%s/dmabuf_data_direct", adapter->name);

	if (host_read(host, "verbs/%s/ended", adapter->name)->error == ETIME)
		groups_add(groups, VERDICT_UNKNOWN, adapter->name, NO_TIME);
	else if (opened->error && !error)
		groups_add(groups, VERDICT_UNKNOWN, adapter->name, "could not be asked%s%s",
			   opened->error == ENOENT ? "" : ": ibv_open_device: ",
			   opened->error == ENOENT ? "" : host_error_name(opened->error));
	else if (!error)
		groups_add(groups, VERDICT_UNKNOWN, adapter->name, "was not asked");
	else if (!strcmp(error, "EBADF"))
		groups_add(groups, VERDICT_OK, adapter->name, "dma-buf%s",
			   direct && !strcmp(direct, "EBADF") ? " and data direct" : "");
	else if (!strcmp(error, "EOPNOTSUPP") || !strcmp(error, "EPROTONOSUPPORT") ||
		 !strcmp(error, "ENOSYS"))
		groups_add(groups, VERDICT_FAIL, adapter->name, "no dma-buf (%s)", error);
	else
		groups_add(groups, VERDICT_UNKNOWN, adapter->name, "answers %s", error);
}

void check_dma_buf(struct host *host, struct finding *finding)
{
	const struct machine *machine = machine_of(host);
	struct groups groups = { .count = 0 };
	char *text;

	finding_read(finding, "ibv_reg_dmabuf_mr with descriptor -1: EBADF means that it is there");
	if (!checks_rdma_has_adapters(host, finding) || !checks_rdma_has_verbs(host, finding))
		return;
	for (unsigned int i = 0; i < machine->adapter_count; i++)
		checks_rdma_dma_buf(host, &machine->adapters[i], &groups);
	groups_say(&groups, finding);
	if (finding->verdict != VERDICT_FAIL)
		return;
	if (way_suffices(host, WAY_DMA_BUF)) {
		finding->verdict = VERDICT_OK; /* each GPU has another adapter with dma-buf */
		return;
	}
	text = finding->text;
	finding->text = NULL;
	finding_without(host, finding, WAY_PEER_MEMORY, text);
	free(text);
	if (machine->adapters[0].software)
		finding_fix(finding, "use an RDMA adapter of hardware");
	else
		finding_fix(finding, "ask your administrator: a kernel from 5.12 on with the "
				     "adapter's own driver, "
				     "or nvidia-peermem");
}

void check_provider(struct host *host, struct finding *finding)
{
	const struct machine *machine = machine_of(host);
	struct groups groups = { .count = 0 };

	finding_read(finding, CLASS "/*/{device/driver,parent}, /sys/module/efa_nv_peermem");
	if (!checks_rdma_has_adapters(host, finding))
		return;
	for (unsigned int i = 0; i < machine->adapter_count; i++) {
		const struct adapter *adapter = &machine->adapters[i];
		const char *path = host_text(host, CLASS "/%s/device/driver@", adapter->name);
		const char *name = path ? strrchr(path, '/') : NULL;

		if (adapter->software)
			groups_add(&groups, VERDICT_WARN, adapter->name,
				   "is made of software: it copies, and cannot reach GPU memory by "
				   "itself");
		else
			groups_add(&groups, name ? VERDICT_OK : VERDICT_UNKNOWN, adapter->name,
				   "%s%s", name ? "by " : "tells no driver", name ? name + 1 : "");
		if (adapter->software)
			finding_fix(finding,
				    "use an RDMA adapter of hardware; this one is for tests");
	}
	groups_say(&groups, finding);
	if (host_has(host, "/sys/module/efa_nv_peermem/version"))
		finding_add(finding, VERDICT_OK, "efa_nv_peermem is loaded");
}
