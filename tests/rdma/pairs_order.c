/* SPDX-License-Identifier: BSD-3-Clause */
/* pairs_order.c -- messages arrive in the order of their requests, however many are in flight */
#include <string.h>

#include "pairs.h"
#include "unit/suite.h"

CASE(order);

#define RECEIVES  512	 /* posted at the most */
#define SLOT	  40000u /* bytes of a message at the most */
#define IN_FLIGHT 256
#define SLOTS	  (2 * IN_FLIGHT) /* of what WRITEs and READs move */

/* Memory: received messages first, then messages to send, then targets of reads. */
#define SENT	(RECEIVES * (size_t)SLOT)
#define WRITTEN (SENT + 8 * MIB)
#define READ	(WRITTEN + 8 * MIB)
#define BYTES	(READ + 8 * MIB)

struct stream {
	const struct device *device;
	struct ibv_qp *pair;
	const struct card *peer;
	uint32_t total;
	uint32_t posted, completed;  /* requests */
	uint32_t expected, receives; /* messages received, and receives posted */
};

static uint32_t messages(void)
{
	return pairs_simulated() ? 6000 : 600;
}

/* Small ones mostly; 1 of 16 is larger than a packet of any adapter. */
static uint32_t length_of(uint32_t message)
{
	uint32_t mixed = message * 2654435761u;

	return mixed % 16 ? mixed >> 8 & 255 : (mixed >> 8) % SLOT;
}

/* Each third message is written, and then its immediate arrives. */
static enum ibv_wr_opcode opcode_of(uint32_t message)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_SEND_WITH_IMM,
						      IBV_WR_RDMA_WRITE_WITH_IMM,
						      IBV_WR_SEND_WITH_IMM };

	return opcodes[message % 3];
}

static char *sent_bytes(const struct device *device, uint32_t message)
{
	return device->memory + SENT + (size_t)(message % 100) * SLOT;
}

static void stream_receive(struct stream *stream)
{
	char *to = stream->device->memory + (size_t)(stream->receives % RECEIVES) * SLOT;

	pair_receive(stream->pair, stream->receives++, to, SLOT, stream->device->mr->lkey, 1);
}

/* Message: SEND, or WRITE with immediate. Every eighth is followed by a WRITE and a READ of what it
 * wrote: the READ sees it. */
static void stream_post(struct stream *stream)
{
	const struct device *device = stream->device;
	uint32_t message = stream->posted;
	char *from = sent_bytes(device, message);
	struct work work = { .opcode = opcode_of(message),
			     .id = message,
			     .flags = IBV_SEND_SIGNALED,
			     .immediate = message,
			     .local = from,
			     .length = length_of(message),
			     .lkey = device->mr->lkey,
			     .remote = stream->peer->address + WRITTEN,
			     .rkey = stream->peer->key };

	pair_post(stream->pair, &work);
	if (message % 8 == 0) {
		work.opcode = IBV_WR_RDMA_WRITE;
		work.flags = 0;
		work.remote += MIB + (size_t)(message % SLOTS) * 64;
		work.length = 64;
		work.local = from;
		pair_post(stream->pair, &work);
		work.opcode = IBV_WR_RDMA_READ;
		work.local = device->memory + READ + (size_t)(message % SLOTS) * 64;
		pair_post(stream->pair, &work);
	}
	stream->posted++;
}

static void stream_check_received(struct stream *stream, const struct ibv_wc *completion)
{
	uint32_t message = stream->expected++;
	const char *at = stream->device->memory + (size_t)(message % RECEIVES) * SLOT;

	must(completion->wr_id == message);
	must(completion->imm_data == message);
	must(completion->byte_len == length_of(message));
	if (opcode_of(message) == IBV_WR_RDMA_WRITE_WITH_IMM)
		must(completion->opcode == IBV_WC_RECV_RDMA_WITH_IMM);
	else
		must(bytes_are(at, completion->byte_len, message % 100));
	if (stream->receives < stream->total)
		stream_receive(stream);
}

/* A later message's completion says that the unsignaled ones before it are complete. */
static void stream_check_sent(struct stream *stream, const struct ibv_wc *completion)
{
	uint32_t message = stream->completed++, before = message - 1;

	must(completion->wr_id == message);
	if (message && before % 8 == 0)
		must(bytes_are(stream->device->memory + READ + (size_t)(before % SLOTS) * 64, 64,
			       before % 100));
}

static void stream_take(struct stream *stream, const struct ibv_wc *completion)
{
	must(completion->status == IBV_WC_SUCCESS);
	must(completion->qp_num == stream->pair->qp_num);
	if (completion->opcode & IBV_WC_RECV)
		stream_check_received(stream, completion);
	else
		stream_check_sent(stream, completion);
}

static void stream_open(struct stream *stream, struct device *device, struct ibv_qp *pair,
			const struct card *peer, uint32_t sends, uint32_t receives)
{
	*stream =
		(struct stream){ .device = device, .pair = pair, .peer = peer, .total = receives };
	for (uint32_t i = 0; i < 100; i++)
		bytes_fill(sent_bytes(device, i), SLOT, i);
	(void)sends;
	while (stream->receives < receives && stream->receives < RECEIVES)
		stream_receive(stream);
}

static void stream_run(struct stream *stream, uint32_t sends)
{
	struct ibv_wc completion;

	while (stream->completed < sends || stream->expected < stream->total) {
		while (stream->posted < sends && stream->posted - stream->completed < IN_FLIGHT)
			stream_post(stream);
		cq_next(stream->device->cq, &completion);
		stream_take(stream, &completion);
	}
}

