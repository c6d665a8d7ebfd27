/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs.c -- registrations, where libibverbs' providers call it back
 *
 * However a client reached libibverbs (linked, dlvsym, RTLD_DEEPBIND), its provider allocates a struct of its
 * own for the registration and calls ibv_cmd_reg_mr to have the kernel fill it. Here a served request gets
 * the keys of a region that exists, in that same struct: identity, trailing fields and everything else about
 * it are the provider's. ibv_cmd_dereg_mr on such a struct ends here, too; the provider then frees it.
 *
 * verbs_forms.c does the same for the other forms of a registration, verbs_forwarded.c counts what is left alone.
 */
#include "intercept/verbs.h"

#include <errno.h>
#include <stdint.h>

#include "base/process.h"
#include "intercept/entry_points.h"

/* Requests and answers without a provider's private part, in bytes (rdma/ib_user_verbs.h). */
#define PLAIN_REQUEST sizeof(struct ibv_reg_mr)
#define PLAIN_ANSWER  sizeof(struct ib_uverbs_reg_mr_resp)

/* What a provider exchanges with its half in the kernel beyond the common part is nothing that we could answer. */
static bool is_plain(size_t cmd_size, size_t resp_size)
{
	if (cmd_size == PLAIN_REQUEST && resp_size == PLAIN_ANSWER)
		return true;
	verbs_count_forwarded(private);
	return false;
}

static bool is_filled_so(const struct verbs_mr *vmr, const struct ibv_pd *pd, int access,
			 const struct ib_uverbs_reg_mr_resp *resp)
{
	const struct ibv_mr *mr = &vmr->ibv_mr;

	return mr->handle == resp->mr_handle && mr->lkey == resp->lkey && mr->rkey == resp->rkey &&
	       mr->context == pd->context && vmr->mr_type == IBV_MR_TYPE_MR && vmr->access == access;
}

int ibv_cmd_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t hca_va, int access,
		   struct verbs_mr *vmr, struct ibv_reg_mr *cmd, size_t cmd_size,
		   struct ib_uverbs_reg_mr_resp *resp, size_t resp_size)
{
	struct registration_request request = {
		.pd = pd,
		.address = (uint64_t)addr,
		.length = length,
		.iova = hca_va,
		.access = access,
		.client_mr = vmr,
	};
	struct verbs_evict room = { .context = pd->context, .bytes = length };
	struct registration_keys keys;
	int result;

	if ((cmd_size == PLAIN_REQUEST && resp_size == PLAIN_ANSWER && verbs_hit(&request, &keys)) ||
	    (!verbs_stand_aside() && registration_concerns(&request) && verbs_may_serve() &&
	     is_plain(cmd_size, resp_size) && verbs_serve(&request, &keys))) {
		*resp = (struct ib_uverbs_reg_mr_resp){ keys.kernel_handle, keys.lkey, keys.rkey };
		verbs_fill(vmr, pd, IBV_MR_TYPE_MR, &keys);
		vmr->access = access;
		return 0;
	}
	do
		result = next_verbs(ibv_cmd_reg_mr)(pd, addr, length, hca_va, access, vmr, cmd, cmd_size,
						    resp, resp_size);
	while (verbs_evicted(&room, result));
	if (!result && !process_is_passive()) {
		verbs_is_own(vmr);
		if (resp_size >= PLAIN_ANSWER)
			verbs_saw_layout(is_filled_so(vmr, pd, access, resp));
	}
	return result;
}

int ibv_cmd_dereg_mr(struct verbs_mr *vmr)
{
	int saved_errno = errno;

	/* Not asked of process_is_passive(): in a forked child the kernel must not hear of the parent's. */
	if (!registration_is_own_end(&vmr->ibv_mr) && registration_drop(vmr)) {
		errno = saved_errno;
		return 0;
	}
	errno = saved_errno;
	return next_verbs(ibv_cmd_dereg_mr)(vmr);
}

/* As the real calls do. */
static int refuse(int error)
{
	errno = error;
	return error;
}

/* What the kernel refuses before it looks at the region (ib_uverbs_rereg_mr), and libibverbs of a dma-buf. What it
 * refuses of addresses and rights, it refuses of a new registration, too. */
