/* SPDX-License-Identifier: BSD-3-Clause */
/* libfabric_host.c -- shows libfabric a host whose adapter registers GPU memory (part of a preload)
 *
 * libfabric registers GPU memory by an adapter whose name contains "mlx" or "bnxt_re" alone, if
 * symbols of the kernel promise peer memory or dma-bufs, and connects over a network interface that
 * is no loopback. Here the simulated adapter has such a name, the kernel both symbols, and the
 * loopback address another interface.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/rdma_cma.h>

#define EXPORT __attribute__((visibility("default")))

static char kernel_symbols[] = "0 T ib_register_peer_memory_client\n0 T ib_umem_dmabuf_get\n";

EXPORT FILE *fopen(const char *path, const char *mode)
{
	FILE *(*next)(const char *, const char *) =
		(FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen");

	if (!strcmp(path, "/proc/kallsyms"))
		return fmemopen(kernel_symbols, strlen(kernel_symbols), mode);
	return next(path, mode);
}

/* libfabric has a hyphen in names of its own. */
EXPORT struct ibv_device **ibv_get_device_list(int *count)
{
	struct ibv_device **(*next)(int *) =
		(struct ibv_device * *(*)(int *)) dlsym(RTLD_NEXT, "ibv_get_device_list");
	struct ibv_device **devices = next(count);

	for (int i = 0; devices && devices[i]; i++) {
		if (!strstr(devices[i]->name, "mlx"))
			strcat(devices[i]->name, "_mlx");
	}
	return devices;
}

/* The interface, with the name that FI_VERBS_IFACE has in the rows. */
EXPORT int getifaddrs(struct ifaddrs **result)
{
	struct {
		struct ifaddrs interface;
		struct sockaddr_in address;
	} *all = calloc(1, sizeof(*all));

	if (!all)
		return -1;
	all->interface.ifa_name = (char *)"sim0";
	all->interface.ifa_flags = IFF_UP | IFF_RUNNING;
	all->interface.ifa_addr = (struct sockaddr *)&all->address;
	all->address.sin_family = AF_INET;
	all->address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	*result = &all->interface;
	return 0;
}

EXPORT void freeifaddrs(struct ifaddrs *interfaces)
{
	free(interfaces);
}

/* Devices stay open, as librdmacm's do. */
EXPORT struct ibv_context **rdma_get_devices(int *count)
{
	static struct ibv_context *first;
	struct ibv_context **contexts = calloc(2, sizeof(*contexts));
	struct ibv_device **devices;

	if (!first && (devices = ibv_get_device_list(NULL))) {
		if (devices[0])
			first = ibv_open_device(devices[0]);
		ibv_free_device_list(devices);
	}
	if (!contexts || !first) {
		free(contexts);
		errno = ENODEV;
		return NULL;
	}
	contexts[0] = first;
	if (count)
		*count = 1;
	return contexts;
}

EXPORT void rdma_free_devices(struct ibv_context **contexts)
{
	free(contexts);
}

EXPORT const char *rdma_event_str(enum rdma_cm_event_type event)
{
	(void)event;
	return "an event of the connection manager";
}

/* ---- addresses ---- */

static struct sockaddr *copy_of(const struct sockaddr *address, socklen_t bytes)
{
	struct sockaddr *copy = malloc(bytes);

	return copy ? memcpy(copy, address, bytes) : NULL;
}

static int resolve(struct rdma_addrinfo *info, const char *node, const char *service)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found;

	hints.ai_flags = info->ai_flags & RAI_PASSIVE ? AI_PASSIVE : 0;
	hints.ai_flags |= info->ai_flags & RAI_NUMERICHOST ? AI_NUMERICHOST : 0;
	if (getaddrinfo(node, service, &hints, &found)) {
		errno = EADDRNOTAVAIL;
		return -1;
	}
	info->ai_family = found->ai_family;
	if (info->ai_flags & RAI_PASSIVE) {
		info->ai_src_addr = copy_of(found->ai_addr, found->ai_addrlen);
		info->ai_src_len = found->ai_addrlen;
	} else {
		info->ai_dst_addr = copy_of(found->ai_addr, found->ai_addrlen);
		info->ai_dst_len = found->ai_addrlen;
	}
	freeaddrinfo(found);
	return 0;
}

EXPORT int rdma_getaddrinfo(const char *node, const char *service,
			    const struct rdma_addrinfo *hints, struct rdma_addrinfo **result)
{
	struct rdma_addrinfo *info = calloc(1, sizeof(*info));

	if (!info)
		return -1;
	info->ai_flags = hints->ai_flags;
	info->ai_family = hints->ai_family;
	info->ai_qp_type = IBV_QPT_RC;
	info->ai_port_space = RDMA_PS_TCP;
	if ((node || service) && resolve(info, node, service)) {
		free(info);
		return -1;
	}
	if (!info->ai_src_len && hints->ai_src_len) {
		info->ai_src_addr = copy_of(hints->ai_src_addr, hints->ai_src_len);
		info->ai_src_len = hints->ai_src_len;
	}
	if (!info->ai_dst_len && hints->ai_dst_len) {
		info->ai_dst_addr = copy_of(hints->ai_dst_addr, hints->ai_dst_len);
		info->ai_dst_len = hints->ai_dst_len;
	}
	*result = info;
	return 0;
}

EXPORT void rdma_freeaddrinfo(struct rdma_addrinfo *info)
{
	while (info) {
		struct rdma_addrinfo *next = info->ai_next;

		free(info->ai_src_addr);
		free(info->ai_dst_addr);
		free(info);
		info = next;
	}
}
