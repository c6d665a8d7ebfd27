/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs.h -- what the wrappers of libibverbs' providers share: whether to serve, and whether to try again
 *
 * The boundary is private to rdma-core. Two things are asked before anything is served: that its version is one
 * whose layout is known, and that a registration which went through has filled the struct as we read it.
 *
 * Nothing here changes errno: what a wrapper leaves there is what the real call left, or what was there before.
 */
#ifndef PEERPIN_INTERCEPT_VERBS_H
#define PEERPIN_INTERCEPT_VERBS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/statistics.h"
#include "registration/registration.h"

/* True where a call is not a client's to be served: in a forked child, inside one of our own registrations, and
 * inside a form that was passed through and comes back in another one. */
bool verbs_stand_aside(void);

/* What libibverbs calls of itself between the two is no request of a client's. */
void verbs_begin_passing(void);
void verbs_end_passing(void);

/* Whether this libibverbs may be answered for at all. If not, the request is counted. */
bool verbs_may_serve(void);

/* The short way, for what has been served before: false: go through the following. Counts nothing then. */
bool verbs_hit(const struct registration_request *request, struct registration_keys *keys);

/* Asks the registration layer, and believes it only once the layout has been seen. */
bool verbs_serve(const struct registration_request *request, struct registration_keys *keys);

/* A registration really happened: `right` tells whether its struct is what was expected. */
void verbs_saw_layout(bool right);

/* Whether a dma-buf registration has attributes of the provider's own. The parameter came with rdma-core 54; from
 * an older caller it is whatever lies there. */
bool verbs_has_private_attributes(const struct ibv_command_buffer *driver);

/* What the real calls fill in all forms. */
static inline void verbs_fill(struct verbs_mr *vmr, const struct ibv_pd *pd, enum ibv_mr_type type,
			      const struct registration_keys *keys)
{
	vmr->ibv_mr.handle = keys->kernel_handle;
	vmr->ibv_mr.lkey = keys->lkey;
	vmr->ibv_mr.rkey = keys->rkey;
	vmr->ibv_mr.context = pd->context;
	vmr->mr_type = type;
}

/* A registration of the client's own is in this struct now: whatever was known of one at the same address has been
 * left behind there without a deregistration. */
void verbs_is_own(const struct verbs_mr *vmr);

/* The struct ibv_context inside; NULL if it cannot be found. */
struct ibv_context *verbs_context_of(struct verbs_context *context);

#define verbs_count_forwarded(reason)                                                                        \
	(statistics_tally(TALLY_requests), statistics_count(bypassed), statistics_count(bypassed_##reason))

/* A client's own registration, called until it does not fail for want of room, or nothing of ours can make any:
 *
 *	struct verbs_evict room = { .context = pd->context, .bytes = length };
 *
 *	do
 *		result = the call;
 *	while (verbs_evicted(&room, result)); */
struct verbs_evict {
	struct ibv_context *context;
	uint64_t bytes;
	unsigned int times;
};

bool verbs_evicted(struct verbs_evict *room, int error);

#endif
