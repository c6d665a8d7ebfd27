/* SPDX-License-Identifier: BSD-3-Clause */
/* queue.c -- completion queues
 *
 * Appended to by the threads that make progress, read by those that poll. The queue's lock guards
 * all but the two positions, which are stored with it and also read without: a poll of an empty
 * queue takes no lock.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/plane/context.h"

enum queue_arming { QUEUE_UNARMED, QUEUE_ARMED_SOLICITED, QUEUE_ARMED };

struct queue {
	struct ibv_cq cq;
	pthread_mutex_t lock;
	struct ibv_wc *completions;
	uint32_t size;		  /* a power of 2 */
	uint32_t added, consumed; /* positions; atomic */
	enum queue_arming arming; /* written with the lock; atomic */
	bool overrun;
	unsigned int references;
	struct channel_link link;
};

static struct queue *queue_of(struct ibv_cq *cq)
{
	return (struct queue *)cq;
}

struct channel_link *queue_link(struct ibv_cq *cq)
{
	return &queue_of(cq)->link;
}

static uint32_t queue_size(int cqe)
{
	uint32_t size = 1;

	while (size < (uint32_t)cqe)
		size <<= 1;
	return size;
}

static struct ibv_wc *queue_at(const struct queue *queue, uint32_t position)
{
	return &queue->completions[position & (queue->size - 1)];
}

/* ---- creation and end ---- */

static int queue_check(struct ibv_context *context, int cqe, struct ibv_comp_channel *channel,
		       int vector)
{
	if (context_is_inherited(context))
		return EIO;
	if (cqe < 1 || cqe > PLANE_COMPLETIONS || vector < 0 ||
	    vector >= context->num_comp_vectors || (channel && channel->context != context))
		return EINVAL;
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int vector)
{
	static uint32_t handles; /* atomic */
	int error = queue_check(context, cqe, channel, vector);
	struct queue *queue;

	if (error) {
		errno = error;
		return NULL;
	}
	queue = calloc(1, sizeof(*queue));
	if (!queue)
		return NULL;
	queue->size = queue_size(cqe);
	queue->completions = malloc(queue->size * sizeof(*queue->completions));
	if (!queue->completions) {
		free(queue);
		return NULL;
	}
	pthread_mutex_init(&queue->lock, NULL);
	queue->cq.context = context;
	queue->cq.channel = channel;
	queue->cq.cq_context = cq_context;
	queue->cq.handle = __atomic_add_fetch(&handles, 1, __ATOMIC_RELAXED);
	queue->cq.cqe = (int)queue->size;
	queue->link.cq = &queue->cq;
	context_reference(context);
	if (channel)
		channel_attach(channel);
	return &queue->cq;
}

static bool queue_is_busy(struct queue *queue)
{
	bool busy;

	pthread_mutex_lock(&queue->lock);
	busy = queue->references;
	pthread_mutex_unlock(&queue->lock);
	return busy;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	struct queue *queue = queue_of(cq);

	if (!context_is_inherited(cq->context)) {
		if (queue_is_busy(queue))
			return EBUSY;
		if (cq->channel) {
			channel_forget(cq->channel, &queue->link);
			channel_detach(cq->channel);
		}
		events_forget(cq->context, cq);
		pthread_mutex_destroy(&queue->lock);
	}
	context_release(cq->context);
	free(queue->completions);
	free(queue);
	return 0;
}

/* ---- queue pairs ---- */

void queue_reference(struct ibv_cq *cq)
{
	struct queue *queue = queue_of(cq);

	pthread_mutex_lock(&queue->lock);
	queue->references++;
	pthread_mutex_unlock(&queue->lock);
}

void queue_release(struct ibv_cq *cq, uint32_t pair_number)
{
	struct queue *queue = queue_of(cq);
	uint32_t kept;

	if (context_is_inherited(cq->context))
		return;
	pthread_mutex_lock(&queue->lock);
	kept = queue->consumed;
	for (uint32_t at = queue->consumed; at != queue->added; at++) {
		if (queue_at(queue, at)->qp_num != pair_number)
			*queue_at(queue, kept++) = *queue_at(queue, at);
	}
	__atomic_store_n(&queue->added, kept, __ATOMIC_RELEASE);
	queue->references--;
	pthread_mutex_unlock(&queue->lock);
}

/* The caller holds the lock. */
static void queue_notify(struct queue *queue, bool solicited)
{
	if (queue->arming == QUEUE_UNARMED ||
	    (queue->arming == QUEUE_ARMED_SOLICITED && !solicited))
		return;
	__atomic_store_n(&queue->arming, QUEUE_UNARMED, __ATOMIC_RELAXED);
	if (queue->cq.channel)
		channel_raise(queue->cq.channel, &queue->link);
}

void queue_complete(struct ibv_cq *cq, const struct ibv_wc *completion, bool solicited)
{
	struct queue *queue = queue_of(cq);
	bool overruns = false;

	pthread_mutex_lock(&queue->lock);
	if (queue->added - queue->consumed == queue->size) {
		overruns = !queue->overrun;
		queue->overrun = true;
	} else {
		*queue_at(queue, queue->added) = *completion;
		__atomic_store_n(&queue->added, queue->added + 1, __ATOMIC_RELEASE);
		queue_notify(queue, solicited || completion->status != IBV_WC_SUCCESS);
	}
	pthread_mutex_unlock(&queue->lock);
	if (overruns)
		events_raise(cq->context, IBV_EVENT_CQ_ERR, cq);
}

/* ---- clients ---- */

static bool queue_is_empty(const struct queue *queue)
{
	return __atomic_load_n(&queue->added, __ATOMIC_ACQUIRE) ==
	       __atomic_load_n(&queue->consumed, __ATOMIC_RELAXED);
}

static int queue_take(struct queue *queue, uint32_t most, struct ibv_wc *completions)
{
	uint32_t count;

	pthread_mutex_lock(&queue->lock);
	count = queue->added - queue->consumed;
	if (count > most)
		count = most;
	for (uint32_t i = 0; i < count; i++)
		completions[i] = *queue_at(queue, queue->consumed + i);
	__atomic_store_n(&queue->consumed, queue->consumed + count, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&queue->lock);
	return (int)count;
}

int queue_poll(struct ibv_cq *cq, int count, struct ibv_wc *completions)
{
	struct queue *queue = queue_of(cq);

	if (count < 0)
		return -EINVAL;
	if (context_is_inherited(cq->context))
		return 0;
	if (queue_is_empty(queue)) {
		/* A client that has armed the queue polls once more, and then waits. */
		progress_poll(__atomic_load_n(&queue->arming, __ATOMIC_RELAXED) == QUEUE_UNARMED);
		if (queue_is_empty(queue))
			return 0;
	}
	return queue_take(queue, (uint32_t)count, completions);
}

int queue_arm(struct ibv_cq *cq, int solicited_only)
{
	struct queue *queue = queue_of(cq);

	if (context_is_inherited(cq->context))
		return 0;
	pthread_mutex_lock(&queue->lock);
	if (!solicited_only)
		__atomic_store_n(&queue->arming, QUEUE_ARMED, __ATOMIC_RELAXED);
	else if (queue->arming == QUEUE_UNARMED)
		__atomic_store_n(&queue->arming, QUEUE_ARMED_SOLICITED, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&queue->lock);
	progress_wait();
	return 0;
}
