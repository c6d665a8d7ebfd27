/* SPDX-License-Identifier: BSD-3-Clause */
/* pairs.c -- queue pairs between a test's processes */
#include "pairs.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define DEPTH	    1024 /* work requests of each queue */
#define COMPLETIONS 16384
#define PIECES	    3

/* 1 s, 7 times: the other side may be software on a stalled processor. */
const struct connection pairs_defaults = {
	.access = ALL_ACCESS, .timeout = 18, .retries = 7, .rnr_retry = 7, .rnr_timer = 12
};

bool pairs_simulated(void)
{
	const char *kind = getenv("RDMA_TEST_KIND");

	return kind && !strcmp(kind, "sim");
}

bool pairs_soft_roce(void)
{
	const char *kind = getenv("RDMA_TEST_KIND");

	return kind && (!strcmp(kind, "rxe") || !strcmp(kind, "vm"));
}

enum ibv_wc_status pairs_local_error(enum ibv_wc_status status)
{
	return pairs_soft_roce() && status == IBV_WC_LOC_QP_OP_ERR ? IBV_WC_LOC_PROT_ERR : status;
}

static uint8_t gid_index(void)
{
	const char *index = getenv("RDMA_TEST_GID_INDEX");

	return index ? (uint8_t)atoi(index) : 0;
}

time_t pairs_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

/* ---- the device ---- */

void device_open(struct device *device, size_t size)
{
	const char *name = getenv("RDMA_TEST_DEVICE");
	struct ibv_device **devices = ibv_get_device_list(NULL);

	*device = (struct device){ .size = size };
	must(devices);
	for (int i = 0; devices[i] && !device->context; i++) {
		if (!name || !strcmp(ibv_get_device_name(devices[i]), name))
			device->context = ibv_open_device(devices[i]);
	}
	must(device->context);
	ibv_free_device_list(devices);
	must((device->pd = ibv_alloc_pd(device->context)));
	must((device->channel = ibv_create_comp_channel(device->context)));
	must((device->cq =
		      ibv_create_cq(device->context, COMPLETIONS, device, device->channel, 0)));
	device->memory =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(device->memory != MAP_FAILED);
	must((device->mr = ibv_reg_mr(device->pd, device->memory, size, ALL_ACCESS)));
}

void device_close(struct device *device)
{
	must(!ibv_dereg_mr(device->mr));
	must(!munmap(device->memory, device->size));
	must(!ibv_destroy_cq(device->cq));
	must(!ibv_destroy_comp_channel(device->channel));
	must(!ibv_dealloc_pd(device->pd));
	must(!ibv_close_device(device->context));
}

void device_expect_event(const struct device *device, enum ibv_event_type type, const void *element)
{
	struct ibv_async_event event;

	do {
		must(!ibv_get_async_event(device->context, &event));
		ibv_ack_async_event(&event);
	} while (event.event_type == IBV_EVENT_COMM_EST);
	must(event.event_type == type && (const void *)event.element.qp == element);
}

/* ---- queue pairs ---- */

struct ibv_qp *device_pair(const struct device *device, enum ibv_qp_type type, struct ibv_srq *srq,
			   const struct connection *connection)
{
	struct ibv_qp_init_attr wanted = {
		.send_cq = device->cq,
		.recv_cq = device->cq,
		.srq = srq,
		.cap = { .max_send_wr = DEPTH,
			 .max_recv_wr = DEPTH,
			 .max_send_sge = PIECES,
			 .max_recv_sge = PIECES,
			 .max_inline_data = 64 },
		.qp_type = type,
	};
	struct ibv_qp_attr attributes = { .qp_state = IBV_QPS_INIT,
					  .port_num = 1,
					  .qkey = PAIRS_QKEY,
					  .qp_access_flags = (unsigned int)connection->access };
	struct ibv_qp *pair = ibv_create_qp(device->pd, &wanted);

	must(pair);
	must(!ibv_modify_qp(pair, &attributes,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				    (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)));
	return pair;
}

void device_card(const struct device *device, const struct ibv_qp *pair, struct card *card)
{
	struct ibv_port_attr port;

	must(!ibv_query_port(device->context, 1, &port));
	*card = (struct card){ .number = pair->qp_num,
			       .key = device->mr->rkey,
			       .address = (uintptr_t)device->memory,
			       .lid = port.lid };
	must(!ibv_query_gid(device->context, 1, gid_index(), &card->gid));
}