static int check_change(const struct verbs_mr *vmr, uint32_t flags)
{
	if (!flags || vmr->mr_type != IBV_MR_TYPE_MR)
		return EINVAL;
	if (flags & ~(uint32_t)IBV_REREG_MR_FLAGS_SUPPORTED)
		return EOPNOTSUPP;
	return 0;
}

/* The kernel has no region that is this client's alone, so there is nothing to change: the client gets what it would have
 * afterwards, in the same struct, from another region of ours or as a registration of its own. Until it has that, it
 * keeps what it had: a client must not use a region whose change has failed (IBV_REREG_MR_ERR_CMD), but will
 * deregister it. */
static int register_changed(struct verbs_mr *vmr, struct registration_request *request,
			    struct registration_keys *keys)
{
	struct verbs_evict room = { .context = request->pd->context, .bytes = request->length };
	struct ib_uverbs_reg_mr_resp resp;
	struct ibv_reg_mr cmd;
	int access = vmr->access;
	int result;

	if (registration_concerns(request) && verbs_may_serve() && verbs_serve(request, keys)) {
		verbs_fill(vmr, request->pd, IBV_MR_TYPE_MR, keys);
		/* The next change begins with what this one leaves. */
		vmr->access = request->access;
		return 0;
	}
	do
		result = next_verbs(ibv_cmd_reg_mr)(request->pd, (void *)request->address, request->length,
						    request->iova, request->access, vmr, &cmd, sizeof(cmd),
						    &resp, sizeof(resp));
	while (verbs_evicted(&room, result));
	if (result)
		return result;
	verbs_is_own(vmr);
	/* What a change leaves as it was when the struct was made. */
	vmr->access = access;
	*keys = (struct registration_keys){ resp.mr_handle, resp.lkey, resp.rkey };
	return 0;
}

int ibv_cmd_rereg_mr(struct verbs_mr *vmr, uint32_t flags, void *addr, size_t length, uint64_t hca_va,
		     int access, struct ibv_pd *pd, struct ibv_rereg_mr *cmd, size_t cmd_size,
		     struct ib_uverbs_rereg_mr_resp *resp, size_t resp_size)
{
	struct ibv_mr *mr = &vmr->ibv_mr;
	struct registration_request request = {
		.pd = flags & IBV_REREG_MR_CHANGE_PD ? pd : mr->pd,
		.address = (uint64_t)mr->addr,
		.length = mr->length,
		.iova = (uint64_t)mr->addr,
		.access = flags & IBV_REREG_MR_CHANGE_ACCESS ? access : vmr->access,
		.client_mr = vmr,
	};
	struct registration_keys keys;
	int result;

	if (!registration_holds(vmr))
		return next_verbs(ibv_cmd_rereg_mr)(vmr, flags, addr, length, hca_va, access, pd, cmd,
						    cmd_size, resp, resp_size);
	/* In a forked child it is the parent's, and whatever else shares it. */
	if (process_is_passive())
		return refuse(EOPNOTSUPP);
	result = check_change(vmr, flags);
	if (result)
		return refuse(result);
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		request.address = (uint64_t)addr;
		request.length = length;
		request.iova = hca_va;
	}
	result = register_changed(vmr, &request, &keys);
	if (!result)
		*resp = (struct ib_uverbs_rereg_mr_resp){ keys.lkey, keys.rkey };
	return result;
}

int ibv_cmd_alloc_pd(struct ibv_context *context, struct ibv_pd *pd, struct ibv_alloc_pd *cmd,
		     size_t cmd_size, struct ib_uverbs_alloc_pd_resp *resp, size_t resp_size)
{
	int result = next_verbs(ibv_cmd_alloc_pd)(context, pd, cmd, cmd_size, resp, resp_size);

	if (!result && !process_is_passive())
		registration_pd_opened(pd);
	return result;
}

int ibv_cmd_dealloc_pd(struct ibv_pd *pd)
{
	bool passive = process_is_passive();
	int result;

	if (!passive)
		registration_pd_closing(pd);
	result = next_verbs(ibv_cmd_dealloc_pd)(pd);
	if (!passive)
		registration_pd_closed(pd, !result);
	return result;
}

void verbs_uninit_context(struct verbs_context *context)
{
	struct ibv_context *device = process_is_passive() ? NULL : verbs_context_of(context);

	if (device)
		registration_context_closing(device);
	next_verbs(verbs_uninit_context)(context);
}
