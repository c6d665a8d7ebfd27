/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_forwarded.c -- registrations in unsupported forms: forwarded and counted
 *
 * Without the counts the summary would report "not used" for a program that registers GPU memory
 * only in these forms.
 */
#include "intercept/verbs.h"

#include <errno.h>

#include "base/process.h"
#include "intercept/entry_points.h"

/* Count [address, address + length) as forwarded if it contains GPU memory. */
static void verbs_forwarded_count_range(uint64_t address, uint64_t length)
{
	struct registration_request request = { .address = address, .length = length };

	if (!verbs_is_internal() && registration_concerns(&request))
		verbs_count_forwarded(form);
}

static void verbs_forwarded_count_dmabuf(int fd)
{
	struct found_export found;

	if (!verbs_is_internal() && memory_find_export(fd, &found))
		verbs_count_forwarded(form);
}

int ibv_cmd_query_mr(struct ibv_pd *pd, struct verbs_mr *vmr, uint32_t handle)
{
	int result = next_verbs(ibv_cmd_query_mr)(pd, vmr, handle);

	if (process_is_passive())
		return result;
	/* The struct now belongs to the import: its deregistration goes to the kernel, unless the
	 * imported region is one of peerpin's. */
	if (!result) {
		verbs_drop_stale(vmr);
		registration_imported(vmr, pd->context, handle);
	}
	return result;
}

struct mlx5dv_devx_umem *mlx5dv_devx_umem_reg(struct ibv_context *context, void *address,
					      size_t size, uint32_t access)
{
	__typeof__(mlx5dv_devx_umem_reg) *next = next_verbs(mlx5dv_devx_umem_reg);
	struct verbs_evict eviction = { .context = context, .bytes = size };
	struct mlx5dv_devx_umem *made;

	if (!next) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	verbs_forwarded_count_range((uint64_t)address, size);
	do
		made = next(context, address, size, access);
	while (!made && verbs_evicted(&eviction, errno));
	return made;
}

struct mlx5dv_devx_umem *mlx5dv_devx_umem_reg_ex(struct ibv_context *context,
						 struct mlx5dv_devx_umem_in *in)
{
	__typeof__(mlx5dv_devx_umem_reg_ex) *next = next_verbs(mlx5dv_devx_umem_reg_ex);
	struct verbs_evict eviction = { .context = context, .bytes = in->size };
	struct mlx5dv_devx_umem *made;

	if (!next) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (in->comp_mask & MLX5DV_UMEM_MASK_DMABUF)
		verbs_forwarded_count_dmabuf(in->dmabuf_fd);
	else
		verbs_forwarded_count_range((uint64_t)in->addr, in->size);
	do
		made = next(context, in);
	while (!made && verbs_evicted(&eviction, errno));
	return made;
}
