/* SPDX-License-Identifier: BSD-3-Clause */
/* respond.c -- responder: checks and executes the requests of other queue pairs, in order
 *
 * A key is checked with each packet, at the moment of the copy: a key that has ended moves nothing.
 */
#include <string.h>

#include "sim/plane/pair.h"

static bool respond_receives(const struct pair *pair)
{
	return pair->state == IBV_QPS_RTR || pair->state == IBV_QPS_RTS;
}

/* ---- responses ---- */

/* A response without payload. False: the ring is full. */
static bool respond_send(struct link *link, const struct packet *response)
{
	struct packet *packet = NULL;
	uint32_t size;

	if (link_produce(link))
		packet = ring_reserve(&link->responses, 0);
	if (!packet)
		return false;
	size = packet->size;
	*packet = *response;
	packet->size = size;
	link_publish(link, &link->responses);
	return true;
}

/* Refuse a request. The next ones are dropped, since they are not the expected one. */
static bool respond_refuse(struct link *link, struct pair *pair, const struct packet *packet,
			   uint8_t status)
{
	if (pair && pair->qp.qp_type == IBV_QPT_UC) {
		pair->received = 0;
		return true;
	}
	if (!respond_send(link,
			  &(struct packet){ .kind = PACKET_REFUSE,
					    .status = status,
					    .timer = pair ? pair->attributes.min_rnr_timer : 0,
					    .to = packet->from,
					    .from = packet->to,
					    .sequence = packet->sequence,
					    .attempt = packet->attempt }))
		return false;
	if (pair)
		pair->received = 0;
	return true;
}

/* An error that ends the connection on both sides. */
static bool respond_refuse_and_fail(struct link *link, struct pair *pair,
				    const struct packet *packet, uint8_t status, int event)
{
	if (!respond_refuse(link, pair, packet, status))
		return false;
	respond_forget(pair);
	pair_fail(pair, event);
	return true;
}

static void respond_owe(struct link *link, struct pair *pair)
{
	if (pair->owes || pair->qp.qp_type != IBV_QPT_RC)
		return;
	pair->owes = true;
	pair->next_owed = link->owed;
	link->owed = pair;
}

void respond_acknowledge(struct link *link)
{
	struct pair *pair;

	while ((pair = link->owed)) {
		if (!respond_send(link, &(struct packet){ .kind = PACKET_ACKNOWLEDGE,
							  .to = pair->attributes.dest_qp_num,
							  .from = pair->qp.qp_num,
							  .sequence = pair->expected - 1 }))
			return;
		link->owed = pair->next_owed;
		pair->owes = false;
	}
}

void respond_forget(struct pair *pair)
{
	struct pair **at;

	for (struct link *link = link_first; link; link = link->next) {
		if (link->reading.pair == pair->qp.qp_num)
			link->reading.active = false;
		for (at = &link->owed; *at && *at != pair; at = &(*at)->next_owed)
			;
		if (*at)
			*at = pair->next_owed;
	}
	pair->owes = false;
}

/* The message of this packet is complete. */
static void respond_finish(struct link *link, struct pair *pair)
{
	pair->expected++;
	pair->received = 0;
	respond_owe(link, pair);
}

/* ---- receives ---- */

static void respond_receive(struct pair *pair, const struct packet *packet,
			    enum ibv_wc_opcode opcode, enum ibv_wc_status status)
{
	struct ibv_wc completion = { .wr_id = pair->receive.id,
				     .status = status,
				     .opcode = opcode,
				     .byte_len = (uint32_t)packet->length,
				     .qp_num = pair->qp.qp_num,
				     .src_qp = packet->from };

	if (packet->flags & PACKET_IMMEDIATE) {
		completion.wc_flags |= IBV_WC_WITH_IMM;
		completion.imm_data = packet->immediate;
	}
	pair->receiving = false;
	queue_complete(pair->qp.recv_cq, &completion, packet->flags & PACKET_SOLICITED);
}

/* ---- requests of connected queue pairs ---- */

/* A receive cannot take the message: `local` is what its owner sees. */
static bool respond_bad_receive(struct link *link, struct pair *pair, const struct packet *packet,
				uint8_t status, enum ibv_wc_status local)
{
	if (pair->qp.qp_type == IBV_QPT_RC && !respond_refuse(link, pair, packet, status))
		return false;
	respond_receive(pair, packet, IBV_WC_RECV, local);
	respond_forget(pair);
	pair_fail(pair, -1);
	return true;
}

