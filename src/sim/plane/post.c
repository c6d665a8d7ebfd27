/* SPDX-License-Identifier: BSD-3-Clause */
/* post.c -- work requests of clients: checked, copied, and sent as far as the rings take them */
#include <errno.h>
#include <string.h>

#include "sim/plane/pair.h"

static bool post_allows(enum ibv_qp_type type, enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
		return true;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return type != IBV_QPT_UD;
	case IBV_WR_RDMA_READ:
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return type == IBV_QPT_RC;
	default:
		return false;
	}
}

static void post_copy_target(struct send_work *work, const struct ibv_send_wr *request,
			     enum ibv_qp_type type)
{
	const struct ibv_ah_attr *address;

	work->opcode = request->opcode;
	work->immediate = request->imm_data;
	if (type == IBV_QPT_UD) {
		address = address_attributes(request->wr.ud.ah);
		work->destination = address_is_here(address) ? request->wr.ud.remote_qpn : 0;
		work->key = request->wr.ud.remote_qkey;
	} else if (request->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
		   request->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		work->address = request->wr.atomic.remote_addr;
		work->key = request->wr.atomic.rkey;
		work->operands[0] = request->wr.atomic.compare_add;
		work->operands[1] = request->wr.atomic.swap;
	} else {
		work->address = request->wr.rdma.remote_addr;
		work->key = request->wr.rdma.rkey;
	}
}

/* Inline data is copied: the client may reuse it at once. */
static int post_copy_pieces(struct send_work *work, const struct ibv_send_wr *request)
{
	char *to = work->data;

	for (int i = 0; i < request->num_sge; i++)
		work->length += request->sg_list[i].length;
	if (!(work->flags & IBV_SEND_INLINE)) {
		work->count = (unsigned int)request->num_sge;
		memcpy(work->pieces, request->sg_list, work->count * sizeof(work->pieces[0]));
		return 0;
	}
	if (work->length > PLANE_INLINE)
		return EINVAL;
	for (int i = 0; i < request->num_sge; i++) {
		const struct ibv_sge *piece = &request->sg_list[i];

		memcpy(to, (const void *)(uintptr_t)piece->addr, piece->length);
		to += piece->length;
	}
	return 0;
}

static int post_add(struct pair *pair, const struct ibv_send_wr *request)
{
	struct send_work *work = &pair->works[pair->posted & (pair->capacity - 1)];
	enum ibv_qp_type type = pair->qp.qp_type;
	int error;

	if (!post_allows(type, request->opcode) || request->num_sge < 0 ||
	    request->num_sge > PLANE_SEGMENTS)
		return EINVAL;
	if (pair->posted - pair->done == pair->capacity)
		return ENOMEM;
	work->id = request->wr_id;
	work->flags = request->send_flags;
	work->length = work->moved = 0;
	work->count = 0;
	post_copy_target(work, request, type);
	error = post_copy_pieces(work, request);
	if (!error && type == IBV_QPT_UD && work->length > PAIR_MTU)
		error = EINVAL;
	if (!error)
		pair->posted++;
	return error;
}

int post_send(struct ibv_qp *qp, struct ibv_send_wr *request, struct ibv_send_wr **bad)
{
	struct pair *pair = (struct pair *)qp;
	int error = 0;

	if (!segment_joined()) {
		*bad = request;
		return ENODEV;
	}
	pthread_mutex_lock(&plane_lock);
	if (pair->state != IBV_QPS_RTS && pair->state != IBV_QPS_ERR)
		error = EINVAL;
	for (; request && !error; request = request->next) {
		error = post_add(pair, request);
		if (error)
			break;
	}
	if (error)
		*bad = request;
	if (pair->state == IBV_QPS_ERR) {
		pair_fail(pair, -1);
	} else if (pair->next != pair->posted) {
		request_activate(pair);
		request_run(pair, false);
		if (pair->active)
			progress_go_on();
	}
	pthread_mutex_unlock(&plane_lock);
	return error;
}

int post_receive(struct ibv_qp *qp, struct ibv_recv_wr *request, struct ibv_recv_wr **bad)
{
	struct pair *pair = (struct pair *)qp;
	int error = 0;

	if (!segment_joined()) {
		*bad = request;
		return ENODEV;
	}
	pthread_mutex_lock(&plane_lock);
	if (pair->shared || pair->state == IBV_QPS_RESET)
		error = EINVAL;
	for (; request && !error; request = request->next) {
		error = receive_post(&pair->own_receives, request);
		if (error)
			break;
	}
	if (error)
		*bad = request;
	if (pair->state == IBV_QPS_ERR)
		pair_fail(pair, -1);
	pthread_mutex_unlock(&plane_lock);
	return error;
}

int post_shared_receive(struct ibv_srq *srq, struct ibv_recv_wr *request, struct ibv_recv_wr **bad)
{
	struct shared_receive *shared = (struct shared_receive *)srq;
	int error = 0;

	pthread_mutex_lock(&plane_lock);
	for (; request; request = request->next) {
		error = receive_post(&shared->queue, request);
		if (error) {
			*bad = request;
			break;
		}
	}
	pthread_mutex_unlock(&plane_lock);
	return error;
}
