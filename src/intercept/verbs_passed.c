/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_passed.c -- registrations in forms that are passed through: each is counted, so that the summary does
 * not say "not used" of a program that registers GPU memory in them */
#include <errno.h>

#include "base/process.h"
#include "base/statistics.h"
#include "intercept/entry_points.h"
#include "registration/registration.h"

/* Of [address, address + length): ours to count if it is GPU memory. */
static void count_passed(uint64_t address, uint64_t length)
{
	struct registration_request request = { .address = address, .length = length };

	if (process_is_passive() || registration_is_own_call() || !registration_concerns(&request))
		return;
	statistics_tally(TALLY_requests);
	statistics_count(not_served);
	statistics_count(not_served_form);
}

static void count_dmabuf(int fd)
{
	uint64_t address, size;

	if (process_is_passive() || registration_is_own_call() || !memory_find_export(fd, &address, &size))
		return;
	statistics_tally(TALLY_requests);
	statistics_count(not_served);
	statistics_count(not_served_form);
}

/* The last parameter came with rdma-core 54. What is read here from an older caller's stack means nothing to an
 * older library, and is passed on to it alone. */
int ibv_cmd_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
			  int access, struct verbs_mr *vmr, struct ibv_command_buffer *driver)
{
	count_dmabuf(fd);
	return next_verbs(ibv_cmd_reg_dmabuf_mr)(pd, offset, length, iova, fd, access, vmr, driver);
}

int ibv_cmd_reg_mr_ex(struct ibv_pd *pd, struct verbs_mr *vmr, struct ibv_mr_init_attr *attributes)
{
	if (attributes->comp_mask & IBV_REG_MR_MASK_FD)
		count_dmabuf(attributes->fd);
	else
		count_passed((uint64_t)attributes->addr, attributes->length);
	return next_verbs(ibv_cmd_reg_mr_ex)(pd, vmr, attributes);
}

int ibv_cmd_query_mr(struct ibv_pd *pd, struct verbs_mr *vmr, uint32_t handle)
{
	if (!process_is_passive())
		statistics_count(imports);
	return next_verbs(ibv_cmd_query_mr)(pd, vmr, handle);
}

struct mlx5dv_devx_umem *mlx5dv_devx_umem_reg(struct ibv_context *context, void *address, size_t size,
					      uint32_t access)
{
	__typeof__(mlx5dv_devx_umem_reg) *next = next_verbs(mlx5dv_devx_umem_reg);

	if (!next) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	count_passed((uint64_t)address, size);
	return next(context, address, size, access);
}

struct mlx5dv_devx_umem *mlx5dv_devx_umem_reg_ex(struct ibv_context *context, struct mlx5dv_devx_umem_in *in)
{
	__typeof__(mlx5dv_devx_umem_reg_ex) *next = next_verbs(mlx5dv_devx_umem_reg_ex);

	if (!next) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (in->comp_mask & MLX5DV_UMEM_MASK_DMABUF)
		count_dmabuf(in->dmabuf_fd);
	else
		count_passed((uint64_t)in->addr, in->size);
	return next(context, in);
}
