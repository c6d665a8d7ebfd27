/* SPDX-License-Identifier: BSD-3-Clause */
/* response.c -- requester: completes work requests as responses arrive, or sends them again */
#include <string.h>

#include "sim/plane/pair.h"

#define RETRY                                                                                      \
	((uint64_t)200000) /* ns until a request to a queue pair that is not ready is sent again   \
			    */

/* RNR NAK timers of InfiniBand (table 46), in ns. */
static uint64_t response_timer(uint8_t code)
{
	uint64_t step = 10000; /* 0.01 ms */

	code &= 31;
	if (!code)
		return 655360000;
	if (code < 5)
		return step * code;
	return code & 1 ? step * 3 << (code - 3) / 2 : step * 2 << (code - 2) / 2;
}

/* Send again from `sequence` on, after a pause. */
static void response_go_back(struct pair *pair, uint32_t sequence, uint64_t pause)
{
	for (uint32_t i = sequence; i != pair->next; i++)
		pair->reads -= request_is_read(request_work(pair, i));
	for (uint32_t i = sequence; (int32_t)(pair->next - i) >= 0 && i != pair->posted; i++)
		request_work(pair, i)->moved = 0;
	pair->next = sequence;
	pair->attempt++;
	pair->pause_until = segment_now() + pause;
	request_activate(pair);
}

/* Time that a requester tries to reach a queue pair: 0: without end (timeout 0). */
static uint64_t response_patience(const struct pair *pair)
{
	return pair->attributes.timeout ? ((uint64_t)4096 << pair->attributes.timeout) *
						  (pair->attributes.retry_cnt + 1u)
					: 0;
}

static void response_not_ready(struct pair *pair, uint32_t sequence)
{
	uint64_t now = segment_now(), patience = response_patience(pair);

	if (!pair->give_up)
		pair->give_up = now + patience;
	if (patience && now > pair->give_up)
		request_fail(pair, IBV_WC_RETRY_EXC_ERR);
	else
		response_go_back(pair, sequence, RETRY);
}

static void response_no_receive(struct pair *pair, uint32_t sequence, uint8_t timer)
{
	/* 7: without end */
	if (pair->attributes.rnr_retry != 7 &&
	    pair->receive_refusals++ >= pair->attributes.rnr_retry)
		request_fail(pair, IBV_WC_RNR_RETRY_EXC_ERR);
	else
		response_go_back(pair, sequence, response_timer(timer));
}

static void response_refused(struct pair *pair, const struct packet *packet)
{
	/* Each packet of a message may be refused: the first refusal made the requester go back. */
	if (packet->attempt != pair->attempt)
		return;
	/* Without the reset of counts that a completion makes. */
	while ((int32_t)(packet->sequence - pair->done) > 0)
		request_complete(pair, IBV_WC_SUCCESS);
	switch (packet->status) {
	case REFUSED_NOT_READY:
		response_not_ready(pair, packet->sequence);
		break;
	case REFUSED_NO_RECEIVE:
		response_no_receive(pair, packet->sequence, packet->timer);
		break;
	case REFUSED_ACCESS:
		request_fail(pair, IBV_WC_REM_ACCESS_ERR);
		break;
	case REFUSED_INVALID:
		request_fail(pair, IBV_WC_REM_INV_REQ_ERR);
		break;
	default:
		request_fail(pair, IBV_WC_REM_OP_ERR);
	}
}

/* False: left to the adapter's thread. */
static bool response_data(struct pair *pair, struct link *link, const struct packet *packet,
			  bool in_thread)
{
	struct send_work *work = request_work(pair, packet->sequence);

	if (!request_is_read(work) || packet->offset != work->moved)
		return true;
	switch (transfer_scatter(pair, link, work->pieces, work->count, work->moved, packet + 1,
				 packet->bytes, in_thread)) {
	case TRANSFER_LATER:
		return false;
	case TRANSFER_REFUSED:
		request_complete_until(pair, packet->sequence);
		request_fail(pair, IBV_WC_LOC_PROT_ERR);
		return true;
	case TRANSFER_DONE:
		break;
	}
	work->moved += packet->bytes;
	if (work->moved == packet->length)
		request_complete_until(pair, packet->sequence + 1);
	return true;
}

bool response_handle(struct link *link, const struct packet *packet, bool in_thread)
{
	struct pair *pair = pair_find(packet->to);
	uint32_t sequence = packet->sequence;

	/* A response to an earlier connection, or one that came twice. */
	if (!pair || pair->state != IBV_QPS_RTS || pair->link != link ||
	    packet->from != pair->attributes.dest_qp_num || (int32_t)(sequence - pair->done) < 0)
		return true;
	if ((int32_t)(pair->next - sequence) < 0 ||
	    (pair->next == sequence && (packet->kind != PACKET_REFUSE || sequence == pair->posted)))
		return true;
	if (packet->kind == PACKET_DATA || packet->kind == PACKET_RESULT)
		return response_data(pair, link, packet, in_thread);
	if (packet->kind == PACKET_REFUSE)
		response_refused(pair, packet);
	else
		request_complete_until(pair, sequence + 1);
	return true;
}
