/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_check.c -- self-check of the loaded libibverbs, at the first request in a context
 *
 * The boundary is private to rdma-core, and its version node changes with many releases that change
 * nothing here. So no version is assumed: this library registers a page of host memory of its own
 * in each intercepted form. Each call must reach its wrapper with its own arguments, fill the
 * struct as assumed, fail as assumed where it cannot succeed, and end. Any difference turns peerpin
 * off for registrations (verbs_differs()). A form that the provider or the kernel lacks is not
 * intercepted either.
 */
#include "intercept/verbs.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/atomics.h"
#include "base/kernel.h"
#include "base/pool.h"
#include "registration/registration.h"

#define CHECK_BYTES 4096

/* A public call of the check, and the wrapper's view of it. */
struct check {
	struct registration_request expected;
	bool called, differs;
	int result;
	const void *made_at; /* the provider's struct */
	struct ibv_mr made;  /* in it, if the wrapped call succeeded */
};

static __thread struct check *check_in_progress __attribute__((tls_model("initial-exec")));

/* Contexts that were checked. Those beyond the array rely on the others' checks. */
#define CONTEXTS 64
static _Atomic(struct ibv_context *) checked[CONTEXTS];

static bool check_is_due(const struct ibv_context *context)
{
	struct ibv_context *other;
	bool room = false;

	for (size_t i = 0; i < CONTEXTS; i++) {
		other = load_acquire(&checked[i]);
		if (other == context)
			return false;
		room |= !other;
	}
	return room;
}

static void check_is_done(struct ibv_context *context)
{
	struct ibv_context *empty;

	for (size_t i = 0; i < CONTEXTS; i++) {
		empty = NULL;
		if (atomic_compare_exchange_strong(&checked[i], &empty, context))
			return;
	}
}

void verbs_check_forget(const struct ibv_context *context)
{
	for (size_t i = 0; i < CONTEXTS; i++) {
		if (load_relaxed(&checked[i]) == context)
			store_release(&checked[i], NULL);
	}
}

void verbs_check_saw(const struct registration_request *request, int result)
{
	struct check *check = check_in_progress;
	const struct registration_request *expected;

	if (__builtin_expect(!check, 1))
		return;
	expected = &check->expected;
	check->called = true;
	check->differs = request->pd != expected->pd || request->address != expected->address ||
			 request->length != expected->length || request->iova != expected->iova ||
			 request->access != expected->access;
	check->result = result;
	check->made_at = request->client_mr;
	if (!result)
		check->made = *(const struct ibv_mr *)request->client_mr;
}

/* ---- results of a public call: NULL, or what differs ---- */

static const char *check_failed(const struct check *check, int error)
{
	if (!check->called)
		return NULL;
	if (check->differs)
		return "arguments";
	return check->result > 0 && check->result == error ? NULL : "errors";
}

static const char *check_registered(const struct check *check, const struct ibv_mr *mr)
{
	const struct registration_request *expected = &check->expected;
	const struct ibv_mr *made = &check->made;

	if (!check->called || check->differs || check->result)
		return "arguments";
	if (mr->pd != expected->pd || mr->context != expected->pd->context ||
	    mr->addr != (void *)expected->address || mr->length != expected->length ||
	    mr->handle != made->handle || mr->lkey != made->lkey || mr->rkey != made->rkey)
		return "memory regions";
	return NULL;
}

/* ---- calls ---- */

/* A change of nothing, which the kernel refuses. */
static const char *check_change(struct ibv_mr *mr, const void *made_at)
{
	const struct verbs_calls *verbs = verbs_calls();
	struct check check = { .expected = { .pd = mr->pd,
					     .address = (uint64_t)mr->addr,
					     .length = mr->length,
					     .iova = (uint64_t)mr->addr } };
	int result;

	if (!verbs->ibv_rereg_mr)
		return NULL;
	check_in_progress = &check;
	result = verbs->ibv_rereg_mr(mr, 0, mr->pd, mr->addr, mr->length, 0);
	check_in_progress = NULL;
	if (check.called && check.made_at != made_at)
		return "arguments";
	return result ? check_failed(&check, errno) : NULL;
}

static const char *check_deregister(struct ibv_mr *mr, const void *made_at)
{
	struct check check = { .called = false };
	int result;

	check_in_progress = &check;
	result = own_call_deregister(mr);
	check_in_progress = NULL;
	return result || check.made_at != made_at ? "deregistrations" : NULL;
}

enum check_form { CHECK_BY_ADDRESS, CHECK_REFUSED, CHECK_EXTENDED, CHECK_BY_DMA_BUF, CHECK_FORMS };

/* NULL, with errno, if the library lacks the form. */
static struct ibv_mr *check_register(enum check_form form,
				     const struct registration_request *request)
{
	const struct verbs_calls *verbs = verbs_calls();
	void *address = (void *)request->address;
	struct ibv_mr_init_attr attributes = { .length = request->length,
					       .access = request->access,
					       .comp_mask = IBV_REG_MR_MASK_ADDR,
					       .addr = address };

	errno = EOPNOTSUPP;
	switch (form) {
	case CHECK_EXTENDED:
		return verbs->ibv_reg_mr_ex ? verbs->ibv_reg_mr_ex(request->pd, &attributes) : NULL;
	case CHECK_BY_DMA_BUF:
		return verbs->ibv_reg_dmabuf_mr
			       ? verbs->ibv_reg_dmabuf_mr(request->pd, request->address,
							  request->length, request->iova, -1,
							  request->access)
			       : NULL;
	default:
		return verbs->ibv_reg_mr(request->pd, address, request->length, request->access);
	}
}

/* CHECK_REFUSED: the kernel refuses remote write without local write. CHECK_BY_DMA_BUF: the dma-buf
 * does not exist, so its offset and iova can differ. */
static const char *check_form(enum check_form form, struct ibv_pd *pd, uint64_t page)
{
	struct check check = { .expected = {
				       .pd = pd,
				       .address = page,
				       .length = CHECK_BYTES,
				       .iova = form == CHECK_BY_DMA_BUF ? page + CHECK_BYTES : page,
				       .access = form == CHECK_REFUSED ? IBV_ACCESS_REMOTE_WRITE
								       : IBV_ACCESS_LOCAL_WRITE,
			       } };
	const char *difference, *end;
	struct ibv_mr *mr;

	own_call_begin();
	check_in_progress = &check;
	mr = check_register(form, &check.expected);
	check_in_progress = NULL;
	difference = mr ? check_registered(&check, mr) : check_failed(&check, errno);
	if (mr && !difference)
		difference = check_change(mr, check.made_at);
	end = mr ? check_deregister(mr, check.made_at) : NULL;
	own_call_end();
	return difference ? difference : end;
}

const char *verbs_check(struct ibv_pd *pd)
{
	const char *difference = NULL;
	void *page;

	if (!check_is_due(pd->context))
		return NULL;
	page = pool_map(CHECK_BYTES);
	if (!page)
		return NULL;
	for (enum check_form form = 0; form < CHECK_FORMS && !difference; form++)
		difference = check_form(form, pd, (uint64_t)page);
	kernel_unmap(page, CHECK_BYTES);
	check_is_done(pd->context);
	return difference;
}
