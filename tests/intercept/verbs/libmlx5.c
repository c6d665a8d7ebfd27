/* SPDX-License-Identifier: BSD-3-Clause */
/* libmlx5.c -- functions of libmlx5 for registrations of its own */
#include <dlfcn.h>
#include <stdlib.h>

#include "sim/adapter_verbs.h"

struct mlx5dv_devx_umem;
struct mlx5dv_devx_umem_in {
	void *addr;
};

struct ibv_mr *mlx5dv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
				    uint64_t iova, int fd, int access, int mlx5_access);
struct mlx5dv_devx_umem *mlx5dv_devx_umem_reg(struct ibv_context *context, void *address);
struct mlx5dv_devx_umem *mlx5dv_devx_umem_reg_ex(struct ibv_context *context,
						 struct mlx5dv_devx_umem_in *in);

/* With attributes of its own for a dma-buf (_mlx5dv_reg_dmabuf_mr). The node of
 * ibv_cmd_reg_dmabuf_mr is another in each libibverbs. */
struct ibv_mr *mlx5dv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
				    uint64_t iova, int fd, int access, int mlx5_access)
{
	__typeof__(ibv_cmd_reg_dmabuf_mr) *call =
		(__typeof__(call))dlsym(RTLD_DEFAULT, "ibv_cmd_reg_dmabuf_mr");
	struct verbs_mr *vmr = calloc(2, sizeof(*vmr));
	int attributes = mlx5_access;

	if (!call(pd, offset, length, iova, fd, access, vmr,
		  (struct ibv_command_buffer *)&attributes))
		return &vmr->ibv_mr;
	free(vmr);
	return NULL;
}

/* Memory without a key: address + 1. */
struct mlx5dv_devx_umem *mlx5dv_devx_umem_reg(struct ibv_context *context, void *address)
{
	(void)context;
	return (struct mlx5dv_devx_umem *)((char *)address + 1);
}

struct mlx5dv_devx_umem *mlx5dv_devx_umem_reg_ex(struct ibv_context *context,
						 struct mlx5dv_devx_umem_in *in)
{
	(void)context;
	return (struct mlx5dv_devx_umem *)((char *)in->addr + 1);
}
