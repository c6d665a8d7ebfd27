/* SPDX-License-Identifier: BSD-3-Clause */
/* libibverbs.c -- a libibverbs with its provider in one, above a kernel that only keeps lists
 * (kernel.c)
 *
 * Built with version nodes and layouts that the preload does and does not know. As the real one
 * does, the provider allocates the struct, keeps something of its own behind it, and calls back
 * through the dynamic linker; the public functions keep the ranges from children, look at the
 * struct's type and rights, and set its address and length (libibverbs/verbs.c, providers/mlx5).
 */
#include "libibverbs.h"

#include <errno.h>
#include <stdlib.h>

/* struct mlx5_mr */
struct provider_mr {
	struct verbs_mr vmr;
	int alloc_flags;
};

#ifdef STANDIN_KNOWS_ATTRIBUTES
struct ibv_command_buffer *standin_attributes;
#else
struct ibv_command_buffer *standin_attributes = (struct ibv_command_buffer *)0x77;
#endif

int ibv_dontfork_range(void *base, size_t size)
{
	(void)base;
	(void)size;
	standin_counts.dontfork++;
	return 0;
}

int ibv_dofork_range(void *base, size_t size)
{
	(void)base;
	(void)size;
	standin_counts.dontfork--;
	return 0;
}

/* ---- devices and protection domains ---- */

struct ibv_context *standin_open_device(void)
{
	char *context = calloc(1, STANDIN_FRONT + IBV_CONTEXT_SIZE);

	*(size_t *)(context + STANDIN_FRONT - sizeof(size_t)) = STANDIN_FRONT + IBV_CONTEXT_SIZE;
	*(uintptr_t *)(context + STANDIN_FRONT + IBV_CONTEXT_SIZE - sizeof(uintptr_t)) =
		UINTPTR_MAX;
	return (struct ibv_context *)(context + STANDIN_FRONT);
}

struct ibv_device **ibv_get_device_list(int *count)
{
	struct ibv_device **list = calloc(2, sizeof(*list));

	list[0] = (struct ibv_device *)0x2000;
	if (count)
		*count = 1;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	(void)device;
	return standin_open_device();
}

int ibv_close_device(struct ibv_context *context)
{
	struct verbs_context *all = (struct verbs_context *)((char *)context - STANDIN_FRONT);

	verbs_uninit_context(all);
	free(all);
	return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = calloc(1, sizeof(*pd));

	if (!ibv_cmd_alloc_pd(context, pd, NULL, 0, NULL, 0))
		return pd;
	free(pd);
	return NULL;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	int result = ibv_cmd_dealloc_pd(pd);

	if (!result)
		free(pd);
	return result;
}

/* ---- registrations ---- */

static struct ibv_mr *finish(struct ibv_mr *mr, struct ibv_pd *pd, void *addr, size_t length)
{
	if (mr) {
		mr->context = pd->context;
		mr->pd = pd;
		mr->addr = addr;
		mr->length = length;
	}
	return mr;
}

/* What the provider keeps, if the kernel has given it a region. */
static struct ibv_mr *keep(struct provider_mr *mr, int result, int access)
{
	if (result) {
		free(mr);
		return NULL;
	}
	mr->alloc_flags = access;
	return &mr->vmr.ibv_mr;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access)
{
	struct provider_mr *mr = calloc(1, sizeof(*mr));
	bool on_demand = access & IBV_ACCESS_ON_DEMAND;
	struct ib_uverbs_reg_mr_resp resp;
	struct ibv_reg_mr cmd;
	struct ibv_mr *made;

	if (!on_demand)
		ibv_dontfork_range(addr, length);
	made = keep(mr,
		    ibv_cmd_reg_mr(pd, addr, length, iova, (int)access, &mr->vmr, &cmd, sizeof(cmd),
				   &resp, sizeof(resp)),
		    (int)access);
	if (!made && !on_demand)
		ibv_dofork_range(addr, length);
	return finish(made, pd, addr, length);
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, (uint64_t)addr, (unsigned int)access);
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access)
{
	struct provider_mr *mr = calloc(1, sizeof(*mr));
	int result = ibv_cmd_reg_dmabuf_mr(pd, offset, length, iova, fd, access, &mr->vmr,
					   standin_attributes);

	return finish(keep(mr, result, access), pd, (void *)offset, length);
}

struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attributes)
{
	bool by_file = attributes->comp_mask & IBV_REG_MR_MASK_FD;
	struct provider_mr *mr = calloc(1, sizeof(*mr));
	struct ibv_mr *made;

	if (!by_file)
		ibv_dontfork_range(attributes->addr, attributes->length);
	made = keep(mr, ibv_cmd_reg_mr_ex(pd, &mr->vmr, attributes), attributes->access);
	if (!made && !by_file)
		ibv_dofork_range(attributes->addr, attributes->length);
	return finish(made, pd, by_file ? (void *)attributes->fd_offset : attributes->addr,
		      attributes->length);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	struct verbs_mr *vmr = (struct verbs_mr *)mr;
	bool forked = vmr->mr_type == IBV_MR_TYPE_MR && !(vmr->access & IBV_ACCESS_ON_DEMAND);
	void *addr = mr->addr;
	size_t length = mr->length;

	if (vmr->mr_type != IBV_MR_TYPE_NULL_MR) {
		int result = ibv_cmd_dereg_mr(vmr);

		if (result)
			return result;
	}
	free(mr);
	if (forked)
		ibv_dofork_range(addr, length);
	return 0;
}

int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		 int access)
{
	struct verbs_mr *vmr = (struct verbs_mr *)mr;
	bool moved = flags & IBV_REREG_MR_CHANGE_TRANSLATION;
	struct ib_uverbs_rereg_mr_resp resp;

	if (vmr->mr_type != IBV_MR_TYPE_MR || flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) {
		errno = EINVAL;
		return -1;
	}
	if (moved)
		ibv_dontfork_range(addr, length);
	if (ibv_cmd_rereg_mr(vmr, (uint32_t)flags, addr, length, (uint64_t)addr, access, pd, NULL,
			     0, &resp, sizeof(resp))) {
		if (moved)
			ibv_dofork_range(addr, length);
		return -4;
	}
	if (flags & IBV_REREG_MR_CHANGE_PD)
		mr->pd = pd;
	if (moved) {
		ibv_dofork_range(mr->addr, mr->length);
		mr->addr = addr;
		mr->length = length;
	}
	return 0;
}

struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	struct provider_mr *mr = calloc(1, sizeof(*mr));

	return keep(mr, ibv_cmd_query_mr(pd, &mr->vmr, handle), 0);
}

void ibv_unimport_mr(struct ibv_mr *mr)
{
	free(mr);
}

/* ---- what never comes to the boundary ---- */

struct ibv_mr *standin_alloc_null_mr(struct ibv_pd *pd)
{
	struct provider_mr *mr = calloc(1, sizeof(*mr));

	mr->vmr.mr_type = IBV_MR_TYPE_NULL_MR;
	mr->vmr.ibv_mr.lkey = 0x100;
	return finish(&mr->vmr.ibv_mr, pd, NULL, SIZE_MAX);
}

/* mlx5_bind_mw, and what it asks of the region when it builds the request (set_bind_wr). */
int standin_bind_mw(struct ibv_mr *mr)
{
	if (((struct verbs_mr *)mr)->mr_type != IBV_MR_TYPE_MR)
		return ENOTSUP;
	return ((struct provider_mr *)mr)->alloc_flags & IBV_ACCESS_MW_BIND ? 0 : EPERM;
}

struct mlx5dv_devx_umem *mlx5dv_devx_umem_reg(struct ibv_context *context, void *address,
					      size_t size, uint32_t access)
{
	(void)context;
	(void)size;
	(void)access;
	return (struct mlx5dv_devx_umem *)((char *)address + 1);
}

struct mlx5dv_devx_umem *mlx5dv_devx_umem_reg_ex(struct ibv_context *context,
						 struct mlx5dv_devx_umem_in *in)
{
	(void)context;
	return (struct mlx5dv_devx_umem *)((char *)in->addr + 1);
}
