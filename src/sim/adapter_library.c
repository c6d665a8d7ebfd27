/* SPDX-License-Identifier: BSD-3-Clause */
/* adapter_library.c -- libibverbs itself: devices, the public calls, fork bookkeeping
 *
 * Steps of a registration follow rdma-core's verbs.c. The library excludes ranges from forked
 * children around the provider's call and fills the client's struct after that call.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/adapter.h"

static struct ibv_device devices[ADAPTERS_MAX];
static unsigned int device_count;
static pthread_once_t devices_once = PTHREAD_ONCE_INIT;
static bool fork_initialized;

/* ---- devices ---- */

static void adapter_library_make_devices(void)
{
	uint64_t count = adapter_setting(devices);

	device_count = count > ADAPTERS_MAX ? ADAPTERS_MAX : (unsigned int)count;
	for (unsigned int i = 0; i < device_count; i++) {
		struct ibv_device *device = &devices[i];

		device->node_type = 1; /* channel adapter */
		device->transport_type = IBV_TRANSPORT_IB;
		snprintf(device->name, sizeof(device->name), "sim%u", i);
		snprintf(device->dev_name, sizeof(device->dev_name), "uverbs%u", i);
		snprintf(device->dev_path, sizeof(device->dev_path),
			 "/sys/class/infiniband_verbs/uverbs%u", i);
		snprintf(device->ibdev_path, sizeof(device->ibdev_path),
			 "/sys/class/infiniband/sim%u", i);
	}
}

unsigned int adapter_number(const struct ibv_context *context)
{
	return (unsigned int)(context->device - devices);
}

struct ibv_device **ibv_get_device_list(int *count)
{
	struct ibv_device **list;

	pthread_once(&devices_once, adapter_library_make_devices);
	list = calloc(device_count + 1, sizeof(*list));
	if (!list) {
		errno = ENOMEM;
		return NULL;
	}
	for (unsigned int i = 0; i < device_count; i++)
		list[i] = &devices[i];
	if (count)
		*count = (int)device_count;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	return provider_open(device);
}

int ibv_close_device(struct ibv_context *context)
{
	provider_close(context);
	return 0;
}

int adapter_regions_max(void)
{
	uint64_t regions = adapter_setting(regions);

	return regions && regions < 1 << 24 ? (int)regions : 1 << 24;
}

/* ---- protection domains ---- */

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = provider_alloc_pd(context);

	if (pd)
		pd->context = context;
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	return provider_free_pd(pd);
}

/* ---- forks: counted only; kernels since 5.12 copy pinned pages at a fork ---- */

int ibv_fork_init(void)
{
	__atomic_store_n(&fork_initialized, true, __ATOMIC_RELAXED);
	return 0;
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return __atomic_load_n(&fork_initialized, __ATOMIC_RELAXED) ? IBV_FORK_ENABLED
								    : IBV_FORK_DISABLED;
}

int ibv_dontfork_range(void *base, size_t size)
{
	(void)base;
	(void)size;
	if (ibv_is_fork_initialized() == IBV_FORK_ENABLED)
		adapter_count(dontfork);
	return 0;
}

int ibv_dofork_range(void *base, size_t size)
{
	(void)base;
	(void)size;
	if (ibv_is_fork_initialized() == IBV_FORK_ENABLED)
		adapter_remove(dontfork, 1);
	return 0;
}

/* ---- registrations ---- */

static struct ibv_mr *adapter_library_fill(struct ibv_mr *mr, struct ibv_pd *pd, void *address,
					   size_t length)
{
	mr->context = pd->context;
	mr->pd = pd;
	mr->addr = address;
	mr->length = length;
	return mr;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t length, uint64_t iova,
				unsigned int access)
{
	bool protect = !(access & IBV_ACCESS_ON_DEMAND);
	struct ibv_mr *mr;

	if (protect && ibv_dontfork_range(address, length))
		return NULL;
	mr = provider_reg_mr(pd, address, length, iova, (int)access);
	if (mr)
		return adapter_library_fill(mr, pd, address, length);
	if (protect)
		ibv_dofork_range(address, length);
	return NULL;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, address, length, (uintptr_t)address, (unsigned int)access);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *address, size_t length, uint64_t iova,
			       int access)
{
	return ibv_reg_mr_iova2(pd, address, length, iova, (unsigned int)access);
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access)
{
	struct ibv_mr *mr = provider_reg_dmabuf_mr(pd, offset, length, iova, fd, access);

	return mr ? adapter_library_fill(mr, pd, (void *)(uintptr_t)offset, length) : NULL;
}

struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attributes)
{
	uint64_t mask = attributes->comp_mask;
	bool by_fd = mask & IBV_REG_MR_MASK_FD,
	     protect = !by_fd && !(attributes->access & IBV_ACCESS_ON_DEMAND);
	void *address = by_fd ? (void *)(uintptr_t)attributes->fd_offset : attributes->addr;
	struct ibv_mr *mr;

	if (mask >= IBV_REG_MR_MASK_DMAH << 1) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	/* Require either an address or a dma-buf; a dma-buf also requires an offset and an iova. */
	if (by_fd ? (mask & IBV_REG_MR_MASK_ADDR) || !(mask & IBV_REG_MR_MASK_FD_OFFSET) ||
			    !(mask & IBV_REG_MR_MASK_IOVA)
		  : !(mask & IBV_REG_MR_MASK_ADDR) || (mask & IBV_REG_MR_MASK_FD_OFFSET)) {
		errno = EINVAL;
		return NULL;
	}
	if (protect && ibv_dontfork_range(address, attributes->length))
		return NULL;
	mr = provider_reg_mr_ex(pd, attributes);
	if (mr)
		return adapter_library_fill(mr, pd, address, attributes->length);
	if (protect)
		ibv_dofork_range(address, attributes->length);
	return NULL;
}

int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *address, size_t length,
		 int access)
{
	struct verbs_mr *vmr = (struct verbs_mr *)mr;
	bool moves = flags & IBV_REREG_MR_CHANGE_TRANSLATION;
	void *from = mr->addr;
	size_t size = mr->length;

	if (vmr->mr_type != IBV_MR_TYPE_MR || flags & ~IBV_REREG_MR_FLAGS_SUPPORTED ||
	    (moves && (!length || !address))) {
		errno = EINVAL;
		return IBV_REREG_MR_ERR_INPUT;
	}
	if (moves)
		ibv_dontfork_range(address, length);
	errno = provider_rereg_mr(vmr, flags, pd, address, length, access);
	if (errno) {
		if (moves)
			ibv_dofork_range(address, length);
		return IBV_REREG_MR_ERR_CMD;
	}
	if (flags & IBV_REREG_MR_CHANGE_PD)
		mr->pd = pd;
	if (moves) {
		ibv_dofork_range(from, size);
		mr->addr = address;
		mr->length = length;
	}
	return 0;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	const struct verbs_mr *vmr = (const struct verbs_mr *)mr;
	bool protected = vmr->mr_type == IBV_MR_TYPE_MR && !(vmr->access & IBV_ACCESS_ON_DEMAND);
	void *address = mr->addr;
	size_t length = mr->length;
	int error = provider_dereg_mr((struct verbs_mr *)mr);

	if (!error && protected)
		ibv_dofork_range(address, length);
	return error;
}

struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	return provider_import_mr(pd, handle);
}

void ibv_unimport_mr(struct ibv_mr *mr)
{
	provider_unimport_mr(mr);
}
