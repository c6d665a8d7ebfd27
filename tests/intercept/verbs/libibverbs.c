/* SPDX-License-Identifier: BSD-3-Clause */
/* libibverbs.c -- commands and provider of the simulated adapter, as of other releases of
 * libibverbs
 *
 * STANDIN_FAULT names a difference from all real releases:
 * moved: a field of a region is not where it was in its struct
 * key: a key is not the kernel's
 * errors: error codes are negative
 * arguments: the arguments of a registration are in another order
 * deregistration: the provider deregisters by another function
 * context, mark: the size, or the mark, of a context is not where it was
 */
#include <stdlib.h>
#include <string.h>

#include "sim/adapter.h"

static bool has_fault(const char *name)
{
	const char *fault = getenv("STANDIN_FAULT");

	return fault && !strcmp(fault, name);
}

/* ---- commands ---- */

static __typeof__(ibv_cmd_reg_mr) own_reg_mr;
static __typeof__(ibv_cmd_reg_dmabuf_mr) own_reg_dmabuf_mr;
static __typeof__(ibv_cmd_reg_mr_ex) own_reg_mr_ex;
static __typeof__(ibv_cmd_rereg_mr) own_rereg_mr;
static __typeof__(ibv_cmd_dereg_mr) own_dereg_mr;
static __typeof__(verbs_uninit_context) own_uninit_context;
#define ibv_cmd_reg_mr	      own_reg_mr
#define ibv_cmd_reg_dmabuf_mr own_reg_dmabuf_mr
#define ibv_cmd_reg_mr_ex     own_reg_mr_ex
#define ibv_cmd_rereg_mr      own_rereg_mr
#define ibv_cmd_dereg_mr      own_dereg_mr
#define verbs_uninit_context  own_uninit_context
#include "sim/adapter_commands.c"
#undef ibv_cmd_reg_mr
#undef ibv_cmd_reg_dmabuf_mr
#undef ibv_cmd_reg_mr_ex
#undef ibv_cmd_rereg_mr
#undef ibv_cmd_dereg_mr
#undef verbs_uninit_context

static int finish(int error, struct verbs_mr *vmr)
{
	if (error)
		return has_fault("errors") ? -error : error;
	if (has_fault("moved"))
		vmr->access = ~vmr->access;
	if (has_fault("key"))
		vmr->ibv_mr.rkey ^= 0xffff;
	return 0;
}

int ibv_cmd_reg_mr(struct ibv_pd *pd, void *address, size_t length, uint64_t hca_va, int access,
		   struct verbs_mr *vmr, struct ibv_reg_mr *cmd, size_t cmd_size,
		   struct ib_uverbs_reg_mr_resp *resp, size_t resp_size)
{
	bool swapped = has_fault("arguments");

	return finish(own_reg_mr(pd, address, swapped ? hca_va : length, swapped ? length : hca_va,
				 access, vmr, cmd, cmd_size, resp, resp_size),
		      vmr);
}

int ibv_cmd_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
			  int access, struct verbs_mr *vmr, struct ibv_command_buffer *driver)
{
	return finish(own_reg_dmabuf_mr(pd, offset, length, iova, fd, access, vmr, driver), vmr);
}

int ibv_cmd_reg_mr_ex(struct ibv_pd *pd, struct verbs_mr *vmr, struct ibv_mr_init_attr *wanted)
{
	return finish(own_reg_mr_ex(pd, vmr, wanted), vmr);
}

int ibv_cmd_rereg_mr(struct verbs_mr *vmr, uint32_t flags, void *address, size_t length,
		     uint64_t hca_va, int access, struct ibv_pd *pd, struct ibv_rereg_mr *cmd,
		     size_t cmd_size, struct ib_uverbs_rereg_mr_resp *resp, size_t resp_size)
{
	return finish(own_rereg_mr(vmr, flags, address, length, hca_va, access, pd, cmd, cmd_size,
				   resp, resp_size),
		      vmr);
}

int ibv_cmd_dereg_mr(struct verbs_mr *vmr)
{
	return own_dereg_mr(vmr);
}

#ifndef PROVIDER_FRONT_MORE
#define PROVIDER_FRONT_MORE 0
#endif

void verbs_uninit_context(struct verbs_context *context)
{
	own_uninit_context((struct verbs_context *)((char *)context + PROVIDER_FRONT_MORE));
}

/* ---- provider ---- */

static int provider_calls_reg_mr(struct ibv_pd *pd, void *address, size_t length, uint64_t iova,
				 int access, struct verbs_mr *vmr, struct ibv_reg_mr *cmd,
				 size_t cmd_size, struct ib_uverbs_reg_mr_resp *resp,
				 size_t resp_size)
{
	bool swapped = has_fault("arguments");

	return ibv_cmd_reg_mr(pd, address, swapped ? iova : length, swapped ? length : iova, access,
			      vmr, cmd, cmd_size, resp, resp_size);
}

static int provider_calls_dereg_mr(struct verbs_mr *vmr)
{
	return has_fault("deregistration") ? own_dereg_mr(vmr) : ibv_cmd_dereg_mr(vmr);
}

static int provider_installs(struct ibv_context *context)
{
	if (has_fault("context"))
		((size_t *)context)[-1] = 1;
	if (has_fault("mark"))
		context->abi_compat = NULL;
	return context_install(context);
}

#define context_install	 provider_installs
#define ibv_cmd_reg_mr	 provider_calls_reg_mr
#define ibv_cmd_dereg_mr provider_calls_dereg_mr
#include "sim/adapter_provider.c"

/* Before rdma-core 54 the last argument of a dma-buf registration is undefined. */
#ifndef KNOWS_ATTRIBUTES
static __attribute__((constructor)) void set_attributes(void)
{
	provider_attributes = (struct ibv_command_buffer *)0x77;
}
#endif