static bool respond_to_send(struct link *link, struct pair *pair, const struct packet *packet,
			    bool in_thread)
{
	if (!pair->receiving) {
		if (!pair_take_receive(pair, &pair->receive))
			return respond_refuse(link, pair, packet, REFUSED_NO_RECEIVE);
		pair->receiving = true;
	}
	if (packet->length > pair->receive.length)
		return respond_bad_receive(link, pair, packet, REFUSED_INVALID, IBV_WC_LOC_LEN_ERR);
	switch (transfer_scatter(pair, link, pair->receive.pieces, pair->receive.count,
				 packet->offset, packet + 1, packet->bytes, in_thread)) {
	case TRANSFER_LATER:
		return false;
	case TRANSFER_REFUSED:
		return respond_bad_receive(link, pair, packet, REFUSED_OPERATION,
					   IBV_WC_LOC_PROT_ERR);
	case TRANSFER_DONE:
		break;
	}
	pair->received += packet->bytes;
	if (pair->received == packet->length) {
		respond_receive(pair, packet, IBV_WC_RECV, IBV_WC_SUCCESS);
		respond_finish(link, pair);
	}
	return true;
}

static bool respond_to_write(struct link *link, struct pair *pair, const struct packet *packet,
			     bool in_thread)
{
	bool last = packet->offset + packet->bytes == packet->length;
	bool notifies = last && packet->flags & PACKET_IMMEDIATE;
	enum transfer_result result = TRANSFER_DONE;

	if (notifies && !pair->receiving) {
		if (!pair_take_receive(pair, &pair->receive))
			return respond_refuse(link, pair, packet, REFUSED_NO_RECEIVE);
		pair->receiving = true;
	}
	if (packet->length)
		result = transfer_write(pair, link, packet->key, packet->address, packet->length,
					packet->offset, packet + 1, packet->bytes, in_thread);
	if (result == TRANSFER_LATER)
		return false;
	if (result == TRANSFER_REFUSED)
		return respond_refuse_and_fail(link, pair, packet, REFUSED_ACCESS,
					       IBV_EVENT_QP_ACCESS_ERR);
	pair->received += packet->bytes;
	if (notifies)
		respond_receive(pair, packet, IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_SUCCESS);
	if (last)
		respond_finish(link, pair);
	return true;
}

static bool respond_to_atomic(struct link *link, struct pair *pair, const struct packet *packet,
			      bool in_thread)
{
	struct packet *response = NULL;
	uint64_t operands[2];

	if (packet->address % sizeof(uint64_t))
		return respond_refuse_and_fail(link, pair, packet, REFUSED_INVALID,
					       IBV_EVENT_QP_REQ_ERR);
	if (link_produce(link))
		response = ring_reserve(&link->responses, sizeof(uint64_t));
	if (!response)
		return false;
	memcpy(operands, packet + 1, sizeof(operands));
	switch (transfer_atomic(pair, link, packet->key, packet->address,
				packet->flags & PACKET_ADD, operands, (uint64_t *)(response + 1),
				in_thread)) {
	case TRANSFER_LATER:
		return false;
	case TRANSFER_REFUSED:
		return respond_refuse_and_fail(link, pair, packet, REFUSED_ACCESS,
					       IBV_EVENT_QP_ACCESS_ERR);
	case TRANSFER_DONE:
		break;
	}
	response->kind = PACKET_RESULT;
	response->to = packet->from;
	response->from = packet->to;
	response->sequence = packet->sequence;
	response->length = sizeof(uint64_t);
	response->offset = 0;
	link_publish(link, &link->responses);
	respond_finish(link, pair);
	return true;
}

/* The packet stays in the ring until its READ is answered. */
static bool respond_to_read(struct link *link, struct pair *pair, const struct packet *packet,
			    bool in_thread)
{
	/* A READ that was not answered to its end belonged to a queue pair that ended. */
	if (!link->reading.active || link->reading.pair != pair->qp.qp_num ||
	    link->reading.sequence != packet->sequence)
		link->reading = (struct link_reading){ .active = true,
						       .pair = pair->qp.qp_num,
						       .sequence = packet->sequence };
	return respond_read(link, in_thread);
}

