/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs.c -- readings verbs/: libibverbs and each adapter
 *
 * One child lists the adapters. One child per adapter opens it, so that an adapter that hangs
 * hides no other. Readings beside those of host.h:
 *
 *   verbs/NAME/ended     end of that adapter's child; verbs/NAME/output: its output (child.h)
 *   verbs/NAME/port/N    "STATE LAYER" of port N, from 1 on: "ACTIVE Ethernet"; STATE as printed by
 *                        ibv_devinfo, without PORT_
 *   verbs/NAME/host      ibv_reg_mr of 2 MiB of host memory: "ok NANOSECONDS"; error of the call
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/kernel.h"
#include "tools/doctor/host.h"
#include "tools/doctor/calls.h"

#define LIST_SECONDS	5
#define ADAPTER_SECONDS 10

#define PAGE	    4096
#define HOST_LENGTH ((size_t)2 << 20)

static const char *const symbols[] = { "ibv_reg_dmabuf_mr", "ibv_reg_mr_ex",
				       "mlx5dv_reg_dmabuf_mr" };

/* Adapter of the next child, set before the fork. */
static char current_adapter[64];

/* Name of a reading of the current adapter. */
#define NAME(name) reading_name("verbs/%s/" name, current_adapter)

/* ---- library and adapters ---- */

static void verbs_read_library(struct host *host)
{
	static const char *const forks[] = { "disabled", "enabled", "unneeded" };
	int fork;

	host_record(host, "verbs/library", "%s", verbs_file());
	for (size_t i = 0; i < sizeof(symbols) / sizeof(*symbols); i++) {
		const char *version = verbs_symbol_version(symbols[i]);

		if (version)
			host_record(host, reading_name("verbs/symbol/%s", symbols[i]), "%s",
				    version);
	}
	if (!verbs.ibv_is_fork_initialized)
		return;
	fork = VERBS(ibv_is_fork_initialized);
	if (fork >= 0 && fork < 3)
		host_record(host, "verbs/fork", "%s", forks[fork]);
}

static void verbs_query_library(struct host *host)
{
	const char *error = verbs_load();
	struct ibv_device **list;
	char names[4096] = "";
	int count = 0;

	if (error) {
		host_record_error(host, "verbs/library", ENOENT, "%s", error);
		return;
	}
	verbs_read_library(host);
	errno = 0;
	list = VERBS(ibv_get_device_list, &count);
	if (!list) {
		/* ENOSYS: the kernel has no RDMA support. Record ENOENT, as for an empty list. */
		host_record_error(host, "verbs/devices",
				  errno == ENOSYS ? ENOENT
				  : errno	  ? errno
						  : EIO,
				  "ibv_get_device_list");
		return;
	}
	for (int i = 0; i < count; i++) {
		const char *name = verbs.ibv_get_device_name(list[i]);

		if (strlen(names) + strlen(name) + 2 < sizeof(names))
			sprintf(names + strlen(names), "%s%s", i ? "\n" : "", name);
	}
	host_record(host, "verbs/devices", "%s", names);
}

/* ---- each adapter ---- */

static void verbs_read_ports(struct host *host, struct ibv_context *context, int ports)
{
	static const char *const states[] = { "NOP",   "DOWN",	 "INIT",
					      "ARMED", "ACTIVE", "ACTIVE_DEFER" };
	static const char *const layers[] = { "unspecified", "InfiniBand", "Ethernet" };

	for (int port = 1; verbs.ibv_query_port && port <= ports; port++) {
		struct verbs_port attributes = { .state = -1 };
		int error = VERBS(ibv_query_port, context, (uint8_t)port, &attributes);
		const char *name = reading_name("verbs/%s/port/%d", current_adapter, port);

		if (error)
			host_record_error(host, name, error > 0 ? error : EIO, "ibv_query_port");
		else if (attributes.state >= 0 && attributes.state < 6 && attributes.link_layer < 3)
			host_record(host, name, "%s %s", states[attributes.state],
				    layers[attributes.link_layer]);
		else
			host_record(host, name, "%d %d", attributes.state, attributes.link_layer);
	}
}

