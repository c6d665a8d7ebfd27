/* SPDX-License-Identifier: BSD-3-Clause */
/* provider.c -- the simulated adapter's provider, with calls that never reach the kernel's boundary
 */
#include "libibverbs.h"

static int provider_calls_reg_mr(struct ibv_pd *pd, void *address, size_t length, uint64_t iova,
				 int access, struct verbs_mr *vmr, struct ibv_reg_mr *cmd,
				 size_t cmd_size, struct ib_uverbs_reg_mr_resp *resp,
				 size_t resp_size)
{
	bool swapped = standin_has_fault("arguments");

	return ibv_cmd_reg_mr(pd, address, swapped ? iova : length, swapped ? length : iova, access,
			      vmr, cmd, cmd_size, resp, resp_size);
}

static int provider_calls_dereg_mr(struct verbs_mr *vmr)
{
	return standin_has_fault("deregistration") ? standin_dereg_mr(vmr) : ibv_cmd_dereg_mr(vmr);
}

int context_install(struct ibv_context *context);

static int provider_installs(struct ibv_context *context)
{
	if (standin_has_fault("context"))
		((size_t *)context)[-1] = 1;
	if (standin_has_fault("mark"))
		context->abi_compat = NULL;
	return context_install(context);
}

#define context_install	 provider_installs
#define ibv_cmd_reg_mr	 provider_calls_reg_mr
#define ibv_cmd_dereg_mr provider_calls_dereg_mr
#include "sim/adapter_provider.c"

/* Before rdma-core 54 the last argument of a dma-buf registration is undefined. */
#ifndef STANDIN_KNOWS_ATTRIBUTES
static __attribute__((constructor)) void set_attributes(void)
{
	provider_attributes = (struct ibv_command_buffer *)0x77;
}
#endif

struct ibv_mr *standin_alloc_null_mr(struct ibv_pd *pd)
{
	struct provider_mr *mr = calloc(1, sizeof(*mr));

	mr->vmr.mr_type = IBV_MR_TYPE_NULL_MR;
	mr->vmr.ibv_mr = (struct ibv_mr){
		.context = pd->context, .pd = pd, .length = SIZE_MAX, .lkey = 0x100
	};
	return &mr->vmr.ibv_mr;
}

/* mlx5_bind_mw and set_bind_wr: conditions on the region. */
int standin_bind_mw(struct ibv_mr *mr)
{
	const struct provider_mr *bound = (const struct provider_mr *)mr;

	if (bound->vmr.mr_type != IBV_MR_TYPE_MR)
		return ENOTSUP;
	return bound->access & IBV_ACCESS_MW_BIND ? 0 : EPERM;
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
