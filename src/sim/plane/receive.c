/* SPDX-License-Identifier: BSD-3-Clause */
/* receive.c -- receive queues: of one queue pair, and shared ones */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/adapter_access.h"
#include "sim/plane/pair.h"

int receive_make(struct receive_queue *queue, uint32_t capacity, uint32_t pieces)
{
	uint32_t size = 1;

	if (capacity > PLANE_WORK_REQUESTS || pieces > PLANE_SEGMENTS)
		return EINVAL;
	while (size < capacity)
		size *= 2;
	*queue = (struct receive_queue){ .capacity = size, .most_pieces = pieces ? pieces : 1 };
	queue->works = calloc(size, sizeof(*queue->works));
	return queue->works ? 0 : ENOMEM;
}

void receive_free(struct receive_queue *queue)
{
	free(queue->works);
	queue->works = NULL;
}

int receive_post(struct receive_queue *queue, const struct ibv_recv_wr *request)
{
	struct receive_work *work;

	if (request->num_sge < 0 || (uint32_t)request->num_sge > queue->most_pieces)
		return EINVAL;
	if (queue->posted - queue->taken == queue->capacity)
		return ENOMEM;
	work = &queue->works[queue->posted & (queue->capacity - 1)];
	work->id = request->wr_id;
	work->count = (unsigned int)request->num_sge;
	work->length = 0;
	for (unsigned int i = 0; i < work->count; i++) {
		work->pieces[i] = request->sg_list[i];
		work->length += request->sg_list[i].length;
	}
	queue->posted++;
	return 0;
}

bool receive_take(struct receive_queue *queue, struct receive_work *work)
{
	const struct receive_work *oldest = &queue->works[queue->taken & (queue->capacity - 1)];

	if (receive_is_empty(queue))
		return false;
	work->id = oldest->id;
	work->length = oldest->length;
	work->count = oldest->count;
	memcpy(work->pieces, oldest->pieces, oldest->count * sizeof(oldest->pieces[0]));
	queue->taken++;
	return true;
}

/* ---- shared receive queues ---- */

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *wanted)
{
	struct shared_receive *shared = calloc(1, sizeof(*shared));
	int error = shared ? receive_make(&shared->queue, wanted->attr.max_wr, wanted->attr.max_sge)
			   : ENOMEM;

	if (error) {
		free(shared);
		errno = error;
		return NULL;
	}
	shared->srq = (struct ibv_srq){ .context = pd->context,
					.srq_context = wanted->srq_context,
					.pd = pd };
	pthread_mutex_init(&shared->srq.mutex, NULL);
	pthread_cond_init(&shared->srq.cond, NULL);
	shared->queue.limit = wanted->attr.srq_limit;
	wanted->attr.max_wr = shared->queue.capacity;
	wanted->attr.max_sge = shared->queue.most_pieces;
	adapter_count_object(pd, 1);
	context_reference(pd->context);
	return &shared->srq;
}

int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attributes, int mask)
{
	struct shared_receive *shared = (struct shared_receive *)srq;
	int error = 0;

	if (mask & ~IBV_SRQ_LIMIT)
		return EINVAL;
	pthread_mutex_lock(&plane_lock);
	if (attributes->srq_limit > shared->queue.capacity)
		error = EINVAL;
	else if (mask)
		shared->queue.limit = attributes->srq_limit;
	pthread_mutex_unlock(&plane_lock);
	return error;
}

int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attributes)
{
	const struct shared_receive *shared = (const struct shared_receive *)srq;

	pthread_mutex_lock(&plane_lock);
	*attributes = (struct ibv_srq_attr){ .max_wr = shared->queue.capacity,
					     .max_sge = shared->queue.most_pieces,
					     .srq_limit = shared->queue.limit };
	pthread_mutex_unlock(&plane_lock);
	return 0;
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
	struct shared_receive *shared = (struct shared_receive *)srq;

	if (segment_joined()) {
		pthread_mutex_lock(&plane_lock);
		if (shared->pairs) {
			pthread_mutex_unlock(&plane_lock);
			return EBUSY;
		}
		pthread_mutex_unlock(&plane_lock);
		events_forget(srq->context, srq);
	}
	adapter_count_object(srq->pd, -1);
	context_release(srq->context);
	pthread_cond_destroy(&srq->cond);
	pthread_mutex_destroy(&srq->mutex);
	receive_free(&shared->queue);
	free(shared);
	return 0;
}
