/* SPDX-License-Identifier: BSD-3-Clause */
/* context.c -- device contexts: function tables that verbs.h's inline functions call
 *
 * verbs.h finds a function by its offset from the context, and answers EOPNOTSUPP where there is
 * none.
 */
#include <errno.h>
#include <stdlib.h>

#include "sim/plane/context.h"
#include "sim/sim_adapter.h"

static uint32_t context_forks; /* of this process and its parents; atomic */

static void context_after_fork(void)
{
	__atomic_add_fetch(&context_forks, 1, __ATOMIC_RELAXED);
}

static __attribute__((constructor)) void context_watch_forks(void)
{
	pthread_atfork(NULL, NULL, context_after_fork);
}

bool context_is_inherited(const struct ibv_context *context)
{
	return context_verbs(context)->priv->generation !=
	       __atomic_load_n(&context_forks, __ATOMIC_RELAXED);
}

void context_reference(struct ibv_context *context)
{
	__atomic_add_fetch(&context_verbs(context)->priv->objects, 1, __ATOMIC_RELAXED);
}

void context_release(struct ibv_context *context)
{
	__atomic_sub_fetch(&context_verbs(context)->priv->objects, 1, __ATOMIC_RELEASE);
}

static struct ibv_pd *context_alloc_parent_domain(struct ibv_context *context,
						  struct ibv_parent_domain_init_attr *attributes)
{
	(void)context;
	if (!attributes->pd || attributes->comp_mask || attributes->td) {
		errno = attributes->pd ? EOPNOTSUPP : EINVAL;
		return NULL;
	}
	return sim_adapter_parent_domain(attributes->pd);
}

int context_install(struct ibv_context *context)
{
	struct verbs_context *verbs = context_verbs(context);
	struct verbs_ex_private *own = calloc(1, sizeof(*own));
	int error = own ? events_make(&own->events) : ENOMEM;

	if (error) {
		free(own);
		return error;
	}
	own->generation = __atomic_load_n(&context_forks, __ATOMIC_RELAXED);
	verbs->priv = own;
	verbs->query_port = attributes_query_port;
	verbs->query_device_ex = attributes_query_device_ex;
	verbs->alloc_parent_domain = context_alloc_parent_domain;
	context->async_fd = own->events.waiter.fd;
	context->ops.poll_cq = queue_poll;
	context->ops.req_notify_cq = queue_arm;
	context->ops.post_send = post_send;
	context->ops.post_recv = post_receive;
	context->ops.post_srq_recv = post_shared_receive;
	return 0;
}

/* As with a kernel, objects that are left end with the process. */
bool context_uninstall(struct ibv_context *context)
{
	struct verbs_ex_private *own = context_verbs(context)->priv;

	if (__atomic_load_n(&own->objects, __ATOMIC_ACQUIRE))
		return false;
	events_end(&own->events, context_is_inherited(context));
	free(own);
	return true;
}
