/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs.c -- registrations, where libibverbs' providers call it back
 *
 * However a client reached libibverbs (linked, dlvsym, RTLD_DEEPBIND), its provider allocates a struct of its
 * own for the registration and calls ibv_cmd_reg_mr to have the kernel fill it. Here a served request gets
 * the keys of a region that exists, in that same struct: identity, trailing fields and everything else about
 * it are the provider's. ibv_cmd_dereg_mr on such a struct ends here, too; the provider then frees it.
 *
 * The boundary is private to rdma-core. Two things are asked before anything is served: that its version is
 * one whose layout is known, and that a registration which went through has filled the struct as we read it.
 */
#include <errno.h>
#include <stdint.h>

#include "base/log.h"
#include "base/process.h"
#include "base/statistics.h"
#include "base/system.h"
#include "intercept/entry_points.h"
#include "intercept/escapes.h"
#include "registration/registration.h"

/* Requests and answers without a provider's private part, in bytes (rdma/ib_user_verbs.h). */
#define PLAIN_REQUEST sizeof(struct ibv_reg_mr)
#define PLAIN_ANSWER  sizeof(struct ib_uverbs_reg_mr_resp)

enum trust { UNKNOWN, TRUSTED, REFUSED };

static int version_trust, layout_trust; /* enum trust; read and stored atomically */

/* The version node of the boundary: 34 up to rdma-core 56, then that of the release which last changed any
 * of the private interface. */
static enum trust judge_version(void)
{
	static const char *const known[] = {
		"IBVERBS_PRIVATE_34", "IBVERBS_PRIVATE_57", "IBVERBS_PRIVATE_58",
		"IBVERBS_PRIVATE_59", "IBVERBS_PRIVATE_60", "IBVERBS_PRIVATE_61",
		"IBVERBS_PRIVATE_62", "IBVERBS_PRIVATE_63", "IBVERBS_PRIVATE_64",
	};
	void *handle = system_find_library("libibverbs.so.1");

	for (size_t i = 0; handle && i < sizeof(known) / sizeof(known[0]); i++) {
		if (system_dlvsym(handle, "ibv_cmd_reg_mr", known[i]))
			return TRUSTED;
	}
	log_once(LOG_WARN,
		 "this libibverbs is not one that peerpin knows (rdma-core 35 to 64): registrations are "
		 "passed through. A newer peerpin may know it.");
	return REFUSED;
}

static bool version_is_known(void)
{
	int trust = __atomic_load_n(&version_trust, __ATOMIC_RELAXED);

	if (trust == UNKNOWN) {
		trust = judge_version();
		__atomic_store_n(&version_trust, trust, __ATOMIC_RELAXED);
	}
	return trust == TRUSTED;
}

/* Every registration that really happens shows whether the struct is laid out as we believe. */
static void check_layout(const struct verbs_mr *vmr, const struct ibv_pd *pd, int access,
			 const struct ib_uverbs_reg_mr_resp *resp)
{
	const struct ibv_mr *mr = &vmr->ibv_mr;

	if (mr->handle == resp->mr_handle && mr->lkey == resp->lkey && mr->rkey == resp->rkey &&
	    mr->context == pd->context && vmr->mr_type == IBV_MR_TYPE_MR && vmr->access == access) {
		if (!__atomic_load_n(&layout_trust, __ATOMIC_RELAXED))
			__atomic_store_n(&layout_trust, TRUSTED, __ATOMIC_RELAXED);
		return;
	}
	__atomic_store_n(&layout_trust, REFUSED, __ATOMIC_RELAXED);
	log_once(LOG_WARN, "this libibverbs fills its memory regions in another way than peerpin expects: "
			   "registrations are passed through. Please report its version.");
}

