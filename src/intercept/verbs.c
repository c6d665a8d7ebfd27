/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs.c -- registrations, at the boundary where libibverbs' providers call it
 *
 * However a client found libibverbs (link, dlvsym, RTLD_DEEPBIND), its provider allocates a private
 * struct for the registration. The provider then calls ibv_cmd_reg_mr, through which the kernel
 * fills the struct. Here a served request gets the keys of an existing region in this struct; all
 * other fields are the provider's. ibv_cmd_dereg_mr on such a struct ends here too; the provider
 * then frees the struct.
 *
 * verbs_forms.c serves the other forms of a registration; verbs_forwarded.c counts the forwarded
 * ones.
 */
#include "intercept/verbs.h"

#include <errno.h>
#include <stdint.h>

#include "base/process.h"
#include "intercept/bypass.h"
#include "intercept/entry_points.h"
#include "intercept/observed_verbs.h"
#include "report/callers.h"

/* Requests and responses without a provider's private part, in bytes (rdma/ib_user_verbs.h). */
#define PLAIN_REQUEST  sizeof(struct ibv_reg_mr)
#define PLAIN_RESPONSE sizeof(struct ib_uverbs_reg_mr_resp)

/* peerpin cannot produce the data that a provider exchanges with its kernel driver beyond the
 * common part. */
static bool verbs_is_plain(size_t cmd_size, size_t resp_size)
{
	if (cmd_size == PLAIN_REQUEST && resp_size == PLAIN_RESPONSE)
		return true;
	verbs_count_forwarded(private);
	return false;
}

static bool verbs_is_filled_as_expected(const struct verbs_mr *vmr, const struct ibv_pd *pd,
					int access, const struct ib_uverbs_reg_mr_resp *resp)
{
	const struct ibv_mr *mr = &vmr->ibv_mr;

	return mr->handle == resp->mr_handle && mr->lkey == resp->lkey && mr->rkey == resp->rkey &&
	       mr->context == pd->context && vmr->mr_type == IBV_MR_TYPE_MR &&
	       vmr->access == access;
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
	struct verbs_evict eviction = { .context = pd->context, .bytes = length };
	struct registration_keys keys;
	int result;

	if (process_observes())
		return observed_reg_mr(pd, addr, length, hca_va, access, vmr, cmd, cmd_size, resp,
				       resp_size);
	if ((cmd_size == PLAIN_REQUEST && resp_size == PLAIN_RESPONSE &&
	     verbs_hit(&request, &keys)) ||
	    (!verbs_is_internal() && registration_concerns(&request) && verbs_may_serve(pd) &&
	     verbs_is_plain(cmd_size, resp_size) && verbs_serve(&request, &keys))) {
		*resp = (struct ib_uverbs_reg_mr_resp){ keys.kernel_handle, keys.lkey, keys.rkey };
		verbs_fill(vmr, pd, IBV_MR_TYPE_MR, &keys);
		vmr->access = access;
		return 0;
	}
	do
		result = next_verbs(ibv_cmd_reg_mr)(pd, addr, length, hca_va, access, vmr, cmd,
						    cmd_size, resp, resp_size);
	while (verbs_evicted(&eviction, result));
	verbs_record(&request, result,
		     resp_size < PLAIN_RESPONSE ||
			     verbs_is_filled_as_expected(vmr, pd, access, resp));
	return result;
}

int ibv_cmd_dereg_mr(struct verbs_mr *vmr)
{
	int saved_errno = errno;
	int result;

	if (process_observes())
		return observed_dereg_mr(vmr);
	/* process_is_passive() does not apply: in a forked child the kernel must not receive a
	 * deregistration of the parent's regions. */
	if (!registration_is_own_end(&vmr->ibv_mr) &&
	    registration_drop_once(vmr, &vmr->ibv_mr.handle)) {
		errno = saved_errno;
		return 0;
	}
	errno = saved_errno;
	result = next_verbs(ibv_cmd_dereg_mr)(vmr);
	verbs_check_saw(&(struct registration_request){ .client_mr = vmr }, result);
	return result;
}

/* Set errno and return the error, as the real calls do. */
static int verbs_refuse(int error)
{
	errno = error;
	return error;
}

/* Errors that the kernel (ib_uverbs_rereg_mr), or libibverbs for a dma-buf, returns before looking
 * up the region. Errors in addresses and access flags occur equally in a new registration. */
static int verbs_check_rereg(const struct verbs_mr *vmr, uint32_t flags)
{
	if (!flags || vmr->mr_type != IBV_MR_TYPE_MR)
		return EINVAL;
	if (flags & ~(uint32_t)IBV_REREG_MR_FLAGS_SUPPORTED)
		return EOPNOTSUPP;
	return 0;
}

/* The region may serve other clients, so the kernel's object is not changed. The client gets the
 * changed registration in the same struct: another cached region, or a registration of the client's
 * own. Until then the old client MR stays: after IBV_REREG_MR_ERR_CMD the client must not use the
 * region, but will deregister it. */
static int verbs_rereg(struct verbs_mr *vmr, struct registration_request *request,
		       struct registration_keys *keys)
{
	struct verbs_evict eviction = { .context = request->pd->context, .bytes = request->length };
	struct ib_uverbs_reg_mr_resp resp;
	struct ibv_reg_mr cmd;
	int access = vmr->access;
	int result;

