/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_forwarded.c -- registrations in forms that are passed through: each is counted, so that the summary does
 * not say "not used" of a program that registers GPU memory in them */
#include "intercept/verbs.h"

#include <errno.h>

#include "base/process.h"
#include "intercept/entry_points.h"

/* Of [address, address + length): ours to count if it is GPU memory. */
static void count_passed(uint64_t address, uint64_t length)
{
	struct registration_request request = { .address = address, .length = length };

	if (!verbs_stand_aside() && registration_concerns(&request))
		verbs_count_forwarded(form);
}

static void count_dmabuf(int fd)
{
	struct found_export found;

	if (!verbs_stand_aside() && memory_find_export(fd, &found))
		verbs_count_forwarded(form);
}

int ibv_cmd_query_mr(struct ibv_pd *pd, struct verbs_mr *vmr, uint32_t handle)
{
	int result = next_verbs(ibv_cmd_query_mr)(pd, vmr, handle);

	if (process_is_passive())
		return result;
	statistics_count(imports);
	/* The struct is the import's now; no deregistration of it is ours, unless it is of a region of ours. */
	if (!result) {
		verbs_is_own(vmr);
		registration_imported(vmr, pd->context, handle);
	}
	return result;
}

struct mlx5dv_devx_umem *mlx5dv_devx_umem_reg(struct ibv_context *context, void *address, size_t size,
					      uint32_t access)
{
	__typeof__(mlx5dv_devx_umem_reg) *next = next_verbs(mlx5dv_devx_umem_reg);
	struct verbs_evict room = { .context = context, .bytes = size };
	struct mlx5dv_devx_umem *made;

	if (!next) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	count_passed((uint64_t)address, size);
	do
		made = next(context, address, size, access);
	while (!made && verbs_evicted(&room, errno));
	return made;
}

struct mlx5dv_devx_umem *mlx5dv_devx_umem_reg_ex(struct ibv_context *context, struct mlx5dv_devx_umem_in *in)
{
	__typeof__(mlx5dv_devx_umem_reg_ex) *next = next_verbs(mlx5dv_devx_umem_reg_ex);
	struct verbs_evict room = { .context = context, .bytes = in->size };
	struct mlx5dv_devx_umem *made;

	if (!next) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (in->comp_mask & MLX5DV_UMEM_MASK_DMABUF)
		count_dmabuf(in->dmabuf_fd);
	else
		count_passed((uint64_t)in->addr, in->size);
	do
		made = next(context, in);
	while (!made && verbs_evicted(&room, errno));
	return made;
}
