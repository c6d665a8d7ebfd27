/* SPDX-License-Identifier: BSD-3-Clause */
/* channel.c -- completion channels: events of the completion queues that use one */
#include <errno.h>
#include <stdlib.h>

#include "sim/plane/context.h"

struct channel {
	struct ibv_comp_channel channel; /* its refcnt is guarded by the waiter's lock */
	struct waiter waiter;
	struct channel_link *first, **last; /* queues with unread events, in the order of events */
};

static struct channel *channel_of(struct ibv_comp_channel *channel)
{
	return (struct channel *)channel;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct channel *channel = calloc(1, sizeof(*channel));
	int error;

	if (!channel)
		return NULL;
	error = context_is_inherited(context) ? EIO : waiter_make(&channel->waiter);
	if (error) {
		free(channel);
		errno = error;
		return NULL;
	}
	channel->last = &channel->first;
	channel->channel.context = context;
	channel->channel.fd = channel->waiter.fd;
	context_reference(context);
	return &channel->channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *public)
{
	struct channel *channel = channel_of(public);
	bool inherited = context_is_inherited(public->context), busy = false;

	if (!inherited) {
		pthread_mutex_lock(&channel->waiter.lock);
		busy = public->refcnt;
		pthread_mutex_unlock(&channel->waiter.lock);
	}
	if (busy)
		return EBUSY;
	waiter_end(&channel->waiter, inherited);
	context_release(public->context);
	free(channel);
	return 0;
}

void channel_attach(struct ibv_comp_channel *public)
{
	struct channel *channel = channel_of(public);

	pthread_mutex_lock(&channel->waiter.lock);
	public->refcnt++;
	pthread_mutex_unlock(&channel->waiter.lock);
}

void channel_detach(struct ibv_comp_channel *public)
{
	struct channel *channel = channel_of(public);

	pthread_mutex_lock(&channel->waiter.lock);
	public->refcnt--;
	pthread_mutex_unlock(&channel->waiter.lock);
}

/* The caller holds the lock. */
static void channel_append(struct channel *channel, struct channel_link *link)
{
	link->next = NULL;
	*channel->last = link;
	channel->last = &link->next;
}

void channel_raise(struct ibv_comp_channel *public, struct channel_link *link)
{
	struct channel *channel = channel_of(public);

	pthread_mutex_lock(&channel->waiter.lock);
	if (!link->unread++)
		channel_append(channel, link);
	waiter_wake(&channel->waiter);
	pthread_mutex_unlock(&channel->waiter.lock);
}

/* The caller holds the lock. */
static void channel_remove(struct channel *channel, const struct channel_link *link)
{
	struct channel_link **at = &channel->first;

	while (*at && *at != link)
		at = &(*at)->next;
	if (!*at)
		return;
	*at = link->next;
	if (!*at)
		channel->last = at;
}

void channel_forget(struct ibv_comp_channel *public, struct channel_link *link)
{
	struct channel *channel = channel_of(public);

	pthread_mutex_lock(&channel->waiter.lock);
	channel_remove(channel, link);
	if (!channel->first)
		waiter_clear(&channel->waiter);
	link->unread = 0;
	while (link->unacknowledged)
		pthread_cond_wait(&channel->waiter.acknowledged, &channel->waiter.lock);
	pthread_mutex_unlock(&channel->waiter.lock);
}

/* The caller holds the lock. The list is not empty. */
static struct ibv_cq *channel_read_first(struct channel *channel)
{
	struct channel_link *link = channel->first;

	channel_remove(channel, link);
	link->unacknowledged++;
	if (--link->unread)
		channel_append(channel, link);
	if (!channel->first)
		waiter_clear(&channel->waiter);
	return link->cq;
}

int ibv_get_cq_event(struct ibv_comp_channel *public, struct ibv_cq **cq, void **cq_context)
{
	struct channel *channel = channel_of(public);
	int error = 0;

	if (context_is_inherited(public->context)) {
		errno = EIO;
		return -1;
	}
	pthread_mutex_lock(&channel->waiter.lock);
	while (!channel->first && !error)
		error = waiter_wait(&channel->waiter);
	if (channel->first) {
		*cq = channel_read_first(channel);
		*cq_context = (*cq)->cq_context;
		error = 0;
	}
	pthread_mutex_unlock(&channel->waiter.lock);
	if (error)
		errno = error;
	return error ? -1 : 0;
}

/* libibverbs counts without a check, and then waits for ever in ibv_destroy_cq. */
void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int count)
{
	struct channel_link *link = queue_link(cq);
	struct channel *channel;

	if (!count || !cq->channel || context_is_inherited(cq->context))
		return;
	channel = channel_of(cq->channel);
	pthread_mutex_lock(&channel->waiter.lock);
	link->unacknowledged -= count < link->unacknowledged ? count : link->unacknowledged;
	pthread_cond_broadcast(&channel->waiter.acknowledged);
	pthread_mutex_unlock(&channel->waiter.lock);
}
