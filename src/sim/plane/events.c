/* SPDX-License-Identifier: BSD-3-Clause */
/* events.c -- asynchronous events of a device context
 *
 * An event is unread, then read, then acknowledged. Records are reused and freed with the context:
 * a free() in a thread that holds locks may unmap memory, which MPI libraries intercept.
 */
#include <errno.h>
#include <stdlib.h>

#include "sim/plane/context.h"

struct event {
	struct event *next;
	struct ibv_async_event event;
};

int events_make(struct event_list *list)
{
	*list = (struct event_list){ .last = &list->first };
	return waiter_make(&list->waiter);
}

static void events_free(struct event *event)
{
	struct event *next;

	for (; event; event = next) {
		next = event->next;
		free(event);
	}
}

void events_end(struct event_list *list, bool inherited)
{
	events_free(list->first);
	events_free(list->read);
	events_free(list->spare);
	waiter_end(&list->waiter, inherited);
}

static struct event_list *events_of(struct ibv_context *context)
{
	return &context_verbs(context)->priv->events;
}

/* The caller holds the lock. NULL: out of memory. */
static struct event *events_take_spare(struct event_list *list)
{
	struct event *event = list->spare;

	if (event)
		list->spare = event->next;
	else
		event = malloc(sizeof(*event));
	return event;
}

void events_raise(struct ibv_context *context, enum ibv_event_type type, void *element)
{
	struct event_list *list = events_of(context);
	struct event *event;

	if (context_is_inherited(context))
		return;
	pthread_mutex_lock(&list->waiter.lock);
	event = events_take_spare(list);
	if (event) {
		*event = (struct event){ .event.event_type = type };
		if (element)
			event->event.element.qp = element;
		else
			event->event.element.port_num = 1;
		*list->last = event;
		list->last = &event->next;
		waiter_wake(&list->waiter);
	}
	pthread_mutex_unlock(&list->waiter.lock);
}

static bool events_is_of(const struct event *event, const void *element)
{
	return event->event.element.qp == element;
}

/* The caller holds the lock. */
static void events_drop_unread(struct event_list *list, const void *element)
{
	struct event **link = &list->first, *event;

	while ((event = *link)) {
		if (!events_is_of(event, element)) {
			link = &event->next;
			continue;
		}
		*link = event->next;
		event->next = list->spare;
		list->spare = event;
	}
	list->last = link;
	if (!list->first)
		waiter_clear(&list->waiter);
}

static bool events_is_read(const struct event_list *list, const void *element)
{
	const struct event *event = list->read;

	while (event && !events_is_of(event, element))
		event = event->next;
	return event;
}

void events_forget(struct ibv_context *context, const void *element)
{
	struct event_list *list = events_of(context);

	if (context_is_inherited(context))
		return;
	pthread_mutex_lock(&list->waiter.lock);
	events_drop_unread(list, element);
	while (events_is_read(list, element))
		pthread_cond_wait(&list->waiter.acknowledged, &list->waiter.lock);
	pthread_mutex_unlock(&list->waiter.lock);
}

/* The context that an event's element is of. NULL: the event is of a port or a device, and needs no
 * acknowledgement. */
static struct ibv_context *events_context(const struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		return event->element.cq->context;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return event->element.qp->context;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return event->element.srq->context;
	default:
		return NULL;
	}
}

/* The caller holds the lock. The list is not empty. */
static void events_read_first(struct event_list *list, struct ibv_async_event *answer)
{
	struct event *event = list->first, **to;

	*answer = event->event;
	list->first = event->next;
	if (!list->first) {
		list->last = &list->first;
		waiter_clear(&list->waiter);
	}
	to = events_context(answer) ? &list->read : &list->spare;
	event->next = *to;
	*to = event;
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct event_list *list = events_of(context);
	int error = 0;

	if (context_is_inherited(context)) {
		errno = EIO;
		return -1;
	}
	pthread_mutex_lock(&list->waiter.lock);
	while (!list->first && !error)
		error = waiter_wait(&list->waiter);
	if (list->first) {
		events_read_first(list, event);
		error = 0;
	}
	pthread_mutex_unlock(&list->waiter.lock);
	if (error)
		errno = error;
	return error ? -1 : 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	struct ibv_context *context = events_context(event);
	struct event_list *list;
	struct event **link, *found;

	if (!context || context_is_inherited(context))
		return;
	list = events_of(context);
	pthread_mutex_lock(&list->waiter.lock);
	for (link = &list->read; *link; link = &(*link)->next) {
		found = *link;
		if (!events_is_of(found, event->element.qp))
			continue;
		*link = found->next;
		found->next = list->spare;
		list->spare = found;
		pthread_cond_broadcast(&list->waiter.acknowledged);
		break;
	}
	pthread_mutex_unlock(&list->waiter.lock);
}
