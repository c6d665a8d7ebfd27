/* SPDX-License-Identifier: BSD-3-Clause */
/* context.h -- objects of a device context: events, completion channels, completion queues
 *
 * A forked child inherits objects whose locks and waiters belong to its parent. There each function
 * returns at once, without a lock; what it destroys, it frees.
 */
#ifndef PEERPIN_SIM_PLANE_CONTEXT_H
#define PEERPIN_SIM_PLANE_CONTEXT_H

#include <pthread.h>

#include "sim/plane/plane.h"

/* Offset of the context in its device's struct. */
#define context_verbs(context)                                                                     \
	((struct verbs_context *)((char *)(context)-offsetof(struct verbs_context, context)))

/* ---- waiter.c: a descriptor that is readable while a list has elements ---- */

struct waiter {
	pthread_mutex_t lock; /* also guards the list; last in the order of locks */
	pthread_cond_t acknowledged;
	int fd;
	uint32_t added; /* elements so far; threads wait for a change by futex */
	bool readable;	/* fd */
};

/* Return 0 or an errno. */
int waiter_make(struct waiter *waiter);
void waiter_end(struct waiter *waiter, bool inherited);

/* An element was added; none is left. The caller holds the lock. */
void waiter_wake(struct waiter *waiter);
void waiter_clear(struct waiter *waiter);

/* Wait for an element without the lock, which the caller holds. Return 0, or an errno: EAGAIN where
 * the client made the descriptor nonblocking, EINTR. A cancellation point. */
int waiter_wait(struct waiter *waiter);

/* ---- events.c ---- */

struct event;

struct event_list {
	struct waiter waiter;
	struct event *first, **last; /* unread */
	struct event *read;	     /* not yet acknowledged */
	struct event *spare;
};

/* Return 0 or an errno. */
int events_make(struct event_list *list);
void events_end(struct event_list *list, bool inherited);

/* ---- channel.c ---- */

struct channel;

/* A completion queue's part. Guarded by the channel's lock. */
struct channel_link {
	struct ibv_cq *cq;
	struct channel_link *next;
	unsigned int unread, unacknowledged; /* events */
};

struct channel_link *queue_link(struct ibv_cq *cq);

/* A completion queue uses the channel, or no longer. */
void channel_attach(struct ibv_comp_channel *channel);
void channel_detach(struct ibv_comp_channel *channel);

void channel_raise(struct ibv_comp_channel *channel, struct channel_link *link);

/* Remove unread events, then wait until each read one is acknowledged. */
void channel_forget(struct ibv_comp_channel *channel, struct channel_link *link);

/* ---- context.c ---- */

/* In libibverbs's own struct behind verbs_context.priv. */
struct verbs_ex_private {
	struct event_list events;
	unsigned int objects; /* that refer to the context; atomic */
	uint32_t generation;  /* number of forks before */
};

/* ---- attributes.c ---- */

int attributes_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *answer,
			  size_t size);
int attributes_query_device_ex(struct ibv_context *context,
			       const struct ibv_query_device_ex_input *input,
			       struct ibv_device_attr_ex *answer, size_t size);

/* ---- queue.c ---- */

int queue_poll(struct ibv_cq *cq, int count, struct ibv_wc *completions);
int queue_arm(struct ibv_cq *cq, int solicited_only);

#endif
