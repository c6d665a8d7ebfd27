/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_memory.c -- registration of GPU memory by address
 *
 * The kernel recognises a GPU address and gets its pages from nvidia-peermem. The library registers
 * with libibverbs' public functions, so the provider allocates and keeps its own struct.
 */
#include <errno.h>

#include "base/kernel.h"
#include "registration/own_calls.h"
#include "registration/pinning.h"
#include "report/errors.h"

static int peer_memory_pin(const struct pin_request *request, struct ibv_mr **mr)
{
	void *base = (void *)request->base;
	const struct verbs_calls *verbs = verbs_calls();
	int saved_errno = errno;
	int error = 0;

	*mr = NULL;
	errno = 0;
	own_call_begin();
	/* Where ibv_reg_mr_iova2 exists, ibv_reg_mr alone does not support relaxed ordering. */
	if (verbs->ibv_reg_mr_iova2)
		*mr = verbs->ibv_reg_mr_iova2(request->pd, base, request->length, request->base,
					      (unsigned int)request->access);
	else if (verbs->ibv_reg_mr)
		*mr = verbs->ibv_reg_mr(request->pd, base, request->length, request->access);
	else
		errno = ENOSYS;
	own_call_end();
	if (!*mr) {
		error = errno ? -errno : -EIO;
		errors_note(ERRORS_REG_MR, -error);
	}
	errno = saved_errno;
	return error;
}

/* Retry: a remaining registration keeps memory that is about to be freed, or reaches later memory
 * at that address. */
#define TRIES 100
#define PAUSE 100000 /* ns */

int pinning_unpin(struct ibv_mr *mr)
{
	const struct verbs_calls *verbs = verbs_calls();
	const struct ibv_mr *outer;
	int saved_errno = errno;
	int error;

	own_call_begin();
	outer = own_call_ends(mr);
	error = verbs->ibv_dereg_mr ? verbs->ibv_dereg_mr(mr) : ENOSYS;
	for (int i = 0; i < TRIES && pinning_is_of_the_moment(-error); i++) {
		kernel_sleep(PAUSE);
		error = verbs->ibv_dereg_mr(mr);
	}
	own_call_ends(outer);
	own_call_end();
	errno = saved_errno;
	return error > 0 ? -error : error;
}

const struct registration_backend peer_memory_backend = {
	.name = "peer memory",
	.pin = peer_memory_pin,
	.unpin = pinning_unpin,
};
