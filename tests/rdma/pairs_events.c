/* SPDX-License-Identifier: BSD-3-Clause */
/* pairs_events.c -- completion channels wake a process that waits, and targets serve without calls
 */
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "pairs.h"
#include "unit/suite.h"

CASE(events);

#define SIZE   20000u
#define ROUNDS 200u

/* Wait without a poll, then take the one completion that there is. */
static void wait_for(const struct device *device, uint64_t id)
{
	struct ibv_wc completion;
	struct ibv_cq *cq;
	void *cq_context;

	must(!ibv_get_cq_event(device->channel, &cq, &cq_context));
	must(cq == device->cq && cq_context == device);
	ibv_ack_cq_events(cq, 1);
	must(!ibv_req_notify_cq(cq, 0));
	must(ibv_poll_cq(cq, 1, &completion) == 1);
	must(completion.status == IBV_WC_SUCCESS && completion.wr_id == id);
}

/* Neither process polls before it is woken. The queue is armed before its completion can come. */
static void wake_each_other(struct side *side)
{
	struct device *device = &side->device;
	struct work work = side_work(side, IBV_WR_SEND, 0, SIZE);

	work.flags = 0;
	must(!ibv_req_notify_cq(device->cq, 0));
	for (uint32_t i = 0; i < ROUNDS; i++)
		pair_receive(side->pair, i, device->memory + SIZE, SIZE, device->mr->lkey, 1);
	processes_meet();
	for (uint32_t i = 0; i < ROUNDS; i++) {
		if (!side->self)
			pair_post(side->pair, &work);
		wait_for(device, i);
		if (side->self)
			pair_post(side->pair, &work);
	}
}

TEST(events, a_process_that_waits_for_events_and_never_polls_gets_each)
{
	pairs_run(2, MIB, &pairs_defaults, wake_each_other);
}
END_TEST

static bool channel_is_readable(const struct device *device, int timeout)
{
	struct pollfd descriptor = { .fd = device->channel->fd, .events = POLLIN };

	return poll(&descriptor, 1, timeout) == 1;
}

static void solicit(struct side *side)
{
	struct device *device = &side->device;
	struct work work = side_work(side, IBV_WR_SEND, 0, SIZE);
	struct ibv_cq *cq;
	void *cq_context;

	if (side->self) {
		for (uint64_t i = 0; i < 4; i++)
			pair_receive(side->pair, i, device->memory, SIZE, device->mr->lkey, 1);
		must(!ibv_req_notify_cq(device->cq, 1));
	}
	processes_meet();
	if (!side->self) {
		for (uint64_t i = 0; i < 4; i++) {
			work.id = i;
			if (i == 3) {
				/* Complete at the requester: they have arrived. */
				processes_meet();
				processes_meet();
				work.flags |= IBV_SEND_SOLICITED;
			}
			pair_post(side->pair, &work);
			cq_expect(device->cq, i, IBV_WC_SUCCESS);
		}
	} else {
		processes_meet();
		must(!channel_is_readable(device, 0));
		processes_meet();
		must(channel_is_readable(device, -1));
		must(!ibv_get_cq_event(device->channel, &cq, &cq_context));
		ibv_ack_cq_events(cq, 1);
		for (uint64_t i = 0; i < 4; i++)
			cq_expect(device->cq, i, IBV_WC_SUCCESS);
	}
}

TEST(events, a_queue_armed_for_solicited_completions_wakes_for_no_others)
{
	pairs_run(2, MIB, &pairs_defaults, solicit);
}
END_TEST

/* ---- targets that call nothing ---- */

static void serve_without_calls(struct side *side)
{
	struct device *device = &side->device;
	struct work work;

	if (!side->self) {
		for (uint32_t i = 0; i < 100; i++) {
			work = side_work(side, IBV_WR_RDMA_WRITE, 2 * SIZE, SIZE);
			bytes_fill(device->memory, SIZE, i);
			pair_post(side->pair, &work);
			work.opcode = IBV_WR_RDMA_READ;
			work.local = device->memory + 2 * SIZE;
			pair_post(side->pair, &work);
			cq_expect(device->cq, 0, IBV_WC_SUCCESS);
			cq_expect(device->cq, 0, IBV_WC_SUCCESS);
			must(bytes_are(device->memory + 2 * SIZE, SIZE, i));
		}
		board_set(WORD_STAGE, 1);
	} else {
		board_await(WORD_STAGE, 1);
		must(bytes_are(device->memory + 2 * SIZE, SIZE, 99));
	}
}

TEST(events, a_target_that_calls_no_verbs_serves_reads_and_writes)
{
	pairs_run(2, MIB, &pairs_defaults, serve_without_calls);
}
END_TEST

/* As programs that measure latency do. */
static void watch_memory(struct side *side)
{
	char *memory = side->device.memory;
	volatile char *last = memory + 2 * SIZE - 1;
	struct work work = side_work(side, IBV_WR_RDMA_WRITE, SIZE, SIZE);

	for (int i = 1; i <= 50; i++) {
		memset(memory, i, SIZE);
		if (!side->self)
			pair_post(side->pair, &work);
		while (*last != i)
			;
		/* The other process answers, and writes anew, only after this. */
		must(bytes_all(memory + SIZE, SIZE, i));
		if (side->self)
			pair_post(side->pair, &work);
		cq_expect(side->device.cq, 0, IBV_WC_SUCCESS);
	}
}

TEST(events, the_last_byte_of_a_write_is_stored_last)
{
	pairs_run(2, MIB, &pairs_defaults, watch_memory);
}
END_TEST
