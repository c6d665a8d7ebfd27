/* SPDX-License-Identifier: BSD-3-Clause */
/* request.c -- requester: sends work requests in order, completes them as responses arrive
 *
 * Rings lose nothing, so that only a refusal makes a requester go back. A responder drops what
 * follows a request that it refused, until this one comes again.
 */
#include <string.h>

#include "sim/plane/pair.h"

static struct pair *active; /* by next_active */

/* ---- the list of queue pairs with work to send ---- */

void request_activate(struct pair *pair)
{
	if (pair->active)
		return;
	pair->active = true;
	pair->next_active = active;
	active = pair;
}

void request_deactivate(struct pair *pair)
{
	struct pair **at = &active;

	if (!pair->active)
		return;
	while (*at != pair)
		at = &(*at)->next_active;
	*at = pair->next_active;
	pair->active = false;
}

void request_forget_all(void)
{
	active = NULL;
}

uint64_t request_next_retry(void)
{
	uint64_t next = UINT64_MAX;

	for (const struct pair *pair = active; pair; pair = pair->next_active) {
		if (pair->pause_until && pair->pause_until < next)
			next = pair->pause_until;
	}
	return next;
}

/* ---- completions ---- */

struct send_work *request_work(struct pair *pair, uint32_t sequence)
{
	return &pair->works[sequence & (pair->capacity - 1)];
}

bool request_is_read(const struct send_work *work)
{
	return work->opcode == IBV_WR_RDMA_READ || work->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       work->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static enum ibv_wc_opcode request_opcode(enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	default:
		return IBV_WC_SEND;
	}
}

void request_complete(struct pair *pair, enum ibv_wc_status status)
{
	const struct send_work *work = request_work(pair, pair->done);
	struct ibv_wc completion = { .wr_id = work->id,
				     .status = status,
				     .opcode = request_opcode(work->opcode),
				     .byte_len = (uint32_t)work->length,
				     .qp_num = pair->qp.qp_num };
	bool reports = status || pair->made.sq_sig_all || work->flags & IBV_SEND_SIGNALED;

	if (pair->next == pair->done)
		pair->next++;
	else if (request_is_read(work))
		pair->reads--;
	pair->done++;
	if (reports)
		queue_complete(pair->qp.send_cq, &completion, false);
}

void request_fail(struct pair *pair, enum ibv_wc_status status)
{
	request_complete(pair, status);
	pair_fail(pair, -1);
}

void request_complete_until(struct pair *pair, uint32_t sequence)
{
	while ((int32_t)(sequence - pair->done) > 0)
		request_complete(pair, IBV_WC_SUCCESS);
	pair->give_up = 0;
	pair->receive_refusals = 0;
}

/* ---- sending ---- */

enum sending {
	SENT,
	WAITS,	/* for room in the ring, for the thread, or for a fence */
	FAILED, /* the queue pair is in the error state */
};

static uint8_t request_kind(const struct pair *pair, const struct send_work *work)
{
	if (pair->qp.qp_type == IBV_QPT_UD)
		return PACKET_DATAGRAM;
	switch (work->opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return PACKET_WRITE;
	case IBV_WR_RDMA_READ:
		return PACKET_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return PACKET_ATOMIC;
	default:
		return PACKET_SEND;
	}
}

