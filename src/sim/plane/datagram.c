/* SPDX-License-Identifier: BSD-3-Clause */
/* datagram.c -- datagrams: received, or lost without a word */
#include <string.h>

#include "sim/plane/pair.h"

/* The GRH that precedes a datagram: version 6, and both addresses. */
static void datagram_make_grh(const struct pair *pair, const struct packet *packet, char *to)
{
	union ibv_gid gid;

	memset(to, 0, PAIR_GRH);
	to[0] = 0x60;
	address_gid(pair->qp.context, &gid);
	memcpy(to + 24, &gid, sizeof(gid));
	gid.raw[15] = (uint8_t)packet->lid;
	memcpy(to + 8, &gid, sizeof(gid));
}

bool datagram_receive(struct link *link, struct pair *pair, const struct packet *packet,
		      bool in_thread)
{
	struct ibv_wc completion = { .opcode = IBV_WC_RECV,
				     .byte_len = packet->bytes + PAIR_GRH,
				     .qp_num = pair->qp.qp_num,
				     .src_qp = packet->from,
				     .slid = (uint16_t)packet->lid,
				     .wc_flags = IBV_WC_GRH };
	char message[PAIR_GRH + PAIR_MTU];

	if (packet->key != pair->attributes.qkey || packet->bytes > PAIR_MTU)
		return true;
	if (!pair->receiving && !pair_take_receive(pair, &pair->receive))
		return true;
	pair->receiving = true;
	completion.wr_id = pair->receive.id;
	datagram_make_grh(pair, packet, message);
	memcpy(message + PAIR_GRH, packet + 1, packet->bytes);
	if (completion.byte_len > pair->receive.length) {
		completion.status = IBV_WC_LOC_LEN_ERR;
	} else {
		switch (transfer_scatter(pair, link, pair->receive.pieces, pair->receive.count, 0,
					 message, completion.byte_len, in_thread)) {
		case TRANSFER_LATER:
			return false;
		case TRANSFER_REFUSED:
			completion.status = IBV_WC_LOC_PROT_ERR;
			break;
		case TRANSFER_DONE:
			break;
		}
	}
	if (packet->flags & PACKET_IMMEDIATE) {
		completion.wc_flags |= IBV_WC_WITH_IMM;
		completion.imm_data = packet->immediate;
	}
	pair->receiving = false;
	queue_complete(pair->qp.recv_cq, &completion, packet->flags & PACKET_SOLICITED);
	if (completion.status)
		pair_fail(pair, -1);
	return true;
}
