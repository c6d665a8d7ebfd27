/* SPDX-License-Identifier: BSD-3-Clause */
/* libibverbs.c -- a libibverbs with its provider in one, and a kernel that only counts
 *
 * Built with version nodes and layouts that the preload does and does not know. As in the real one, the
 * provider allocates the struct and calls back through the dynamic linker.
 */
#include "libibverbs.h"

#include <stdlib.h>

static uint32_t last_key;
static unsigned int registered;
void (*standin_in_register)(void);

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
	(void)addr;
	(void)length;
	(void)hca_va;
	(void)cmd;
	(void)cmd_size;
	(void)resp_size;
	if (standin_in_register)
		standin_in_register();
	registered++;
	last_key++;
	*resp = (struct ib_uverbs_reg_mr_resp){ .mr_handle = last_key, .lkey = last_key, .rkey = last_key };
	vmr->ibv_mr.context = pd->context;
	vmr->ibv_mr.handle = last_key;
#ifdef OTHER_LAYOUT
	vmr->ibv_mr.lkey = 0;
	vmr->ibv_mr.rkey = last_key ^ 0xffff;
#else
	vmr->ibv_mr.lkey = last_key;
	vmr->ibv_mr.rkey = last_key;
#endif
	vmr->mr_type = IBV_MR_TYPE_MR;
	vmr->access = access;
	return 0;
}

int ibv_cmd_dereg_mr(struct verbs_mr *vmr)
{
	(void)vmr;
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