static void both_directions(unsigned int self)
{
	struct ibv_qp *pairs[2];
	struct device device;
	struct stream stream;

	device_open(&device, BYTES);
	pairs_mesh(&device, self, pairs, NULL, &pairs_defaults);
	stream_open(&stream, &device, pairs[!self], &board->cards[!self][self], messages(),
		    messages());
	processes_meet();
	stream_run(&stream, messages());
	processes_meet();
	pairs_end(pairs);
	device_close(&device);
}

TEST(order, thousands_of_mixed_operations_in_both_directions_arrive_in_order)
{
	processes_run(2, both_directions);
}
END_TEST

/* The sender's requests fill every queue between, and the other end takes no completions. */
static void late_receiver(unsigned int self)
{
	struct ibv_qp *pairs[2];
	struct device device;
	struct stream stream;

	device_open(&device, BYTES);
	pairs_mesh(&device, self, pairs, NULL, &pairs_defaults);
	stream_open(&stream, &device, pairs[!self], &board->cards[!self][self], RECEIVES,
		    self ? RECEIVES : 0);
	processes_meet();
	if (!self) {
		while (stream.posted < IN_FLIGHT)
			stream_post(&stream);
		board_set(WORD_STAGE, 1);
		stream_run(&stream, RECEIVES);
		board_set(WORD_STAGE, 2);
	} else {
		board_await(WORD_STAGE, 2);
		stream_run(&stream, 0);
	}
	processes_meet();
	pairs_end(pairs);
	device_close(&device);
}

TEST(order, a_receiver_that_polls_after_the_last_message_gets_all_in_order)
{
	processes_run(2, late_receiver);
}
END_TEST

/* ---- all to all ---- */

#define CROWD_SLOT  2048u
#define CROWD_DEPTH 16

struct crowd {
	struct device device;
	struct ibv_qp *pairs[PROCESSES_MOST];
	uint32_t sent[PROCESSES_MOST], posted[PROCESSES_MOST], received[PROCESSES_MOST],
		receives[PROCESSES_MOST];
	unsigned int self;
};

static uint32_t crowd_messages(void)
{
	return pairs_simulated() ? 400 : 60;
}

/* Bytes are of the sender, the receiver and the message's number. */
static uint32_t crowd_seed(unsigned int from, unsigned int to, uint32_t message)
{
	return from << 20 | to << 16 | message;
}

static char *crowd_slot(struct crowd *crowd, unsigned int other, uint32_t message, bool sends)
{
	return crowd->device.memory +
	       ((size_t)(other * 2 + sends) * CROWD_DEPTH + message % CROWD_DEPTH) * CROWD_SLOT;
}

static void crowd_post(struct crowd *crowd, unsigned int to)
{
	uint32_t message = crowd->posted[to]++;
	struct work work = { .opcode = IBV_WR_SEND,
			     .id = (uint64_t)to << 32 | message,
			     .flags = IBV_SEND_SIGNALED,
			     .local = crowd_slot(crowd, to, message, true),
			     .length = message * 97 % CROWD_SLOT,
			     .lkey = crowd->device.mr->lkey };

	bytes_fill(crowd_slot(crowd, to, message, true), work.length,
		   crowd_seed(crowd->self, to, message));
	pair_post(crowd->pairs[to], &work);
}

static void crowd_receive(struct crowd *crowd, unsigned int from)
{
	uint32_t message = crowd->receives[from]++;

	pair_receive(crowd->pairs[from], (uint64_t)from << 32 | message,
		     crowd_slot(crowd, from, message, false), CROWD_SLOT, crowd->device.mr->lkey,
		     2);
}

static void crowd_take(struct crowd *crowd, const struct ibv_wc *completion)
{
	unsigned int other = (unsigned int)(completion->wr_id >> 32);
	uint32_t message = (uint32_t)completion->wr_id;

	must(completion->status == IBV_WC_SUCCESS);
	if (!(completion->opcode & IBV_WC_RECV)) {
		must(message == crowd->sent[other]++);
		if (crowd->posted[other] < crowd_messages())
			crowd_post(crowd, other);
		return;
	}
	must(message == crowd->received[other]++);
	must(completion->byte_len == message * 97 % CROWD_SLOT);
	must(bytes_are(crowd_slot(crowd, other, message, false), completion->byte_len,
		       crowd_seed(other, crowd->self, message)));
	if (crowd->receives[other] < crowd_messages())
		crowd_receive(crowd, other);
}

static void all_to_all(unsigned int self)
{
	struct crowd crowd = { .self = self };
	uint32_t left = 2 * crowd_messages() * (processes_count() - 1);
	struct ibv_wc completion;

	device_open(&crowd.device, 2 * MIB);
	pairs_mesh(&crowd.device, self, crowd.pairs, NULL, &pairs_defaults);
	for (uint32_t i = 0; i < CROWD_DEPTH; i++) {
		for (unsigned int other = 0; other < processes_count(); other++) {
			if (other == self)
				continue;
			crowd_receive(&crowd, other);
			crowd_post(&crowd, other);
		}
	}
	while (left--) {
		cq_next(crowd.device.cq, &completion);
		crowd_take(&crowd, &completion);
	}
	processes_meet();
	pairs_end(crowd.pairs);
	device_close(&crowd.device);
}

LOOP_TEST(order, processes_that_send_to_all_others_get_every_message, 0, 3)
{
	static const unsigned int counts[] = { 2, 4, 16 };

	processes_run(counts[_i], all_to_all);
}
END_TEST
