/* SPDX-License-Identifier: BSD-3-Clause */
/* pairs_states.c -- queue pairs that end, or are not connected yet, with requests under way */
#include <string.h>

#include "pairs.h"
#include "unit/suite.h"

CASE(states);

#define SIZE 20000u

/* ---- a queue pair that ends ---- */

#define LONG (3 * MIB)

enum leaving { LEAVE_BY_RESET, LEAVE_BY_ERROR, LEAVE_BY_END, LEAVINGS };

static enum leaving leaving;
static enum ibv_wr_opcode left_opcode;

static void leave(struct ibv_qp **pair)
{
	struct ibv_qp_attr attributes = { .qp_state = leaving == LEAVE_BY_RESET ? IBV_QPS_RESET
										: IBV_QPS_ERR };

	if (leaving != LEAVE_BY_END) {
		must(!ibv_modify_qp(*pair, &attributes, IBV_QP_STATE));
		return;
	}
	must(!ibv_destroy_qp(*pair));
	*pair = NULL;
}

/* What another queue pair of the two processes reads is right. */
static void read_by_another(const struct device *device, struct ibv_qp *pair)
{
	struct work work = work_write(device, &board->cards[1][1], LONG, SIZE);

	work.opcode = IBV_WR_RDMA_READ;
	work.id = 7;
	pair_post(pair, &work);
	cq_expect(device->cq, 7, IBV_WC_SUCCESS);
	must(bytes_are(device->memory, SIZE, 5));
}

/* Requests of 3 MiB are under way when the other queue pair ends: the time of retries is short. */
static void left(struct side *side)
{
	struct work work = side_work(side, left_opcode, 0, LONG);
	struct ibv_wc completion = { .status = IBV_WC_SUCCESS };
	struct device *device = &side->device;
	unsigned int self = side->self;
	struct ibv_qp *another = device_pair(device, IBV_QPT_RC, NULL, &pairs_defaults);

	device_card(device, another, &board->cards[self][self]);
	for (uint64_t i = 0; self && i < 1000 && left_opcode == IBV_WR_SEND; i++)
		pair_receive(side->pair, i, device->memory, LONG, device->mr->lkey, 1);
	processes_meet();
	pair_connect(another, &board->cards[!self][!self], &pairs_defaults);
	processes_meet();
	if (!self) {
		for (uint32_t i = 1; completion.status == IBV_WC_SUCCESS; i++) {
			pair_post(side->pair, &work);
			board_set(WORD_STAGE, i);
			cq_next(device->cq, &completion);
		}
		must(completion.status == IBV_WC_RETRY_EXC_ERR);
	} else {
		board_await(WORD_STAGE, 3);
		leave(&side->pairs[0]);
		bytes_fill(device->memory + LONG, SIZE, 5);
	}
	processes_meet();
	if (!self)
		read_by_another(device, another);
	processes_meet();
	must(!ibv_destroy_qp(another));
}

LOOP_TEST(states, requests_to_a_queue_pair_that_ends_meanwhile_fail, 0,
	  3 * LEAVINGS * (PAIRS_SLOW ? 1 : 4))
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE,
						      IBV_WR_RDMA_READ };
	struct connection connection = pairs_defaults;

	left_opcode = opcodes[_i % 3];
	leaving = _i / 3 % LEAVINGS;
	connection.timeout = 14; /* 67 ms */
	connection.retries = 1;
	pairs_run(2, LONG + SIZE, &connection, left);
}
END_TEST

/* ---- a queue pair that is not ready yet ---- */

/* A SEND and a READ are under way all the while, and refused until the other one is connected. */
static void connect_late(unsigned int self)
{
	struct connection connection = pairs_defaults;
	struct ibv_wc completion;
	struct device device;
	struct ibv_qp *pair;
	struct work work;

	device_open(&device, LONG);
	pair = device_pair(&device, IBV_QPT_RC, NULL, &connection);
	device_card(&device, pair, &board->cards[self][!self]);
	bytes_fill(device.memory, LONG, self);
	processes_meet();
	if (!self) {
		pair_connect(pair, &board->cards[1][0], &connection);
		work = work_send(&device, 1, LONG / 2);
		pair_post(pair, &work);
		work.opcode = IBV_WR_RDMA_READ;
		work.id = 2;
		work.remote = board->cards[1][0].address + LONG / 2;
		work.rkey = board->cards[1][0].key;
		pair_post(pair, &work);
		for (int i = 0; i < 1000; i++)
			must(!ibv_poll_cq(device.cq, 1, &completion));
		board_set(WORD_STAGE, 1);
		cq_expect(device.cq, 1, IBV_WC_SUCCESS);
		cq_expect(device.cq, 2, IBV_WC_SUCCESS);
	} else {
		pair_receive(pair, 1, device.memory, LONG / 2, device.mr->lkey, 1);
		bytes_fill(device.memory + LONG / 2, LONG / 2, 3);
		board_await(WORD_STAGE, 1);
		pair_connect(pair, &board->cards[0][1], &connection);
		cq_expect(device.cq, 1, IBV_WC_SUCCESS);
		must(bytes_are(device.memory, LONG / 2, 0));
	}
	processes_meet();
	must(self || bytes_are(device.memory, LONG / 2, 3));
	must(!ibv_destroy_qp(pair));
	device_close(&device);
}

LOOP_TEST(states, requests_wait_for_a_queue_pair_that_is_not_connected_yet, 0, PAIRS_SLOW ? 2 : 20)
{
	processes_run(2, connect_late);
}
END_TEST