static uint8_t request_flags(const struct send_work *work)
{
	uint8_t flags = 0;

	if (work->opcode == IBV_WR_SEND_WITH_IMM || work->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		flags |= PACKET_IMMEDIATE;
	if (work->flags & IBV_SEND_SOLICITED)
		flags |= PACKET_SOLICITED;
	if (work->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		flags |= PACKET_ADD;
	return flags;
}

static void request_fill(const struct pair *pair, const struct send_work *work,
			 struct packet *packet)
{
	packet->kind = request_kind(pair, work);
	packet->flags = request_flags(work);
	packet->to =
		packet->kind == PACKET_DATAGRAM ? work->destination : pair->attributes.dest_qp_num;
	packet->from = pair->qp.qp_num;
	packet->sequence = pair->next;
	packet->attempt = pair->attempt;
	packet->length = work->length;
	packet->offset = request_is_read(work) ? 0 : work->moved;
	packet->address = work->address;
	packet->key = work->key;
	packet->immediate = work->immediate;
	packet->lid = address_lid(pair->qp.context);
}

static enum transfer_result request_gather(struct pair *pair, struct link *link,
					   struct send_work *work, void *to, uint32_t bytes,
					   bool in_thread)
{
	if (work->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	    work->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		memcpy(to, work->operands, sizeof(work->operands));
		return TRANSFER_DONE;
	}
	if (work->flags & IBV_SEND_INLINE) {
		memcpy(to, work->data + work->moved, bytes);
		return TRANSFER_DONE;
	}
	return transfer_gather(pair, link, work->pieces, work->count, work->moved, to, bytes,
			       in_thread);
}

/* Bytes of payload of the next packet. */
static uint32_t request_payload(const struct send_work *work, const struct link *link,
				bool in_thread)
{
	uint64_t most = ring_payload(&link->requests, in_thread);

	if (work->opcode == IBV_WR_RDMA_READ)
		return 0;
	if (request_is_read(work))
		return sizeof(work->operands);
	return (uint32_t)(work->length - work->moved < most ? work->length - work->moved : most);
}

static enum sending request_send_packet(struct pair *pair, struct link *link,
					struct send_work *work, bool in_thread)
{
	uint32_t bytes = request_payload(work, link, in_thread);
	struct packet *packet = ring_reserve(&link->requests, bytes);

	if (!packet)
		return WAITS;
	switch (request_gather(pair, link, work, packet + 1, bytes, in_thread)) {
	case TRANSFER_LATER:
		return WAITS;
	case TRANSFER_REFUSED:
		/* Earlier requests may still fail, and READs among them have no data yet. */
		if (pair->done != pair->next)
			return WAITS;
		/* The responder drops the part of a message that it has. */
		request_fail(pair, IBV_WC_LOC_PROT_ERR);
		return FAILED;
	case TRANSFER_DONE:
		break;
	}
	request_fill(pair, work, packet);
	link_publish(link, &link->requests);
	if (!request_is_read(work))
		work->moved += bytes;
	return SENT;
}

/* True: the last packet of the work request is sent. */
static bool request_is_sent(const struct send_work *work)
{
	return request_is_read(work) || work->moved == work->length;
}

static enum sending request_send(struct pair *pair, bool in_thread)
{
	struct send_work *work = request_work(pair, pair->next);
	bool datagram = pair->qp.qp_type == IBV_QPT_UD;
	struct link *link = pair->link;
	enum sending result;

	if (work->flags & IBV_SEND_FENCE && pair->reads)
		return WAITS;
	if (datagram)
		link = work->destination ? link_to(pair_place(work->destination)) : NULL;
	if (!link && datagram) {
		request_complete(pair, IBV_WC_SUCCESS); /* as a datagram that is lost */
		return SENT;
	}
	if (!link || !link->produces || link->taken)
		return WAITS;
	do {
		result = request_send_packet(pair, link, work, in_thread);
		if (result != SENT)
			return result;
	} while (!request_is_sent(work));
	if (request_is_read(work)) {
		work->moved = 0;
		pair->reads++;
	}
	pair->next++;
	if (pair->qp.qp_type != IBV_QPT_RC)
		request_complete(pair, IBV_WC_SUCCESS);
	return SENT;
}

void request_run(struct pair *pair, bool in_thread)
{
	if (pair->pause_until) {
		if (segment_now() < pair->pause_until)
			return;
		pair->pause_until = 0;
	}
	while (pair->next != pair->posted && pair->state == IBV_QPS_RTS) {
		if (request_send(pair, in_thread) != SENT)
			return;
	}
	request_deactivate(pair);
}

/* The thread may release plane_lock, and queue pairs may end meanwhile: it begins anew after each.
 */
static void request_run_all_in_thread(void)
{
	static uint32_t round;
	struct pair *pair;

	round++;
	do {
		for (pair = active; pair && pair->round == round; pair = pair->next_active)
			;
		if (pair) {
			pair->round = round;
			request_run(pair, true);
		}
	} while (pair);
}

void request_run_all(bool in_thread)
{
	struct pair *next;

	if (in_thread) {
		request_run_all_in_thread();
		return;
	}
	for (struct pair *pair = active; pair; pair = next) {
		next = pair->next_active;
		request_run(pair, false);
	}
}

bool request_is_held(void)
{
	const struct pair *pair = active;

	while (pair && pair->pause_until)
		pair = pair->next_active;
	return pair;
}

void request_check_peer(struct pair *pair)
{
	if (pair->uses || pair->state != IBV_QPS_RTS)
		return;
	if (pair->qp.qp_type == IBV_QPT_UD)
		request_run(pair, false);
	else if (pair->done != pair->posted && (!pair->link || !pair->link->produces))
		request_fail(pair, IBV_WC_RETRY_EXC_ERR);
}
