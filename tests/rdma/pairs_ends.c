/* SPDX-License-Identifier: BSD-3-Clause */
/* pairs_ends.c -- processes that are killed, or come and go */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fabric.h"
#include "pairs.h"
#include "unit/suite.h"

CASE(ends);

#define SIZE 20000u
#define LONG (3 * MIB)

/* Process 0 writes to 1, which is killed; 2 and 3 write to each other and go on. */
static void one_is_killed(unsigned int self)
{
	struct connection connection = pairs_defaults;
	struct ibv_wc completion = { .status = IBV_WC_SUCCESS };
	struct ibv_qp *pairs[4];
	struct device device;
	struct work work;
	time_t killed = 0;

	connection.timeout = 15; /* 134 ms */
	connection.retries = 1;
	device_open(&device, LONG);
	pairs_mesh(&device, self, pairs, NULL, &connection);
	if (self == 0) {
		work = work_write(&device, &board->cards[1][0], 0, LONG);
		for (uint32_t i = 1; completion.status == IBV_WC_SUCCESS; i++) {
			pair_post(pairs[1], &work);
			board_set(WORD_STAGE, i);
			killed = pairs_seconds();
			cq_next(device.cq, &completion);
		}
		must(completion.status == IBV_WC_RETRY_EXC_ERR);
		must(pairs_seconds() - killed < 10);
		must(pair_state(pairs[1]) == IBV_QPS_ERR);
		/* The connections to others live. */
		work = work_write(&device, &board->cards[2][0], 0, LONG);
		pair_post(pairs[2], &work);
		cq_expect(device.cq, 0, IBV_WC_SUCCESS);
		board_set(WORD_DONE, 1);
	} else if (self == 1) {
		/* A child that lives on does not keep the queue pairs. A kernel's descriptor does.
		 */
		if (pairs_simulated() && !fork()) {
			board_await(WORD_DONE, 1);
			_exit(0);
		}
		for (;;)
			pause();
	} else {
		work = work_write(&device, &board->cards[self ^ 1][self], 0, SIZE);
		while (!board_get(WORD_DONE)) {
			pair_post(pairs[self ^ 1], &work);
			cq_expect(device.cq, 0, IBV_WC_SUCCESS);
		}
	}
	/* Each destroys its queue pairs when the others have no use for them. */
	__atomic_add_fetch(&board->words[WORD_COUNT], 1, __ATOMIC_RELEASE);
	while (board_get(WORD_COUNT) < 3)
		usleep(1000);
	pairs_end(pairs);
	device_close(&device);
}

LOOP_TEST(ends, requests_to_a_killed_process_fail_and_other_processes_go_on, 0, 4)
{
	processes_start(4, one_is_killed);
	board_await(WORD_STAGE, 3);
	/* A zombie is as dead. */
	processes_kill(1, _i % 2);
	processes_end();
}
END_TEST

/* ---- a requester that is killed in the middle of its messages ---- */

static void requester_is_killed(struct side *side)
{
	struct work work = work_write(&side->device, &board->cards[0][side->self], 0, LONG);
	struct ibv_wc completion;

	for (uint32_t i = 1; side->self == 1; i++) {
		pair_post(side->pairs[0], &work);
		board_set(WORD_STAGE, i);
		cq_next(side->device.cq, &completion);
	}
	if (side->self == 2) {
		board_await(WORD_DONE, 1);
		for (uint64_t i = 0; i < 20; i++) {
			pair_post(side->pairs[0], &work);
			cq_expect(side->device.cq, 0, IBV_WC_SUCCESS);
		}
		board_set(WORD_DONE, 2);
	}
	board_await(WORD_DONE, 2);
	/* The killed process has no peer. */
	pairs_end(side->pairs);
	device_close(&side->device);
	_exit(0);
}

LOOP_TEST(ends, a_target_whose_requester_was_killed_serves_others, 0, 4)
{
	pairs_start(3, LONG, &pairs_defaults, requester_is_killed);
	board_await(WORD_STAGE, 3);
	processes_kill(1, true);
	board_set(WORD_DONE, 1);
	processes_end();
}
END_TEST

/* ---- processes that come and go ---- */

