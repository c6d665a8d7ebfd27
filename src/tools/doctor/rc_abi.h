/* SPDX-License-Identifier: BSD-3-Clause */
/* rc_abi.h -- libibverbs' binary interface for transfers, declared without verbs.h
 *
 * Functions that verbs.h calls through the context's table are called by their index in that
 * table. tests/readings/rc_abi.c compares all declarations with verbs.h, where installed.
 */
#ifndef PEERPIN_TOOLS_DOCTOR_RC_ABI_H
#define PEERPIN_TOOLS_DOCTOR_RC_ABI_H

#include <stdint.h>

struct rc_context {
	void *device;
	void *operations[32];
};
#define RC_POLL_CQ   11
#define RC_POST_SEND 25

struct rc_cap {
	uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data;
};

struct rc_init {
	void *context, *send_cq, *recv_cq, *srq;
	struct rc_cap cap;
	int type, all_signalled;
};
#define RC_TYPE 2

struct rc_gid {
	uint8_t raw[16];
} __attribute__((aligned(8)));

struct rc_address {
	struct rc_gid gid;
	uint32_t flow_label;
	uint8_t gid_index, hop_limit, traffic_class;
	uint16_t lid __attribute__((aligned(8)));
	uint8_t service_level, source_bits, static_rate, is_global, port;
};

struct rc_attributes {
	int state, current_state, path_mtu, migration;
	uint32_t qkey, rq_psn, sq_psn, destination;
	unsigned int access;
	struct rc_cap cap;
	struct rc_address address, alternative;
	uint16_t pkey_index, alternative_pkey_index;
	uint8_t notify, draining, max_rd_atomic, max_dest_rd_atomic, min_rnr_timer, port, timeout,
		retry_count, rnr_retry, alternative_port, alternative_timeout;
	uint32_t rate_limit;
};

enum rc_state { RC_INIT = 1, RC_RTR, RC_RTS };

enum rc_mask {
	RC_STATE = 1 << 0,
	RC_ACCESS = 1 << 3,
	RC_PKEY_INDEX = 1 << 4,
	RC_PORT = 1 << 5,
	RC_AV = 1 << 7,
	RC_PATH_MTU = 1 << 8,
	RC_TIMEOUT = 1 << 9,
	RC_RETRY = 1 << 10,
	RC_RNR_RETRY = 1 << 11,
	RC_RQ_PSN = 1 << 12,
	RC_MAX_RD_ATOMIC = 1 << 13,
	RC_MIN_RNR_TIMER = 1 << 15,
	RC_SQ_PSN = 1 << 16,
	RC_MAX_DEST_RD_ATOMIC = 1 << 17,
	RC_DESTINATION = 1 << 20,
};

/* First members of struct ibv_qp. */
struct rc_pair {
	void *context, *user, *pd, *send_cq, *recv_cq, *srq;
	uint32_t handle, number;
};

struct rc_piece {
	uint64_t address;
	uint32_t length, lkey;
};

struct rc_request {
	uint64_t id;
	struct rc_request *next;
	struct rc_piece *pieces;
	int piece_count;
	int operation;
	unsigned int flags;
	uint32_t immediate;
	uint64_t remote_address;
	uint32_t rkey;
	uint64_t more[12];
};
#define RC_WRITE    0
#define RC_READ	    4
#define RC_SIGNALED 2

struct rc_completion {
	uint64_t id;
	int status, operation;
	uint32_t vendor_error, length, immediate, pair, source;
	unsigned int flags;
	uint16_t pkey_index, source_lid;
	uint8_t service_level, path_bits;
};

typedef int rc_poll(void *cq, int count, struct rc_completion *completions);
typedef int rc_post(struct rc_pair *pair, struct rc_request *request, struct rc_request **bad);

#endif
