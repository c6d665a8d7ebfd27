/* SPDX-License-Identifier: BSD-3-Clause */
/* pair.c -- queue pairs: creation, states, end */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/adapter_access.h"
#include "sim/plane/pair.h"

#define INDEX_FIRST 16 /* low numbers are reserved in InfiniBand */

pthread_mutex_t plane_lock = PTHREAD_MUTEX_INITIALIZER;

static struct pair **pairs; /* by index */
static unsigned int next_index = INDEX_FIRST;
static pthread_cond_t unused = PTHREAD_COND_INITIALIZER;

struct pair *pair_find(uint32_t number)
{
	if (!pairs || pair_place(number) != segment_self())
		return NULL;
	return pairs[number & (PLANE_PAIRS - 1)];
}

void pair_for_each(void (*visit)(struct pair *pair, void *argument), void *argument)
{
	for (unsigned int i = INDEX_FIRST; pairs && i < PLANE_PAIRS; i++) {
		if (pairs[i])
			visit(pairs[i], argument);
	}
}

void pair_await_unused(struct pair *pair)
{
	while (pair->uses)
		pthread_cond_wait(&unused, &plane_lock);
}

void pair_unuse(struct pair *pair)
{
	if (!--pair->uses)
		pthread_cond_broadcast(&unused);
}

void pair_refer(struct pair *pair, struct link *link)
{
	respond_forget(pair);
	link_refer(&pair->link, link);
}

bool pair_take_receive(struct pair *pair, struct receive_work *work)
{
	struct receive_queue *queue = pair_receives(pair);

	if (!receive_take(queue, work))
		return false;
	if (queue->limit && queue->posted - queue->taken < queue->limit) {
		queue->limit = 0;
		events_raise(pair->qp.context, IBV_EVENT_SRQ_LIMIT_REACHED, &pair->shared->srq);
	}
	return true;
}

/* ---- creation ---- */

/* Numbers are reused as late as possible. Return 0: none is free. */
static uint32_t pair_take_number(struct pair *pair)
{
	if (!pairs)
		pairs = calloc(PLANE_PAIRS, sizeof(struct pair *));
	for (unsigned int tries = 0; pairs && tries < PLANE_PAIRS; tries++) {
		unsigned int index = next_index;

		next_index = index + 1 < PLANE_PAIRS ? index + 1 : INDEX_FIRST;
		if (!pairs[index]) {
			pairs[index] = pair;
			return segment_self() << PLANE_PAIR_BITS | index;
		}
	}
	return 0;
}

static int pair_check(const struct ibv_qp_init_attr *wanted)
{
	const struct ibv_qp_cap *cap = &wanted->cap;

	if (wanted->qp_type != IBV_QPT_RC && wanted->qp_type != IBV_QPT_UC &&
	    wanted->qp_type != IBV_QPT_UD)
		return EOPNOTSUPP;
	if (!wanted->send_cq || !wanted->recv_cq || cap->max_send_wr > PLANE_WORK_REQUESTS ||
	    cap->max_send_sge > PLANE_SEGMENTS || cap->max_inline_data > PLANE_INLINE)
		return EINVAL;
	return 0;
}

static int pair_make(struct pair *pair, struct ibv_qp_init_attr *wanted)
{
	uint32_t capacity = 1;
	int error = pair_check(wanted);

	if (error)
		return error;
	while (capacity < wanted->cap.max_send_wr)
		capacity *= 2;
	pair->capacity = capacity;
	pair->works = calloc(capacity, sizeof(*pair->works));
	if (!pair->works)
		return ENOMEM;
	pair->shared = (struct shared_receive *)wanted->srq;
	if (!pair->shared) {
		error = receive_make(&pair->own_receives, wanted->cap.max_recv_wr,
				     wanted->cap.max_recv_sge);
		if (error)
			return error;
		wanted->cap.max_recv_wr = pair->own_receives.capacity;
		wanted->cap.max_recv_sge = pair->own_receives.most_pieces;
	}
	wanted->cap.max_send_wr = capacity;
	wanted->cap.max_send_sge = PLANE_SEGMENTS;
	wanted->cap.max_inline_data = PLANE_INLINE;
	return 0;
}

/* A forked child has none of its parent's queue pairs. */
static void pair_forget_all(void)
{
	pairs = NULL;
	link_forget_all();
	request_forget_all();
	progress_forget();
}

