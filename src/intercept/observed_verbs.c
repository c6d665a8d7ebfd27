/* SPDX-License-Identifier: BSD-3-Clause */
/* observed_verbs.c -- registrations while they are only observed (PEERPIN_OBSERVE)
 *
 * Each function forwards its call once, with its own arguments, and leaves the errno of the real
 * call. A registration inside another one is libibverbs' own, and not counted.
 */
#include "intercept/observed_verbs.h"

#include <errno.h>

#include "base/system.h"
#include "intercept/entry_points.h"
#include "intercept/verbs.h"
#include "memory/driver.h"
#include "observe/observe.h"

static __thread unsigned int observed_depth __attribute__((tls_model("initial-exec")));

/* 0: the call is not counted. */
static uint64_t observed_begin(void)
{
	return observed_depth++ ? 0 : system_clock();
}

/* A context may synchronise the copies of all its memory. Its flags are read once for each
 * allocation; without a current context the answer is unknown, and no finding. */
static void observed_check_sync(uint64_t address)
{
	const struct driver_calls *driver = driver_calls();
	unsigned int flags;

	if (!driver->cuCtxGetFlags || driver->cuCtxGetFlags(&flags) != CUDA_SUCCESS ||
	    flags & CU_CTX_SYNC_MEMOPS)
		observe_synchronized(address);
}

static int observed_end(const struct observed_registration *request, int result, uint64_t begun)
{
	int saved_errno = errno;
	uint64_t unsynchronized;

	observed_depth--;
	if (begun) {
		unsynchronized = observe_registered(request, !result, system_clock() - begun);
		if (unsynchronized)
			observed_check_sync(unsynchronized);
	}
	errno = saved_errno;
	return result;
}

int observed_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t hca_va, int access,
		    struct verbs_mr *vmr, struct ibv_reg_mr *cmd, size_t cmd_size,
		    struct ib_uverbs_reg_mr_resp *resp, size_t resp_size)
{
	const struct observed_registration request = { .mr = vmr,
						       .pd = pd,
						       .device = pd->context,
						       .address = (uint64_t)addr,
						       .length = length,
						       .iova = hca_va,
						       .access = access };
	uint64_t begun = observed_begin();

	return observed_end(&request,
			    next_verbs(ibv_cmd_reg_mr)(pd, addr, length, hca_va, access, vmr, cmd,
						       cmd_size, resp, resp_size),
			    begun);
}

int observed_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
			   int access, struct verbs_mr *vmr, struct ibv_command_buffer *driver)
{
	const struct observed_registration request = { .mr = vmr,
						       .pd = pd,
						       .device = pd->context,
						       .address = offset,
						       .length = length,
						       .iova = iova,
						       .access = access,
						       .fd = fd,
						       .form = OBSERVED_DMA_BUF };
	uint64_t begun = observed_begin();

	return observed_end(&request,
			    next_verbs(ibv_cmd_reg_dmabuf_mr)(pd, offset, length, iova, fd, access,
							      vmr, driver),
			    begun);
}

int observed_reg_mr_ex(struct ibv_pd *pd, struct verbs_mr *vmr, struct ibv_mr_init_attr *attributes)
{
	bool dma_buf = attributes->comp_mask & IBV_REG_MR_MASK_FD;
	const struct observed_registration request = {
		.mr = vmr,
		.pd = pd,
		.device = pd->context,
		.address = dma_buf ? attributes->fd_offset : (uint64_t)attributes->addr,
		.length = attributes->length,
		.iova = attributes->comp_mask & IBV_REG_MR_MASK_IOVA ? attributes->iova
								     : (uint64_t)attributes->addr,
		.access = attributes->access,
		.fd = dma_buf ? attributes->fd : -1,
		.form = dma_buf ? OBSERVED_DMA_BUF : OBSERVED_ADDRESS,
	};
	uint64_t begun = observed_begin();

	return observed_end(&request, next_verbs(ibv_cmd_reg_mr_ex)(pd, vmr, attributes), begun);
}

int observed_rereg_mr(struct verbs_mr *vmr, uint32_t flags, void *addr, size_t length,
		      uint64_t hca_va, int access, struct ibv_pd *pd, struct ibv_rereg_mr *cmd,
		      size_t cmd_size, struct ib_uverbs_rereg_mr_resp *resp, size_t resp_size)
{
	struct ibv_mr *mr = &vmr->ibv_mr;
	bool moves = flags & IBV_REREG_MR_CHANGE_TRANSLATION;
	const struct observed_registration request = {
		.mr = vmr,
		.pd = flags & IBV_REREG_MR_CHANGE_PD ? pd : mr->pd,
		.device = mr->context,
		.address = (uint64_t)(moves ? addr : mr->addr),
		.length = moves ? length : mr->length,
		.access = flags & IBV_REREG_MR_CHANGE_ACCESS ? access : vmr->access,
	};
	uint64_t begun = observed_begin();
	int result = next_verbs(ibv_cmd_rereg_mr)(vmr, flags, addr, length, hca_va, access, pd, cmd,
						  cmd_size, resp, resp_size);
	int saved_errno = errno;

	observed_depth--;
	if (begun && !result)
		observe_changed(&request, system_clock() - begun);
	errno = saved_errno;
	return result;
}

int observed_dereg_mr(struct verbs_mr *vmr)
{
	uint64_t begun = system_clock();
	int result = next_verbs(ibv_cmd_dereg_mr)(vmr), saved_errno = errno;

	if (!result)
		observe_deregistered(vmr, system_clock() - begun);
	errno = saved_errno;
	return result;
}

int observed_alloc_pd(struct ibv_context *context, struct ibv_pd *pd, struct ibv_alloc_pd *cmd,
		      size_t cmd_size, struct ib_uverbs_alloc_pd_resp *resp, size_t resp_size)
{
	int result = next_verbs(ibv_cmd_alloc_pd)(context, pd, cmd, cmd_size, resp, resp_size);
	int saved_errno = errno;
	const struct verbs_calls *verbs = verbs_calls();
	const char *name =
		verbs->ibv_get_device_name ? verbs->ibv_get_device_name(context->device) : NULL;

	/* The name is a member of the device's struct. */
	if (!result)
		observe_pd_allocated(pd, name ? name : "", verbs_client_caller());
	errno = saved_errno;
	return result;
}

void observed_device_closing(const struct verbs_context *context)
{
	int saved_errno = errno;

	observe_device_closing(context, VERBS_CONTEXT_END);
	errno = saved_errno;
}