static struct ibv_ah_attr pair_address(const struct card *to)
{
	return (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = 1,
		.dlid = to->lid,
		.grh = { .dgid = to->gid, .sgid_index = gid_index(), .hop_limit = 1 }
	};
}

void pair_connect(struct ibv_qp *pair, const struct card *to, const struct connection *connection)
{
	struct ibv_port_attr port;
	struct ibv_qp_attr attributes;

	must(!ibv_query_port(pair->context, 1, &port));
	attributes = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
					   .path_mtu = port.active_mtu,
					   .dest_qp_num = to->number,
					   .rq_psn = 7,
					   .min_rnr_timer = connection->rnr_timer,
					   .max_dest_rd_atomic = 16,
					   .ah_attr = pair_address(to) };
	must(!ibv_modify_qp(pair, &attributes,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER));
	attributes = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
					   .sq_psn = 7,
					   .timeout = connection->timeout,
					   .retry_cnt = connection->retries,
					   .rnr_retry = connection->rnr_retry,
					   .max_rd_atomic = 16 };
	must(!ibv_modify_qp(pair, &attributes,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

void pair_start_datagrams(struct ibv_qp *pair)
{
	struct ibv_qp_attr attributes = { .qp_state = IBV_QPS_RTR };

	must(!ibv_modify_qp(pair, &attributes, IBV_QP_STATE));
	attributes.qp_state = IBV_QPS_RTS;
	must(!ibv_modify_qp(pair, &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

struct ibv_ah *device_address(const struct device *device, const struct card *to)
{
	struct ibv_ah_attr attributes = pair_address(to);
	struct ibv_ah *address = ibv_create_ah(device->pd, &attributes);

	must(address);
	return address;
}

enum ibv_qp_state pair_state(struct ibv_qp *pair)
{
	struct ibv_qp_attr attributes;
	struct ibv_qp_init_attr made;

	must(!ibv_query_qp(pair, &attributes, IBV_QP_STATE, &made));
	return attributes.qp_state;
}

void pairs_mesh(const struct device *device, unsigned int self, struct ibv_qp **pairs,
		struct ibv_srq *srq, const struct connection *connection)
{
	for (unsigned int i = 0; i < processes_count(); i++) {
		pairs[i] = NULL;
		if (i == self)
			continue;
		pairs[i] = device_pair(device, IBV_QPT_RC, srq, connection);
		device_card(device, pairs[i], &board->cards[self][i]);
	}
	processes_meet();
	for (unsigned int i = 0; i < processes_count(); i++) {
		if (pairs[i])
			pair_connect(pairs[i], &board->cards[i][self], connection);
	}
	processes_meet();
}

void pairs_end(struct ibv_qp **pairs)
{
	for (unsigned int i = 0; i < processes_count(); i++) {
		if (pairs[i])
			must(!ibv_destroy_qp(pairs[i]));
		pairs[i] = NULL;
	}
}

void pairs_side(unsigned int self, size_t size, const struct connection *connection,
		void (*body)(struct side *side))
{
	struct side side = { .self = self };

	device_open(&side.device, size);
	pairs_mesh(&side.device, self, side.pairs, NULL, connection);
	if (processes_count() == 2) {
		side.pair = side.pairs[!self];
		side.peer = &board->cards[!self][self];
	}
	body(&side);
	processes_meet();
	pairs_end(side.pairs);
	device_close(&side.device);
}

static struct {
	size_t size;
	const struct connection *connection;
	void (*body)(struct side *side);
} run; /* of the test, for its processes */

static void side_run(unsigned int self)
{
	pairs_side(self, run.size, run.connection, run.body);
}

void pairs_start(unsigned int count, size_t size, const struct connection *connection,
		 void (*body)(struct side *side))
{
	run = (__typeof__(run)){ size, connection, body };
	processes_start(count, side_run);
}

void pairs_run(unsigned int count, size_t size, const struct connection *connection,
	       void (*body)(struct side *side))
{
	pairs_start(count, size, connection, body);
	processes_end();
}

/* ---- work requests ---- */

/* Return the number of pieces. */
static int pair_make_pieces(struct ibv_sge *pieces, unsigned int count, uint64_t address,
			    uint32_t length, uint32_t lkey)
{
	uint32_t take;

	for (unsigned int i = 0; i < count; i++) {
		take = i == count - 1 ? length : length / 3 + (i & length & 1);
		pieces[i] = (struct ibv_sge){ .addr = address, .length = take, .lkey = lkey };
		address += take;
		length -= take;
	}
	return (int)count;
}

struct work work_send(const struct device *device, uint64_t id, uint32_t length)
{
	return (struct work){ .opcode = IBV_WR_SEND,
			      .id = id,
			      .flags = IBV_SEND_SIGNALED,
			      .local = device->memory,
			      .length = length,
			      .lkey = device->mr->lkey };
}

struct work work_write(const struct device *device, const struct card *to, uint64_t offset,
		       uint32_t length)
{
	return (struct work){ .opcode = IBV_WR_RDMA_WRITE,
			      .flags = IBV_SEND_SIGNALED,
			      .local = device->memory,
			      .length = length,
			      .lkey = device->mr->lkey,
			      .remote = to->address + offset,
			      .rkey = to->key };
}

struct work side_work(const struct side *side, enum ibv_wr_opcode opcode, uint64_t offset,
		      uint32_t length)
{
	struct work work = work_write(&side->device, side->peer, offset, length);

	work.opcode = opcode;
	return work;
}

void pair_post(struct ibv_qp *pair, const struct work *work)
{
	struct ibv_sge pieces[PIECES];
	struct ibv_send_wr *bad, request = { .wr_id = work->id,
					     .sg_list = pieces,
					     .opcode = work->opcode,
					     .send_flags = (unsigned int)work->flags,
					     .imm_data = work->immediate };

	request.num_sge = pair_make_pieces(pieces, work->pieces ? work->pieces : 1,
					   (uintptr_t)work->local, work->length, work->lkey);
	if (work->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	    work->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		request.wr.atomic.remote_addr = work->remote;
		request.wr.atomic.rkey = work->rkey;
		request.wr.atomic.compare_add = work->compare_add;
		request.wr.atomic.swap = work->swap;
	} else {
		request.wr.rdma.remote_addr = work->remote;
		request.wr.rdma.rkey = work->rkey;
	}
	must(!(errno = ibv_post_send(pair, &request, &bad)));
}

void pair_receive(struct ibv_qp *pair, uint64_t id, void *memory, uint32_t length, uint32_t lkey,
		  unsigned int count)
{
	struct ibv_sge pieces[PIECES];
	struct ibv_recv_wr *bad, request = { .wr_id = id, .sg_list = pieces };

	request.num_sge =
		pair_make_pieces(pieces, count ? count : 1, (uintptr_t)memory, length, lkey);
	must(!(errno = pair->srq ? ibv_post_srq_recv(pair->srq, &request, &bad)
				 : ibv_post_recv(pair, &request, &bad)));
}

void cq_next(struct ibv_cq *cq, struct ibv_wc *completion)
{
	int count;

	/* The adapter may be software, and need the processor. */
	while (!(count = ibv_poll_cq(cq, 1, completion)))
		sched_yield();
	must(count == 1);
}

void cq_expect(struct ibv_cq *cq, uint64_t id, enum ibv_wc_status status)
{
	struct ibv_wc completion;

	cq_next(cq, &completion);
	completion.status = pairs_local_error(completion.status);
	if (completion.wr_id != id || completion.status != status)
		fprintf(stderr, "completion %llu: %s, not %llu: %s\n",
			(unsigned long long)completion.wr_id, ibv_wc_status_str(completion.status),
			(unsigned long long)id, ibv_wc_status_str(status));
	must(completion.wr_id == id);
	must(completion.status == status);
}

/* ---- bytes ---- */

static unsigned char byte_at(size_t position, uint32_t seed)
{
	uint32_t mixed = ((uint32_t)position + seed * 0x9e3779b9u) * 0x85ebca6bu;

	return (unsigned char)(mixed >> 24);
}

void bytes_fill(void *memory, size_t bytes, uint32_t seed)
{
	unsigned char *at = memory;

	for (size_t i = 0; i < bytes; i++)
		at[i] = byte_at(i, seed);
}

bool bytes_are(const void *memory, size_t bytes, uint32_t seed)
{
	const unsigned char *at = memory;

	for (size_t i = 0; i < bytes; i++) {
		if (at[i] != byte_at(i, seed))
			return false;
	}
	return true;
}

bool bytes_all(const void *memory, size_t bytes, int value)
{
	const unsigned char *at = memory;

	for (size_t i = 0; i < bytes; i++) {
		if (at[i] != (unsigned char)value)
			return false;
	}
	return true;
}