static int pair_enter(struct pair *pair)
{
	int error;

	pthread_mutex_lock(&plane_lock);
	if (!segment_joined())
		pair_forget_all();
	error = segment_join();
	if (!error)
		error = progress_start();
	if (!error) {
		pair->qp.qp_num = pair_take_number(pair);
		error = pair->qp.qp_num ? 0 : ENOMEM;
	}
	if (!error && pair->shared)
		pair->shared->pairs++;
	pthread_mutex_unlock(&plane_lock);
	return error;
}

static void pair_free(struct pair *pair)
{
	pthread_cond_destroy(&pair->qp.cond);
	pthread_mutex_destroy(&pair->qp.mutex);
	receive_free(&pair->own_receives);
	free(pair->works);
	free(pair);
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *wanted)
{
	struct pair *pair = calloc(1, sizeof(*pair));
	int error;

	if (!pair) {
		errno = ENOMEM;
		return NULL;
	}
	pthread_mutex_init(&pair->qp.mutex, NULL);
	pthread_cond_init(&pair->qp.cond, NULL);
	error = pair_make(pair, wanted);
	if (!error)
		error = pair_enter(pair);
	if (error) {
		pair_free(pair);
		errno = error;
		return NULL;
	}
	pair->qp.context = pd->context;
	pair->qp.qp_context = wanted->qp_context;
	pair->qp.pd = pd;
	pair->qp.send_cq = wanted->send_cq;
	pair->qp.recv_cq = wanted->recv_cq;
	pair->qp.srq = wanted->srq;
	pair->qp.handle = pair->qp.qp_num;
	pair->qp.qp_type = wanted->qp_type;
	pair->made = *wanted;
	adapter_count_object(pd, 1);
	context_reference(pd->context);
	queue_reference(wanted->send_cq);
	queue_reference(wanted->recv_cq);
	return &pair->qp;
}

/* ---- states ---- */

static void pair_flush_receive(struct pair *pair, uint64_t id)
{
	struct ibv_wc completion = { .wr_id = id,
				     .status = IBV_WC_WR_FLUSH_ERR,
				     .qp_num = pair->qp.qp_num,
				     .opcode = IBV_WC_RECV };

	queue_complete(pair->qp.recv_cq, &completion, false);
}

static void pair_flush(struct pair *pair)
{
	struct receive_queue *queue = &pair->own_receives;

	while (pair->done != pair->posted)
		request_complete(pair, IBV_WC_WR_FLUSH_ERR);
	request_deactivate(pair);
	if (pair->receiving)
		pair_flush_receive(pair, pair->receive.id);
	pair->receiving = false;
	while (!pair->shared && !receive_is_empty(queue))
		pair_flush_receive(pair, queue->works[queue->taken++ & (queue->capacity - 1)].id);
}

void pair_fail(struct pair *pair, int event)
{
	bool entered = pair->state != IBV_QPS_ERR;

	pair->state = pair->qp.state = IBV_QPS_ERR;
	pair_flush(pair);
	if (!entered)
		return;
	if (event >= 0)
		events_raise(pair->qp.context, (enum ibv_event_type)event, &pair->qp);
	if (pair->shared)
		events_raise(pair->qp.context, IBV_EVENT_QP_LAST_WQE_REACHED, &pair->qp);
}

static void pair_reset(struct pair *pair)
{
	request_deactivate(pair);
	pair_refer(pair, NULL);
	pair->done = pair->next = pair->posted = 0;
	pair->reads = 0;
	pair->attempt++; /* refusals of the former connection may be under way */
	pair->pause_until = pair->give_up = 0;
	pair->received = 0;
	pair->receiving = false;
	pair->own_receives.taken = pair->own_receives.posted;
}

/* Modifications that the states allow (InfiniBand, "QP and EE context states"). */
static bool pair_may_become(enum ibv_qp_state from, enum ibv_qp_state to)
{
	switch (to) {
	case IBV_QPS_RESET:
	case IBV_QPS_ERR:
		return true;
	case IBV_QPS_INIT:
		return from == IBV_QPS_RESET || from == IBV_QPS_INIT;
	case IBV_QPS_RTR:
		return from == IBV_QPS_INIT;
	case IBV_QPS_RTS:
		return from == IBV_QPS_RTR || from == IBV_QPS_RTS;
	default:
		return false;
	}
}

