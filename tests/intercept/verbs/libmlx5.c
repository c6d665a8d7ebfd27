/* SPDX-License-Identifier: BSD-3-Clause */
/* libmlx5.c -- the function of libmlx5 with its own attributes for a dma-buf
 * (_mlx5dv_reg_dmabuf_mr) */
#include <stdlib.h>

#include "libibverbs.h"

struct ibv_mr *mlx5dv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
				    uint64_t iova, int fd, int access, int mlx5_access)
{
	struct verbs_mr *vmr = calloc(2, sizeof(*vmr));
	int attributes = mlx5_access;

	if (!ibv_cmd_reg_dmabuf_mr(pd, offset, length, iova, fd, access, vmr,
				   (struct ibv_command_buffer *)&attributes))
		return &vmr->ibv_mr;
	free(vmr);
	return NULL;
}
