/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs.h -- common parts of the wrappers at the boundary between libibverbs and its providers
 *
 * The boundary is private to rdma-core. A request is served only after a check of the library, and
 * after an actual registration has filled the struct as assumed.
 *
 * No function here changes errno: a wrapper leaves the real call's errno, or the value from before
 * the call.
 */
#ifndef PEERPIN_INTERCEPT_VERBS_H
#define PEERPIN_INTERCEPT_VERBS_H

#include <stdbool.h>
#include <stdint.h>

#include "registration/registration.h"
#include "report/statistics.h"

/* True if the call is not a client request: it is in a forked child, inside a registration of
 * peerpin's own, or inside a forwarded form that libibverbs converts. */
bool verbs_is_internal(void);

/* Calls that libibverbs makes itself between these two are not client requests. Per thread; calls
 * nest. */
void verbs_begin_forwarding(void);
void verbs_end_forwarding(void);

/* The thread is inside a call of ibv_alloc_pd by `caller`. Returns the outer call's caller. */
const void *verbs_client_enter(const void *caller);
void verbs_client_leave(const void *outer);

/* That caller, or NULL. */
const void *verbs_client_caller(void);

/* True if registrations in the protection domain that the thread is allocating need unique keys:
 * its client indexes registrations by key, or may do so. */
bool verbs_client_indexes_keys(void);

/* PEERPIN_PREREGISTER=eager: the access flags of the first request for GPU memory in `pd`, which
 * the thread has just allocated; 0: unknown, or off. */
int verbs_client_access(const struct ibv_pd *pd);

/* True if the name is ibv_alloc_pd, and peerpin is not disabled. */
bool verbs_client_is_entry(const char *symbol);

/* The wrapper, if `found` is the function that it calls; else `found`. For look-ups. */
void *verbs_client_entry(void *found);

/* True if peerpin supports this libibverbs, as far as checked. Otherwise counts the request as
 * forwarded. At the first request in a context, checks it with registrations in `pd`. */
bool verbs_may_serve(struct ibv_pd *pd);

/* NULL, or what differs from the assumptions in the context of `pd` (verbs_check.c). The thread's
 * wrappers report each call of the check, here as a request; a deregistration has the struct
 * alone. The context is being closed: forget it. */
const char *verbs_check(struct ibv_pd *pd);
void verbs_check_saw(const struct registration_request *request, int result);
void verbs_check_forget(const struct ibv_context *context);

/* Fast path for an allocation already served. On false nothing is counted: continue with
 * verbs_may_serve() and verbs_serve(). */
bool verbs_hit(const struct registration_request *request, struct registration_keys *keys);

/* Query the registration layer. False as long as no registration has confirmed the layout. */
bool verbs_serve(const struct registration_request *request, struct registration_keys *keys);

/* Record the result of a registration that was forwarded. `filled`: the struct is as assumed. On
 * success the struct is the client's own: drops a client MR of peerpin's at this address, which its
 * owner abandoned without a deregistration. */
void verbs_record(const struct registration_request *request, int result, bool filled);

/* True if a dma-buf registration has private attributes of the provider. rdma-core 54 added the
 * parameter `driver`; an older caller leaves an arbitrary value. */
bool verbs_has_private_attributes(const struct ibv_command_buffer *driver);

/* A device has been closed: another build of libibverbs may follow. */
void verbs_trust_forget(void);

/* Fields that the real call fills in every form. */
static inline void verbs_fill(struct verbs_mr *vmr, const struct ibv_pd *pd, enum ibv_mr_type type,
			      const struct registration_keys *keys)
{
	vmr->ibv_mr.handle = keys->kernel_handle;
	vmr->ibv_mr.lkey = keys->lkey;
	vmr->ibv_mr.rkey = keys->rkey;
	vmr->ibv_mr.context = pd->context;
	vmr->mr_type = type;
}

/* The struct now holds the client's own registration: drop a client MR of peerpin's at this
 * address, which its owner abandoned without a deregistration. */
void verbs_drop_stale(const struct verbs_mr *vmr);

/* True if peerpin may register on the device, whose struct has a known layout. Otherwise it is as
 * if it had never been opened. */
bool verbs_may_open(const struct ibv_context *device);

#define verbs_count_forwarded(reason)                                                              \
	(statistics_tally(TALLY_requests), statistics_count(forwarded),                            \
	 statistics_count(forwarded_##reason))

/* Repeat a client's own registration until the error is not ENOMEM, or no eviction helps:
 *
 * 	struct verbs_evict eviction = { .context = pd->context, .bytes = length };
 *
 * 	do
 * 		result = the call;
 * 	while (verbs_evicted(&eviction, result));
 */
struct verbs_evict {
	struct ibv_context *context;
	uint64_t bytes;
	unsigned int times;
};

bool verbs_evicted(struct verbs_evict *eviction, int error);

#endif
