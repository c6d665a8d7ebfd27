/* SPDX-License-Identifier: BSD-3-Clause */
/* pairs_receives.c -- receives that are late, too short, or shared by several queue pairs */
#include <errno.h>
#include <string.h>

#include "pairs.h"
#include "unit/suite.h"

CASE(receives);

#define SIZE 20000u

/* ---- late receives ---- */

static enum ibv_wr_opcode late_opcode;

/* Each message has bytes and an immediate of its own. */
static void late(struct side *side)
{
	struct device *device = &side->device;
	struct ibv_wc completion;
	struct work work;

	for (uint32_t i = 0; i < 10; i++)
		bytes_fill(device->memory + i * SIZE, SIZE, side->self ? 99 : i);
	processes_meet();
	if (!side->self) {
		for (uint64_t i = 0; i < 10; i++) {
			work = side_work(side, late_opcode, 0, SIZE);
			work.id = i;
			work.local = device->memory + i * SIZE;
			work.immediate = (uint32_t)i;
			pair_post(side->pair, &work);
		}
		/* Refusals come back meanwhile. */
		for (int i = 0; i < 10000; i++)
			must(!ibv_poll_cq(device->cq, 1, &completion));
		board_set(WORD_STAGE, 1);
		for (uint64_t i = 0; i < 10; i++)
			cq_expect(device->cq, i, IBV_WC_SUCCESS);
		return;
	}
	board_await(WORD_STAGE, 1);
	for (uint64_t i = 0; i < 10; i++) {
		pair_receive(side->pair, i, device->memory, SIZE, device->mr->lkey, 1);
		cq_next(device->cq, &completion);
		must(completion.status == IBV_WC_SUCCESS && completion.wr_id == i);
		must(completion.imm_data == i);
		must(late_opcode != IBV_WR_SEND_WITH_IMM ||
		     bytes_are(device->memory, SIZE, (uint32_t)i));
	}
}

LOOP_TEST(receives, with_rnr_retry_7_requests_wait_for_a_late_receive, 0, 2)
{
	late_opcode = _i ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND_WITH_IMM;
	pairs_run(2, MIB, &pairs_defaults, late);
}
END_TEST