static void verbs_read_limits(struct host *host, struct ibv_context *context)
{
	struct ibv_device_attr attributes = { .max_mr = 0 };
	int error = VERBS(ibv_query_device, context, &attributes);
	uint8_t tail[4];

	if (error) {
		host_record_error(host, NAME("limits"), error > 0 ? error : EIO,
				  "ibv_query_device");
		return;
	}
	host_record(host, NAME("limits"), "max_mr %d\nmax_mr_size %llu", attributes.max_mr,
		    (unsigned long long)attributes.sizes[0]);
	/* layout: max_pkeys (2 bytes), local_ca_ack_delay, phys_port_cnt */
	memcpy(tail, &attributes.others[21], sizeof(tail));
	verbs_read_ports(host, context, tail[3]);
}

/* A driver with dma-buf support rejects descriptor -1 with EBADF; a driver without it rejects
 * the call itself. */
static void verbs_read_dma_buf(struct host *host, struct ibv_device *device, struct ibv_pd *pd)
{
	struct ibv_mr *mr;

	if (verbs.ibv_reg_dmabuf_mr) {
		errno = 0;
		mr = VERBS(ibv_reg_dmabuf_mr, pd, 0, PAGE, 0, -1, IBV_ACCESS_LOCAL_WRITE);
		host_record(host, NAME("dmabuf"), "%s", mr ? "ok" : host_error_name(errno));
	}
	if (!verbs.mlx5dv_is_supported || !verbs.mlx5dv_reg_dmabuf_mr ||
	    !VERBS(mlx5dv_is_supported, device))
		return;
	errno = 0;
	mr = VERBS(mlx5dv_reg_dmabuf_mr, pd, 0, PAGE, 0, -1, IBV_ACCESS_LOCAL_WRITE,
		   MLX5DV_ACCESS_DATA_DIRECT);
	host_record(host, NAME("dmabuf_data_direct"), "%s", mr ? "ok" : host_error_name(errno));
}

/* Registers host memory: a failure here is not caused by the GPU. */
static void verbs_read_host(struct host *host, struct ibv_pd *pd)
{
	void *memory = mmap(NULL, HOST_LENGTH, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	struct ibv_mr *mr;
	uint64_t start;

	if (memory == MAP_FAILED) {
		host_record_error(host, NAME("host"), errno, "mmap");
		return;
	}
	start = kernel_time(CLOCK_MONOTONIC);
	errno = 0;
	mr = VERBS(ibv_reg_mr, pd, memory, HOST_LENGTH, PROBE_ACCESS);
	if (!mr) {
		host_record_error(host, NAME("host"), errno ? errno : EIO, "ibv_reg_mr");
		return;
	}
	host_record(host, NAME("host"), "ok %llu",
		    (unsigned long long)(kernel_time(CLOCK_MONOTONIC) - start));
	VERBS(ibv_dereg_mr, mr);
}

static void verbs_query_adapter(struct host *host)
{
	struct ibv_context *context;
	struct ibv_device *device;
	struct ibv_pd *pd;

	if (verbs_load())
		return;
	device = verbs_find(current_adapter);
	if (!device) {
		host_record_error(host, NAME("open"), ENODEV, "it is not in the list any more");
		return;
	}
	errno = 0;
	context = VERBS(ibv_open_device, device);
	if (!context) {
		host_record_error(host, NAME("open"), errno ? errno : EIO, "ibv_open_device");
		return;
	}
	host_record(host, NAME("open"), "ok");
	verbs_read_limits(host, context);
	pd = VERBS(ibv_alloc_pd, context);
	if (pd) {
		verbs_read_dma_buf(host, device, pd);
		verbs_read_host(host, pd);
		VERBS(ibv_dealloc_pd, pd);
	}
	VERBS(ibv_close_device, context);
}

void verbs_fill(struct host *host)
{
	const char *names;
	char prefix[100];

	host_run_child(host, "verbs/", LIST_SECONDS, verbs_query_library);
	for (names = host_text(host, "verbs/devices");
	     host_line(&names, current_adapter, sizeof(current_adapter));) {
		if (!*current_adapter)
			continue;
		snprintf(prefix, sizeof(prefix), "verbs/%s/", current_adapter);
		host_run_child(host, prefix, ADAPTER_SECONDS, verbs_query_adapter);
	}
}