/* In a fresh address space: connect to process 0, by its board, and exchange a message. */
static void visit(void)
{
	struct ibv_qp *pair;
	struct device device;
	struct work work;

	device_open(&device, MIB);
	pair = device_pair(&device, IBV_QPT_RC, NULL, &pairs_defaults);
	device_card(&device, pair, &board->cards[1][0]);
	board_set(WORD_STAGE, board_get(WORD_STAGE) + 1);
	board_await(WORD_DONE, board_get(WORD_STAGE));
	pair_connect(pair, &board->cards[0][1], &pairs_defaults);
	work = work_write(&device, &board->cards[0][1], 0, SIZE);
	work.opcode = IBV_WR_SEND;
	pair_post(pair, &work);
	cq_expect(device.cq, 0, IBV_WC_SUCCESS);
	if (board_get(WORD_STAGE) % 2) {
		board_set(WORD_COUNT, board_get(WORD_STAGE));
		for (;;)
			pause();
	}
	must(!ibv_destroy_qp(pair));
	device_close(&device);
	board_set(WORD_COUNT, board_get(WORD_STAGE));
}

__attribute__((constructor)) static void visit_enter(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "visit"))
		processes_enter("visit", visit);
}

static unsigned int visits(void)
{
	return pairs_simulated() && !PAIRS_SLOW ? 200 : 20;
}

static void receive_visits(unsigned int self)
{
	struct device device;
	struct ibv_qp *pair;
	pid_t visitor;

	(void)self;
	device_open(&device, MIB);
	for (uint32_t i = 1; i <= visits(); i++) {
		visitor = fork();
		if (!visitor)
			processes_exec("visit");
		must(visitor > 0);
		pair = device_pair(&device, IBV_QPT_RC, NULL, &pairs_defaults);
		device_card(&device, pair, &board->cards[0][1]);
		pair_receive(pair, i, device.memory, SIZE, device.mr->lkey, 1);
		board_await(WORD_STAGE, i);
		pair_connect(pair, &board->cards[1][0], &pairs_defaults);
		board_set(WORD_DONE, i);
		cq_expect(device.cq, i, IBV_WC_SUCCESS);
		board_await(WORD_COUNT, i);
		if (i % 2)
			must(!kill(visitor, SIGKILL));
		must(waitpid(visitor, NULL, 0) == visitor);
		must(!ibv_destroy_qp(pair));
	}
	/* Places of processes that ended are taken again: this one's and one more. */
	must(!pairs_simulated() || fabric_place(board->cards[1][0].number) < 4);
	device_close(&device);
}

TEST(ends, hundreds_of_processes_that_come_and_go_leave_no_files)
{
	processes_run(1, receive_visits);
	if (pairs_simulated())
		ck_assert_int_eq(fabric_files(), 0);
}
END_TEST

static void visit_among_others(unsigned int self)
{
	processes_meet();
	fabric_visit(self);
}

TEST(ends, processes_that_join_at_once_remove_all_links_of_one_that_was_killed)
{
	if (!pairs_simulated())
		return;
	processes_run(1, fabric_visit);
	for (unsigned int i = 0; i < 4; i++) {
		fabric_leave_links(1000);
		processes_run(8, visit_among_others);
		ck_assert_int_eq(fabric_files(), 0);
	}
}
END_TEST

/* ---- processes that are killed at any moment ---- */

static void crowd(unsigned int self)
{
	struct connection connection = pairs_defaults;
	struct ibv_qp *pairs[PROCESSES_MOST];
	struct device device;
	struct ibv_wc completion;
	struct work work;

	connection.timeout = 10;
	connection.retries = 1;
	device_open(&device, MIB);
	__atomic_add_fetch(&board->words[WORD_COUNT], 1, __ATOMIC_RELEASE);
	pairs_mesh(&device, self, pairs, NULL, &connection);
	for (uint32_t i = 0;; i++) {
		unsigned int to = i % processes_count();

		if (!self)
			board_set(WORD_STAGE, i);
		if (to == self)
			continue;
		work = work_write(&device, &board->cards[to][self], 0, SIZE);
		pair_post(pairs[to], &work);
		cq_next(device.cq, &completion);
	}
}

LOOP_TEST(ends, processes_that_are_all_killed_leave_no_files, 0, PAIRS_SLOW ? 4 : 20)
{
	processes_start(8, crowd);
	/* While they connect, or later. */
	if (_i % 2)
		board_await(WORD_STAGE, 20);
	while (board_get(WORD_COUNT) < 8)
		usleep(100);
	for (unsigned int i = 0; i < 8; i++)
		processes_kill(i, true);
	processes_end();
	if (!pairs_simulated())
		return;
	/* A process that comes later removes what others could not. */
	processes_run(2, fabric_visit);
	ck_assert_int_eq(fabric_files(), 0);
}
END_TEST