static void never(struct side *side)
{
	struct work work = work_send(&side->device, 1, SIZE);

	if (!side->self) {
		pair_post(side->pair, &work);
		work.id = 2;
		pair_post(side->pair, &work);
		cq_expect(side->device.cq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
		cq_expect(side->device.cq, 2, IBV_WC_WR_FLUSH_ERR);
	}
	processes_meet();
	must(pair_state(side->pair) == (side->self ? IBV_QPS_RTS : IBV_QPS_ERR));
}

TEST(receives, a_small_rnr_retry_is_exceeded_without_a_receive)
{
	struct connection connection = pairs_defaults;

	connection.rnr_retry = 2;
	connection.rnr_timer = 1; /* 10 us */
	pairs_run(2, MIB, &connection, never);
}
END_TEST

/* ---- too short ones ---- */

static void too_long(struct side *side)
{
	struct device *device = &side->device;
	struct work work = work_send(device, 1, SIZE);
	struct ibv_wc completion;

	memset(device->memory, 1 + (int)side->self, MIB);
	if (side->self)
		pair_receive(side->pair, 1, device->memory, SIZE - 1, device->mr->lkey, 1);
	processes_meet();
	if (!side->self) {
		pair_post(side->pair, &work);
		work.id = 2;
		pair_post(side->pair, &work);
		cq_next(device->cq, &completion);
		must(completion.wr_id == 1);
		must(completion.status == IBV_WC_REM_INV_REQ_ERR ||
		     (!pairs_simulated() && completion.status == IBV_WC_REM_OP_ERR));
		cq_expect(device->cq, 2, IBV_WC_WR_FLUSH_ERR);
	} else {
		cq_next(device->cq, &completion);
		must(completion.wr_id == 1);
		/* Soft-RoCE has other names for both statuses, and moves the first packets. */
		must(completion.status == IBV_WC_LOC_LEN_ERR ||
		     (!pairs_simulated() && completion.status));
		must(bytes_all(device->memory + SIZE - 1, MIB - SIZE + 1, 2));
		must(!pairs_simulated() || bytes_all(device->memory, MIB, 2));
	}
	must(pair_state(side->pair) == IBV_QPS_ERR);
}

TEST(receives, a_message_that_is_too_long_for_its_receive_ends_both_queue_pairs)
{
	pairs_run(2, MIB, &pairs_defaults, too_long);
}
END_TEST

/* ---- shared receive queues ---- */

#define SENDERS	 3
#define MESSAGES 100u
#define SLOT	 1024u
#define DEPTH	 16u

static struct ibv_srq *make_shared(const struct device *device)
{
	struct ibv_srq_init_attr wanted = { .attr = { .max_wr = 64, .max_sge = 3 } };
	struct ibv_srq *srq = ibv_create_srq(device->pd, &wanted);

	must(srq);
	return srq;
}

static void shared_receive(const struct device *device, struct ibv_qp *pair, uint32_t slot)
{
	pair_receive(pair, slot, device->memory + slot * SLOT, SLOT, device->mr->lkey, 1);
}

static unsigned int sender_of(struct ibv_qp **pairs, uint32_t number)
{
	for (unsigned int i = 0; i < processes_count(); i++) {
		if (pairs[i] && pairs[i]->qp_num == number)
			return i;
	}
	must(!"a completion of no queue pair");
	return 0;
}

static void shared_take(const struct device *device, struct ibv_qp **pairs)
{
	uint32_t got[SENDERS + 1] = { 0 };
	struct ibv_wc completion;
	unsigned int from;

	for (uint32_t i = 0; i < SENDERS * MESSAGES; i++) {
		cq_next(device->cq, &completion);
		must(completion.status == IBV_WC_SUCCESS);
		from = sender_of(pairs, completion.qp_num);
		must(completion.byte_len == 8 + got[from]);
		must(bytes_are(device->memory + completion.wr_id * SLOT, completion.byte_len,
			       from * MESSAGES + got[from]));
		got[from]++;
		shared_receive(device, pairs[1], (uint32_t)completion.wr_id);
	}
}

static void shared_send(const struct device *device, struct ibv_qp *pair, unsigned int self)
{
	struct work work = work_send(device, 0, 0);

	for (uint32_t i = 0; i < MESSAGES; i++) {
		work.id = i;
		work.length = 8 + i;
		bytes_fill(device->memory, work.length, self * MESSAGES + i);
		pair_post(pair, &work);
		cq_expect(device->cq, i, IBV_WC_SUCCESS);
	}
}

static void shared(unsigned int self)
{
	struct ibv_qp *pairs[SENDERS + 1];
	struct ibv_srq *srq = NULL;
	struct device device;

	device_open(&device, MIB);
	if (!self)
		srq = make_shared(&device);
	pairs_mesh(&device, self, pairs, srq, &pairs_defaults);
	if (!self) {
		for (uint32_t i = 0; i < DEPTH; i++)
			shared_receive(&device, pairs[1], i);
		shared_take(&device, pairs);
		must(ibv_destroy_srq(srq) == EBUSY);
	} else {
		shared_send(&device, pairs[0], self);
	}
	processes_meet();
	pairs_end(pairs);
	if (srq)
		must(!ibv_destroy_srq(srq));
	device_close(&device);
}

TEST(receives, queue_pairs_share_a_receive_queue_that_is_busy_while_they_use_it)
{
	processes_run(SENDERS + 1, shared);
}
END_TEST

static void limit(unsigned int self)
{
	struct ibv_srq_attr attributes = { .srq_limit = 4 };
	struct ibv_srq *srq = NULL;
	struct ibv_qp *pairs[2];
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	struct device device;

	device_open(&device, MIB);
	if (self)
		srq = make_shared(&device);
	pairs_mesh(&device, self, pairs, srq, &pairs_defaults);
	if (self) {
		for (uint32_t i = 0; i < 6; i++)
			shared_receive(&device, pairs[0], i);
		must(!ibv_modify_srq(srq, &attributes, IBV_SRQ_LIMIT));
		processes_meet();
		for (uint64_t i = 0; i < 3; i++)
			cq_expect(device.cq, i, IBV_WC_SUCCESS);
		device_expect_event(&device, IBV_EVENT_SRQ_LIMIT_REACHED, srq);
		must(!ibv_query_srq(srq, &attributes));
		must(!attributes.srq_limit); /* disarmed */
		must(!ibv_modify_qp(pairs[0], &error, IBV_QP_STATE));
		if (!pairs_soft_roce())
			device_expect_event(&device, IBV_EVENT_QP_LAST_WQE_REACHED, pairs[0]);
	} else {
		struct work work = work_send(&device, 0, 100);

		processes_meet();
		for (uint64_t i = 0; i < 3; i++) {
			work.id = i;
			pair_post(pairs[1], &work);
			cq_expect(device.cq, i, IBV_WC_SUCCESS);
		}
	}
	processes_meet();
	pairs_end(pairs);
	if (srq)
		must(!ibv_destroy_srq(srq));
	device_close(&device);
}

TEST(receives, a_shared_receive_queue_reports_its_limit_and_a_queue_pair_its_last_receive)
{
	processes_run(2, limit);
}
END_TEST