	if (registration_concerns(request) && verbs_may_serve(request->pd) &&
	    verbs_serve(request, keys)) {
		verbs_fill(vmr, request->pd, IBV_MR_TYPE_MR, keys);
		/* The next ibv_rereg_mr starts from these access flags. */
		vmr->access = request->access;
		return 0;
	}
	do
		result = next_verbs(ibv_cmd_reg_mr)(request->pd, (void *)request->address,
						    request->length, request->iova, request->access,
						    vmr, &cmd, sizeof(cmd), &resp, sizeof(resp));
	while (verbs_evicted(&eviction, result));
	if (result)
		return result;
	verbs_drop_stale(vmr);
	/* A change by the kernel keeps the flags of the original registration here. */
	vmr->access = access;
	*keys = (struct registration_keys){ resp.mr_handle, resp.lkey, resp.rkey };
	return 0;
}

int ibv_cmd_rereg_mr(struct verbs_mr *vmr, uint32_t flags, void *addr, size_t length,
		     uint64_t hca_va, int access, struct ibv_pd *pd, struct ibv_rereg_mr *cmd,
		     size_t cmd_size, struct ib_uverbs_rereg_mr_resp *resp, size_t resp_size)
{
	struct ibv_mr *mr = &vmr->ibv_mr;
	struct registration_request request = {
		.address = (uint64_t)mr->addr,
		.length = mr->length,
		.iova = (uint64_t)mr->addr,
		.access = flags & IBV_REREG_MR_CHANGE_ACCESS ? access : vmr->access,
		.client_mr = vmr,
	};
	struct registration_keys keys;
	int result;

	if (process_observes())
		return observed_rereg_mr(vmr, flags, addr, length, hca_va, access, pd, cmd,
					 cmd_size, resp, resp_size);
	if (!registration_holds(vmr)) {
		result = next_verbs(ibv_cmd_rereg_mr)(vmr, flags, addr, length, hca_va, access, pd,
						      cmd, cmd_size, resp, resp_size);
		request = (struct registration_request){ .pd = pd,
							 .address = (uint64_t)addr,
							 .length = length,
							 .iova = hca_va,
							 .access = access,
							 .client_mr = vmr };
		verbs_check_saw(&request, result);
		return result;
	}
	/* In a forked child the region belongs to the parent and its other users. */
	if (process_is_passive())
		return verbs_refuse(EOPNOTSUPP);
	result = verbs_check_rereg(vmr, flags);
	request.pd = flags & IBV_REREG_MR_CHANGE_PD ? pd : registration_pd_of(vmr);
	if (!result && !request.pd)
		result = EINVAL;
	if (result)
		return verbs_refuse(result);
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		request.address = (uint64_t)addr;
		request.length = length;
		request.iova = hca_va;
	}
	result = verbs_rereg(vmr, &request, &keys);
	if (!result)
		*resp = (struct ib_uverbs_rereg_mr_resp){ keys.lkey, keys.rkey };
	return result;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	__typeof__(ibv_alloc_pd) *next = next_verbs(ibv_alloc_pd);
	const void *outer;
	struct ibv_pd *pd;
	int access;

	if (!next) {
		errno = ENOSYS;
		return NULL;
	}
	outer = verbs_client_enter(__builtin_return_address(0));
	pd = next(context);
	access = pd && !process_is_passive() ? verbs_client_access(pd) : 0;
	verbs_client_leave(outer);
	/* The provider has completed its struct: not before, in ibv_cmd_alloc_pd(). */
	if (access)
		registration_expect(pd, access);
	return pd;
}

int ibv_cmd_alloc_pd(struct ibv_context *context, struct ibv_pd *pd, struct ibv_alloc_pd *cmd,
		     size_t cmd_size, struct ib_uverbs_alloc_pd_resp *resp, size_t resp_size)
{
	int result;

	if (process_observes())
		return observed_alloc_pd(context, pd, cmd, cmd_size, resp, resp_size);
	result = next_verbs(ibv_cmd_alloc_pd)(context, pd, cmd, cmd_size, resp, resp_size);
	if (!result && !process_is_passive() && verbs_may_open(context)) {
		bypass_check_hidden();
		registration_pd_opened(pd, verbs_client_indexes_keys());
		registration_pd_called_by(pd, callers_number(verbs_client_caller()));
	}
	return result;
}

int ibv_cmd_dealloc_pd(struct ibv_pd *pd)
{
	bool passive = process_is_passive();
	int result;

	if (!passive && !registration_pd_closing(pd))
		return verbs_refuse(EBUSY);
	result = next_verbs(ibv_cmd_dealloc_pd)(pd);
	if (!passive)
		registration_pd_closed(pd, !result);
	return result;
}

void verbs_uninit_context(struct verbs_context *context)
{
	struct ibv_context *device =
		process_is_passive() ? NULL : registration_device_in(context, VERBS_CONTEXT_END);

	if (device) {
		verbs_check_forget(device);
		registration_context_closing(device);
	}
	if (process_observes())
		observed_device_closing(context);
	next_verbs(verbs_uninit_context)(context);
	/* Without an open device libibverbs and the provider may leave the process. */
	entry_forget_verbs();
	verbs_calls_device_closed();
	verbs_trust_forget();
}
