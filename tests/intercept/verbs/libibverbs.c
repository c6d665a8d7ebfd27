/* SPDX-License-Identifier: BSD-3-Clause */
/* libibverbs.c -- a libibverbs with its provider in one, and a kernel that only counts
 *
 * Built with version nodes and layouts that the preload does and does not know. As in the real one, the
 * provider allocates the struct and calls back through the dynamic linker.
 */
#include "libibverbs.h"

#include <stdlib.h>

static _Atomic uint32_t last_key;
static _Atomic unsigned int registered;
void (*standin_in_register)(void);
void (*standin_in_deregister)(void);

unsigned int standin_kernel_regions(void)
{
	return registered;
}

int ibv_cmd_alloc_pd(struct ibv_context *context, struct ibv_pd *pd, struct ibv_alloc_pd *cmd,
		     size_t cmd_size, struct ib_uverbs_alloc_pd_resp *resp, size_t resp_size)
{
	(void)cmd;
	(void)cmd_size;
	(void)resp;
	(void)resp_size;
	pd->context = context;
	pd->handle = 1;
	return 0;
}

int ibv_cmd_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t hca_va, int access,
		   struct verbs_mr *vmr, struct ibv_reg_mr *cmd, size_t cmd_size,
		   struct ib_uverbs_reg_mr_resp *resp, size_t resp_size)
{
	uint32_t key;

	(void)addr;
	(void)length;
	(void)hca_va;
	(void)cmd;
	(void)cmd_size;
	(void)resp_size;
	if (standin_in_register)
		standin_in_register();
	registered++;
	key = ++last_key;
	*resp = (struct ib_uverbs_reg_mr_resp){ .mr_handle = key, .lkey = key, .rkey = key };
	vmr->ibv_mr.context = pd->context;
	vmr->ibv_mr.handle = key;
#ifdef OTHER_LAYOUT
	vmr->ibv_mr.lkey = 0;
	vmr->ibv_mr.rkey = key ^ 0xffff;
#else
	vmr->ibv_mr.lkey = key;
	vmr->ibv_mr.rkey = key;
#endif
	vmr->mr_type = IBV_MR_TYPE_MR;
	vmr->access = access;
	return 0;
}

int ibv_cmd_dereg_mr(struct verbs_mr *vmr)
{
	(void)vmr;
	if (standin_in_deregister)
		standin_in_deregister();
	registered--;
	return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = calloc(1, sizeof(*pd));

	ibv_cmd_alloc_pd(context, pd, NULL, 0, NULL, 0);
	return pd;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct verbs_mr *vmr = calloc(1, sizeof(*vmr));
	struct ib_uverbs_reg_mr_resp resp;
	struct ibv_reg_mr cmd;

	if (ibv_cmd_reg_mr(pd, addr, length, (uint64_t)addr, access, vmr, &cmd, sizeof(cmd), &resp,
			   sizeof(resp)))
		abort();
	vmr->ibv_mr.pd = pd;
	vmr->ibv_mr.addr = addr;
	vmr->ibv_mr.length = length;
	return &vmr->ibv_mr;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	int result = ibv_cmd_dereg_mr((struct verbs_mr *)mr);

	free(mr);
	return result;
}

/* ---- other forms, which end in the kernel each by its own command ---- */

static int register_anything(struct verbs_mr *vmr)
{
	uint32_t key = ++last_key;

	registered++;
	vmr->ibv_mr.handle = vmr->ibv_mr.lkey = vmr->ibv_mr.rkey = key;
	return 0;
}

int ibv_cmd_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
			  int access, struct verbs_mr *vmr, struct ibv_command_buffer *driver)
{
	(void)pd;
	(void)offset;
	(void)length;
	(void)iova;
	(void)access;
	/* The last two came whole, beyond the six that registers hold. */
	return fd < 0 || driver != (struct ibv_command_buffer *)0x77 ? 9 : register_anything(vmr);
}

int ibv_cmd_reg_mr_ex(struct ibv_pd *pd, struct verbs_mr *vmr, struct ibv_mr_init_attr *attributes)
{
	(void)pd;
	(void)attributes;
	return register_anything(vmr);
}

int ibv_cmd_query_mr(struct ibv_pd *pd, struct verbs_mr *vmr, uint32_t handle)
{
	(void)pd;
	vmr->ibv_mr.handle = handle;
	return 0;
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
				 int access)
{
	struct verbs_mr *vmr = calloc(1, sizeof(*vmr));

	if (!ibv_cmd_reg_dmabuf_mr(pd, offset, length, iova, fd, access, vmr,
				   (struct ibv_command_buffer *)0x77))
		return &vmr->ibv_mr;
	free(vmr);
	return NULL;
}

struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attributes)
{
	struct verbs_mr *vmr = calloc(1, sizeof(*vmr));

	ibv_cmd_reg_mr_ex(pd, vmr, attributes);
	return &vmr->ibv_mr;
}

struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	struct verbs_mr *vmr = calloc(1, sizeof(*vmr));

	ibv_cmd_query_mr(pd, vmr, handle);
	return &vmr->ibv_mr;
}

/* libmlx5's, in the same library. */
struct mlx5dv_devx_umem *mlx5dv_devx_umem_reg(struct ibv_context *context, void *address, size_t size,
					      uint32_t access)
{
	(void)context;
	(void)size;
	(void)access;
	return (struct mlx5dv_devx_umem *)((char *)address + 1);
}

struct mlx5dv_devx_umem *mlx5dv_devx_umem_reg_ex(struct ibv_context *context, struct mlx5dv_devx_umem_in *in)
{
	(void)context;
	return (struct mlx5dv_devx_umem *)((char *)in->addr + 1);
}