static void fill(struct verbs_mr *vmr, const struct ibv_pd *pd, int access,
		 struct ib_uverbs_reg_mr_resp *resp, const struct registration_keys *keys)
{
	resp->mr_handle = keys->kernel_handle;
	resp->lkey = keys->lkey;
	resp->rkey = keys->rkey;
	vmr->ibv_mr.handle = keys->kernel_handle;
	vmr->ibv_mr.lkey = keys->lkey;
	vmr->ibv_mr.rkey = keys->rkey;
	vmr->ibv_mr.context = pd->context;
	vmr->mr_type = IBV_MR_TYPE_MR;
	vmr->access = access;
}

/* Whether the request may be answered at all, whatever it asks for. */
static bool may_serve(size_t cmd_size, size_t resp_size)
{
	escapes_look();
	if (!version_is_known() || __atomic_load_n(&layout_trust, __ATOMIC_RELAXED) == REFUSED) {
		statistics_tally(TALLY_requests);
		statistics_count(not_served);
		statistics_count(not_served_version);
		return false;
	}
	if (cmd_size != PLAIN_REQUEST || resp_size != PLAIN_ANSWER) {
		statistics_tally(TALLY_requests);
		statistics_count(not_served);
		statistics_count(not_served_private);
		return false;
	}
	return true;
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
		.handle = vmr,
	};
	struct registration_keys keys;
	int result;

	if (!process_is_passive() && !registration_is_own_call() && registration_concerns(&request) &&
	    may_serve(cmd_size, resp_size) && registration_request(&request, &keys)) {
		/* The region's own registration came through below, and showed the layout. */
		if (__atomic_load_n(&layout_trust, __ATOMIC_RELAXED) == TRUSTED) {
			fill(vmr, pd, access, resp, &keys);
			return 0;
		}
		registration_drop(vmr);
	}
	result = next_verbs(ibv_cmd_reg_mr)(pd, addr, length, hca_va, access, vmr, cmd, cmd_size, resp,
					    resp_size);
	if (!result && !process_is_passive() && resp_size >= PLAIN_ANSWER)
		check_layout(vmr, pd, access, resp);
	return result;
}

int ibv_cmd_dereg_mr(struct verbs_mr *vmr)
{
	/* Not asked of process_is_passive(): in a forked child the kernel must not hear of the parent's. */
	if (!registration_is_own_call() && registration_drop(vmr))
		return 0;
	return next_verbs(ibv_cmd_dereg_mr)(vmr);
}

/* The region belongs to others as well, so the client first gets a registration of its own, in the same
 * struct, which the kernel may then change as asked. */
static int make_private(struct verbs_mr *vmr)
{
	struct ib_uverbs_reg_mr_resp resp;
	struct ibv_reg_mr cmd;
	struct ibv_mr *mr = &vmr->ibv_mr;

	return next_verbs(ibv_cmd_reg_mr)(mr->pd, mr->addr, mr->length, (uint64_t)mr->addr, vmr->access, vmr,
					  &cmd, sizeof(cmd), &resp, sizeof(resp));
}

int ibv_cmd_rereg_mr(struct verbs_mr *vmr, uint32_t flags, void *addr, size_t length, uint64_t hca_va,
		     int access, struct ibv_pd *pd, struct ibv_rereg_mr *cmd, size_t cmd_size,
		     struct ib_uverbs_rereg_mr_resp *resp, size_t resp_size)
{
	int result;

	if (registration_holds(vmr)) {
		/* In a forked child it is the parent's, and whatever else shares it. */
		result = process_is_passive() ? EOPNOTSUPP : make_private(vmr);
		if (result)
			return result;
		registration_drop(vmr);
	}
	return next_verbs(ibv_cmd_rereg_mr)(vmr, flags, addr, length, hca_va, access, pd, cmd, cmd_size, resp,
					    resp_size);
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
	if (!process_is_passive())
		registration_context_closing((struct ibv_context *)((char *)context + VERBS_CONTEXT_OFFSET));
	next_verbs(verbs_uninit_context)(context);
}