/* One packet of the answer. False: later. `*ended`: no more follow. */
static bool respond_read_packet(struct link *link, struct pair *pair, const struct packet *request,
				bool in_thread, bool *ended)
{
	uint64_t left = request->length - link->reading.sent,
		 most = ring_payload(&link->responses, in_thread);
	uint32_t bytes = (uint32_t)(left < most ? left : most);
	struct packet *packet = ring_reserve(&link->responses, bytes);
	enum transfer_result result = TRANSFER_DONE;

	if (!packet)
		return false;
	if (request->length)
		result = transfer_read(pair, link, request->key, request->address, request->length,
				       link->reading.sent, packet + 1, bytes, in_thread);
	if (result == TRANSFER_LATER)
		return false;
	if (result == TRANSFER_REFUSED) {
		*ended = true;
		return respond_refuse_and_fail(link, pair, request, REFUSED_ACCESS,
					       IBV_EVENT_QP_ACCESS_ERR);
	}
	packet->kind = PACKET_DATA;
	packet->to = request->from;
	packet->from = request->to;
	packet->sequence = request->sequence;
	packet->length = request->length;
	packet->offset = link->reading.sent;
	link_publish(link, &link->responses);
	link->reading.sent += bytes;
	*ended = link->reading.sent == request->length;
	if (*ended)
		respond_finish(link, pair);
	return true;
}

bool respond_read(struct link *link, bool in_thread)
{
	const struct packet *request = ring_peek(&link->their_requests);
	struct pair *pair = pair_find(link->reading.pair);
	bool ended = false;

	while (link->reading.active && !ended) {
		/* The queue pair may have ended, or begun a new connection, meanwhile. */
		if (!pair || pair->link != link || pair->expected != link->reading.sequence ||
		    !respond_receives(pair))
			break;
		if (!link_produce(link) ||
		    !respond_read_packet(link, pair, request, in_thread, &ended))
			return false;
	}
	link->reading.active = false;
	return true;
}

/* The access flag that the queue pair requires; 0: none. */
static unsigned int respond_required(const struct packet *packet)
{
	switch (packet->kind) {
	case PACKET_WRITE:
		return IBV_ACCESS_REMOTE_WRITE;
	case PACKET_READ:
		return IBV_ACCESS_REMOTE_READ;
	case PACKET_ATOMIC:
		return IBV_ACCESS_REMOTE_ATOMIC;
	default:
		return 0;
	}
}

static bool respond_connected(struct link *link, struct pair *pair, const struct packet *packet,
			      bool in_thread)
{
	int32_t ahead = (int32_t)(packet->sequence - pair->expected);

	if (pair->qp.qp_type == IBV_QPT_UC && ahead) {
		/* A message was lost; a new one begins. */
		if (packet->offset)
			return true;
		pair->expected = packet->sequence;
		pair->received = 0;
		ahead = 0;
	}
	if (ahead < 0)
		respond_owe(link, pair);
	if (ahead || packet->offset != pair->received)
		return true;
	if (respond_required(packet) & ~pair->attributes.qp_access_flags)
		return respond_refuse_and_fail(link, pair, packet, REFUSED_INVALID,
					       IBV_EVENT_QP_REQ_ERR);
	switch (packet->kind) {
	case PACKET_SEND:
		return respond_to_send(link, pair, packet, in_thread);
	case PACKET_WRITE:
		return respond_to_write(link, pair, packet, in_thread);
	case PACKET_READ:
		return respond_to_read(link, pair, packet, in_thread);
	case PACKET_ATOMIC:
		return respond_to_atomic(link, pair, packet, in_thread);
	default:
		return true;
	}
}

/* ---- all requests ---- */

bool respond_request(struct link *link, const struct packet *packet, bool in_thread)
{
	struct pair *pair = pair_find(packet->to);
	bool datagram = packet->kind == PACKET_DATAGRAM;
	bool receives = pair && respond_receives(pair);

	if (datagram)
		return !receives || pair->qp.qp_type != IBV_QPT_UD ||
		       datagram_receive(link, pair, packet, in_thread);
	if (receives && pair->qp.qp_type != IBV_QPT_UD && pair->link != link &&
	    pair->attributes.dest_qp_num == packet->from)
		pair_refer(pair, link); /* the peer's rings came first */
	if (receives && pair->qp.qp_type != IBV_QPT_UD && pair->link == link &&
	    pair->attributes.dest_qp_num == packet->from)
		return respond_connected(link, pair, packet, in_thread);
	/* As silence on a wire, which makes the requester try again. The queue pair may have ended
	 * in the middle of a message. */
	return respond_refuse(link, NULL, packet, REFUSED_NOT_READY);
}