static void pair_apply(struct pair *pair, const struct ibv_qp_attr *wanted, int mask)
{
	struct ibv_qp_attr *now = &pair->attributes;

#define APPLY(flag, field)                                                                         \
	if (mask & (flag))                                                                         \
	now->field = wanted->field
	APPLY(IBV_QP_ACCESS_FLAGS, qp_access_flags);
	APPLY(IBV_QP_PKEY_INDEX, pkey_index);
	APPLY(IBV_QP_PORT, port_num);
	APPLY(IBV_QP_QKEY, qkey);
	APPLY(IBV_QP_AV, ah_attr);
	APPLY(IBV_QP_PATH_MTU, path_mtu);
	APPLY(IBV_QP_TIMEOUT, timeout);
	APPLY(IBV_QP_RETRY_CNT, retry_cnt);
	APPLY(IBV_QP_RNR_RETRY, rnr_retry);
	APPLY(IBV_QP_RQ_PSN, rq_psn);
	APPLY(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	APPLY(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
	APPLY(IBV_QP_SQ_PSN, sq_psn);
	APPLY(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	APPLY(IBV_QP_DEST_QPN, dest_qp_num);
#undef APPLY
}

/* An address of no adapter of this host reaches no queue pair: its requests end as unanswered. */
static void pair_connect(struct pair *pair)
{
	pair->expected = pair->attributes.rq_psn;
	if (pair->qp.qp_type != IBV_QPT_UD && address_is_here(&pair->attributes.ah_attr))
		pair_refer(pair, link_to(pair_place(pair->attributes.dest_qp_num)));
}

static void pair_become(struct pair *pair, enum ibv_qp_state state)
{
	enum ibv_qp_state before = pair->state;

	if (state == IBV_QPS_ERR) {
		pair_fail(pair, -1);
		return;
	}
	if (state == IBV_QPS_RTR)
		progress_settle(); /* requests of a former connection may have the same numbers */
	pair->state = pair->qp.state = state;
	if (state == IBV_QPS_RESET)
		pair_reset(pair);
	else if (state == IBV_QPS_RTR)
		pair_connect(pair);
	else if (state == IBV_QPS_RTS && before == IBV_QPS_RTR)
		pair->done = pair->next = pair->posted = pair->attributes.sq_psn;
	else if (state == IBV_QPS_RTS && pair->next != pair->posted)
		request_activate(pair);
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *wanted, int mask)
{
	struct pair *pair = (struct pair *)qp;
	enum ibv_qp_state state;
	int error = 0;

	if (!segment_joined())
		return EINVAL;
	pthread_mutex_lock(&plane_lock);
	pair_await_unused(pair);
	state = mask & IBV_QP_STATE ? wanted->qp_state : pair->state;
	if ((mask & IBV_QP_STATE && !pair_may_become(pair->state, state)) ||
	    (mask & IBV_QP_CUR_STATE && wanted->cur_qp_state != pair->state) ||
	    (mask & IBV_QP_PORT && wanted->port_num != 1) ||
	    (mask & IBV_QP_PKEY_INDEX && wanted->pkey_index))
		error = EINVAL;
	if (!error)
		pair_apply(pair, wanted, mask);
	if (!error && mask & IBV_QP_STATE)
		pair_become(pair, state);
	pthread_mutex_unlock(&plane_lock);
	return error;
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attributes, int mask,
		 struct ibv_qp_init_attr *made)
{
	const struct pair *pair = (const struct pair *)qp;

	(void)mask;
	pthread_mutex_lock(&plane_lock);
	*attributes = pair->attributes;
	attributes->qp_state = attributes->cur_qp_state = pair->state;
	attributes->cap = pair->made.cap;
	attributes->path_mig_state = IBV_MIG_MIGRATED;
	*made = pair->made;
	pthread_mutex_unlock(&plane_lock);
	return 0;
}

/* ---- end ---- */

/* False: the queue pair is the parent's of this forked child, memory alone. */
static bool pair_leave(struct pair *pair)
{
	bool own;

	if (!segment_joined())
		return false;
	pthread_mutex_lock(&plane_lock);
	own = pair_find(pair->qp.qp_num) == pair;
	if (own) {
		pair_await_unused(pair);
		pairs[pair->qp.qp_num & (PLANE_PAIRS - 1)] = NULL;
		request_deactivate(pair);
		pair_refer(pair, NULL);
		if (pair->shared)
			pair->shared->pairs--;
	}
	pthread_mutex_unlock(&plane_lock);
	return own;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	struct pair *pair = (struct pair *)qp;

	if (pair_leave(pair)) {
		events_forget(qp->context, qp);
		queue_release(qp->send_cq, qp->qp_num);
		queue_release(qp->recv_cq, qp->qp_num);
	}
	adapter_count_object(qp->pd, -1);
	context_release(qp->context);
	pair_free(pair);
	return 0;
}
