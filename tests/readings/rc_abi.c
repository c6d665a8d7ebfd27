/* SPDX-License-Identifier: BSD-3-Clause */
/* rc_abi.c -- compares rc_abi.h with verbs.h at compile time */
#include <stddef.h>

#include "tools/doctor/rc_abi.h"

#if __has_include(<infiniband/verbs.h>)
#include <infiniband/verbs.h>

#define SAME(ours, our_field, theirs, their_field)                                                 \
	_Static_assert(offsetof(struct ours, our_field) == offsetof(struct theirs, their_field),   \
		       #our_field)
#define SIZE(ours, theirs) _Static_assert(sizeof(struct ours) == sizeof(struct theirs), #ours)

_Static_assert(offsetof(struct rc_context, operations[RC_POLL_CQ]) ==
		       offsetof(struct ibv_context, ops.poll_cq),
	       "poll_cq");
_Static_assert(offsetof(struct rc_context, operations[RC_POST_SEND]) ==
		       offsetof(struct ibv_context, ops.post_send),
	       "post_send");
SIZE(rc_cap, ibv_qp_cap);
SIZE(rc_init, ibv_qp_init_attr);
SAME(rc_init, cap, ibv_qp_init_attr, cap);
SAME(rc_init, type, ibv_qp_init_attr, qp_type);
_Static_assert(RC_TYPE == IBV_QPT_RC, "type");
SIZE(rc_address, ibv_ah_attr);
SAME(rc_address, gid_index, ibv_ah_attr, grh.sgid_index);
SAME(rc_address, hop_limit, ibv_ah_attr, grh.hop_limit);
SAME(rc_address, lid, ibv_ah_attr, dlid);
SAME(rc_address, is_global, ibv_ah_attr, is_global);
SAME(rc_address, port, ibv_ah_attr, port_num);
/* Newer versions append a field, which doctor does not use. */
SIZE(rc_attributes, ibv_qp_attr);
SAME(rc_attributes, path_mtu, ibv_qp_attr, path_mtu);
SAME(rc_attributes, rq_psn, ibv_qp_attr, rq_psn);
SAME(rc_attributes, destination, ibv_qp_attr, dest_qp_num);
SAME(rc_attributes, access, ibv_qp_attr, qp_access_flags);
SAME(rc_attributes, address, ibv_qp_attr, ah_attr);
SAME(rc_attributes, pkey_index, ibv_qp_attr, pkey_index);
SAME(rc_attributes, max_rd_atomic, ibv_qp_attr, max_rd_atomic);
SAME(rc_attributes, max_dest_rd_atomic, ibv_qp_attr, max_dest_rd_atomic);
SAME(rc_attributes, min_rnr_timer, ibv_qp_attr, min_rnr_timer);
SAME(rc_attributes, port, ibv_qp_attr, port_num);
SAME(rc_attributes, timeout, ibv_qp_attr, timeout);
SAME(rc_attributes, retry_count, ibv_qp_attr, retry_cnt);
SAME(rc_attributes, rnr_retry, ibv_qp_attr, rnr_retry);
_Static_assert((int)RC_INIT == IBV_QPS_INIT && (int)RC_RTR == IBV_QPS_RTR &&
		       (int)RC_RTS == IBV_QPS_RTS,
	       "states");
_Static_assert((int)RC_STATE == IBV_QP_STATE && (int)RC_ACCESS == IBV_QP_ACCESS_FLAGS &&
		       (int)RC_PKEY_INDEX == IBV_QP_PKEY_INDEX && (int)RC_PORT == IBV_QP_PORT &&
		       (int)RC_AV == IBV_QP_AV && (int)RC_PATH_MTU == IBV_QP_PATH_MTU &&
		       (int)RC_TIMEOUT == IBV_QP_TIMEOUT && (int)RC_RETRY == IBV_QP_RETRY_CNT &&
		       (int)RC_RNR_RETRY == IBV_QP_RNR_RETRY && (int)RC_RQ_PSN == IBV_QP_RQ_PSN &&
		       (int)RC_MAX_RD_ATOMIC == IBV_QP_MAX_QP_RD_ATOMIC &&
		       (int)RC_MIN_RNR_TIMER == IBV_QP_MIN_RNR_TIMER &&
		       (int)RC_SQ_PSN == IBV_QP_SQ_PSN &&
		       (int)RC_MAX_DEST_RD_ATOMIC == IBV_QP_MAX_DEST_RD_ATOMIC &&
		       (int)RC_DESTINATION == IBV_QP_DEST_QPN,
	       "masks");
SAME(rc_pair, number, ibv_qp, qp_num);
SIZE(rc_piece, ibv_sge);
SAME(rc_piece, length, ibv_sge, length);
SAME(rc_piece, lkey, ibv_sge, lkey);
_Static_assert(sizeof(struct rc_request) >= sizeof(struct ibv_send_wr), "request");
SAME(rc_request, pieces, ibv_send_wr, sg_list);
SAME(rc_request, piece_count, ibv_send_wr, num_sge);
SAME(rc_request, operation, ibv_send_wr, opcode);
SAME(rc_request, flags, ibv_send_wr, send_flags);
SAME(rc_request, remote_address, ibv_send_wr, wr.rdma.remote_addr);
SAME(rc_request, rkey, ibv_send_wr, wr.rdma.rkey);
_Static_assert(RC_WRITE == IBV_WR_RDMA_WRITE && RC_READ == IBV_WR_RDMA_READ &&
		       RC_SIGNALED == IBV_SEND_SIGNALED,
	       "operations");
SIZE(rc_completion, ibv_wc);
SAME(rc_completion, status, ibv_wc, status);
#endif

int main(void)
{
	return 0;
}
