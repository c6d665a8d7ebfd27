/* SPDX-License-Identifier: BSD-3-Clause */
/* adapter_provider.c -- the provider's library: its own structs, calls back to libibverbs
 *
 * Like libmlx5: one struct per registration and per protection domain, freed here after the
 * kernel's release. Structs are poisoned before free(): a later use is detected.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/adapter.h"

struct provider_mr {
	struct verbs_mr vmr;
	int access; /* beyond libibverbs's part, as mlx5_mr.alloc_flags */
};

struct provider_pd {
	struct ibv_pd pd;
	struct provider_pd *original; /* in a parent domain: the domain behind it */
	unsigned int parents;	      /* number of parent domains; atomic */
};

#define POISON 0x6b

/* Bytes by which a newer libibverbs has more before the public context. */
#ifndef PROVIDER_FRONT_MORE
#define PROVIDER_FRONT_MORE 0
#endif

/* Last argument of each dma-buf registration. */
struct ibv_command_buffer *provider_attributes;

static void provider_discard(void *memory, size_t size)
{
	memset(memory, POISON, size);
	__asm__ volatile("" ::"r"(memory) : "memory"); /* keeps the memset */
	free(memory);
}

/* ---- registrations ---- */

static struct ibv_mr *provider_finish(struct provider_mr *mr, int error, int access)
{
	mr->access = access;
	if (!error)
		return &mr->vmr.ibv_mr;
	provider_discard(mr, sizeof(*mr));
	errno = error;
	return NULL;
}

struct ibv_mr *provider_reg_mr(struct ibv_pd *pd, void *address, size_t length, uint64_t iova,
			       int access)
{
	struct provider_mr *mr = calloc(1, sizeof(*mr));
	struct ib_uverbs_reg_mr_resp resp;
	struct ibv_reg_mr cmd;

	if (!mr)
		return NULL;
	return provider_finish(mr,
			       ibv_cmd_reg_mr(pd, address, length, iova, access, &mr->vmr, &cmd,
					      sizeof(cmd), &resp, sizeof(resp)),
			       access);
}

struct ibv_mr *provider_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
				      uint64_t iova, int fd, int access)
{
	struct provider_mr *mr = calloc(1, sizeof(*mr));

	if (!mr)
		return NULL;
	return provider_finish(mr,
			       ibv_cmd_reg_dmabuf_mr(pd, offset, length, iova, fd, access, &mr->vmr,
						     provider_attributes),
			       access);
}

struct ibv_mr *provider_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attributes)
{
	struct provider_mr *mr = calloc(1, sizeof(*mr));

	if (!mr)
		return NULL;
	return provider_finish(mr, ibv_cmd_reg_mr_ex(pd, &mr->vmr, attributes), attributes->access);
}

int provider_rereg_mr(struct verbs_mr *vmr, int flags, struct ibv_pd *pd, void *address,
		      size_t length, int access)
{
	struct ib_uverbs_rereg_mr_resp resp;
	struct ibv_rereg_mr cmd;

	return ibv_cmd_rereg_mr(vmr, (uint32_t)flags, address, length, (uintptr_t)address, access,
				pd, &cmd, sizeof(cmd), &resp, sizeof(resp));
}

int provider_dereg_mr(struct verbs_mr *vmr)
{
	int error = vmr->mr_type == IBV_MR_TYPE_NULL_MR ? 0 : ibv_cmd_dereg_mr(vmr);

	if (!error)
		provider_discard(vmr, sizeof(struct provider_mr));
	return error;
}

struct ibv_mr *provider_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	struct provider_mr *mr = calloc(1, sizeof(*mr));

	if (!mr)
		return NULL;
	return provider_finish(mr, ibv_cmd_query_mr(pd, &mr->vmr, handle), 0);
}

void provider_unimport_mr(struct ibv_mr *mr)
{
	provider_discard(mr, sizeof(struct provider_mr));
}

/* ---- protection domains ---- */

struct ibv_pd *provider_alloc_pd(struct ibv_context *context)
{
	struct provider_pd *pd = calloc(1, sizeof(*pd));
	struct ib_uverbs_alloc_pd_resp resp;
	struct ibv_alloc_pd cmd;
	int error;

	if (!pd)
		return NULL;
	error = ibv_cmd_alloc_pd(context, &pd->pd, &cmd, sizeof(cmd), &resp, sizeof(resp));
	if (!error)
		return &pd->pd;
	free(pd);
	errno = error;
	return NULL;
}

struct ibv_pd *sim_adapter_parent_domain(struct ibv_pd *original)
{
	struct provider_pd *pd = calloc(1, sizeof(*pd));

	if (!pd)
		return NULL;
	pd->pd = *original;
	pd->original = (struct provider_pd *)original;
	__atomic_add_fetch(&pd->original->parents, 1, __ATOMIC_RELAXED);
	return &pd->pd;
}

/* Parent domains have no object in the kernel. */
int provider_free_pd(struct ibv_pd *public)
{
	struct provider_pd *pd = (struct provider_pd *)public;
	int error;

	if (__atomic_load_n(&pd->parents, __ATOMIC_RELAXED))
		return EBUSY;
	if (pd->original) {
		__atomic_sub_fetch(&pd->original->parents, 1, __ATOMIC_RELAXED);
	} else {
		error = ibv_cmd_dealloc_pd(public);
		if (error)
			return error;
	}
	provider_discard(pd, sizeof(*pd));
	return 0;
}

/* ---- devices ---- */

struct ibv_context *provider_open(struct ibv_device *device)
{
	char *memory = calloc(1, PROVIDER_FRONT_MORE + sizeof(struct verbs_context));
	struct verbs_context *verbs = (struct verbs_context *)(memory + PROVIDER_FRONT_MORE);
	int error;

	if (!memory)
		return NULL;
	verbs->sz = PROVIDER_FRONT_MORE + sizeof(*verbs);
	verbs->context.abi_compat = (void *)UINTPTR_MAX; /* verbs.h's mark of an extended context */
	verbs->context.device = device;
	verbs->context.cmd_fd = -1;
	verbs->context.async_fd = -1;
	verbs->context.num_comp_vectors = 1;
	error = context_install(&verbs->context);
	if (error) {
		free(memory);
		errno = error;
		return NULL;
	}
	pthread_mutex_init(&verbs->context.mutex, NULL);
	return &verbs->context;
}

void provider_close(struct ibv_context *context)
{
	char *memory =
		(char *)context - offsetof(struct verbs_context, context) - PROVIDER_FRONT_MORE;

	verbs_uninit_context((struct verbs_context *)memory);
	if (!context_uninstall(context))
		return;
	pthread_mutex_destroy(&context->mutex);
	provider_discard(memory, PROVIDER_FRONT_MORE + sizeof(struct verbs_context));
}
