/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_memory.c -- registers GPU memory by its address
 *
 * The kernel finds out that the address is a GPU's and asks nvidia-peermem for its pages. The library's own
 * registrations are ordinary ones, made with libibverbs' public functions: the provider allocates its own
 * struct for them, and keeps whatever it needs.
 */
#include <errno.h>

#include "base/errors.h"
#include "base/kernel.h"
#include "registration/own_calls.h"
#include "registration/pinning.h"

static int pin(const struct pin_request *request, struct ibv_mr **mr)
{
	void *base = (void *)request->base;
	const struct verbs_calls *verbs = verbs_calls();
	int saved_errno = errno;
	int error = 0;

	*mr = NULL;
	errno = 0;
	own_call_begin();
	/* ibv_reg_mr alone does not know relaxed ordering in versions that have the other one. */
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

/* What stays registered keeps memory that is about to be freed, or reaches what comes after it. */
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
	.pin = pin,
	.unpin = pinning_unpin,
};
