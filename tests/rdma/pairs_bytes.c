/* SPDX-License-Identifier: BSD-3-Clause */
/* pairs_bytes.c -- every operation moves every byte, and no other */
#include <string.h>

#include "pairs.h"
#include "unit/suite.h"

CASE(bytes, .timeout = 300);

#define SOURCE	     (4 * MIB)
#define GUARD	     64
#define UNUSED	     0xa5
#define SUM	     0x1122334455667788u
#define SECOND	     0x0102030405060708u
#define HEADER	     40 /* bytes before a received datagram */
#define COUNT(array) (sizeof(array) / sizeof(array[0]))

static const uint32_t sizes[] = { 0,	 1,	8,     12,    1000,    4096,
				  16383, 16384, 16385, 99992, 1000004, 3 << 20 };
static uint32_t size; /* of the test */

static const enum ibv_wr_opcode opcodes[] = { IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
					      IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ };

static const struct variant {
	unsigned int pieces;
	int flags;
} variants[] = { { 1, IBV_SEND_SIGNALED },
		 { 3, IBV_SEND_SIGNALED },
		 { 1, 0 },
		 { 1, IBV_SEND_SIGNALED | IBV_SEND_FENCE },
		 { 1, IBV_SEND_SIGNALED | IBV_SEND_INLINE } };

static bool receives(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
	       opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static void check_received(const struct ibv_wc *completion, enum ibv_wr_opcode opcode,
			   uint32_t immediate, uint32_t number)
{
	must(completion->status == IBV_WC_SUCCESS);
	must(completion->wr_id == 77);
	must(completion->byte_len == size);
	must(completion->qp_num == number);
	must(completion->opcode ==
	     (opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV));
	must(!(completion->wc_flags & IBV_WC_WITH_IMM) == (opcode == IBV_WR_SEND));
	if (opcode != IBV_WR_SEND)
		must(completion->imm_data == immediate);
}

/* The bytes of the other process's source, and the bytes around them. */
static void check_bytes(const char *target, uint32_t seed)
{
	must(bytes_all(target - GUARD, GUARD, UNUSED));
	must(bytes_are(target, size, seed));
	must(bytes_all(target + size, GUARD, UNUSED));
}

static void move_actively(const struct side *side, enum ibv_wr_opcode opcode,
			  const struct variant *variant, uint32_t seed)
{
	bool reads = opcode == IBV_WR_RDMA_READ;
	const struct device *device = &side->device;
	struct work work = side_work(side, opcode, reads ? SOURCE : GUARD, size);

	work.id = seed;
	work.flags = variant->flags;
	work.immediate = seed * 5;
	work.local = device->memory + (reads ? GUARD : SOURCE);
	work.pieces = variant->pieces;
	memset(device->memory, UNUSED, size + 2 * GUARD);
	bytes_fill(device->memory + SOURCE, size, seed);
	processes_meet();
	pair_post(side->pair, &work);
	/* Inline data belongs to the client again. */
	if (work.flags & IBV_SEND_INLINE)
		memset(device->memory + SOURCE, 0, size);
	if (!(work.flags & IBV_SEND_SIGNALED)) {
		/* Completes after it; without a completion, the first one would be seen here. */
		work.opcode = IBV_WR_RDMA_WRITE;
		work.flags = IBV_SEND_SIGNALED;
		work.length = 0;
		work.id = 99;
		pair_post(side->pair, &work);
	}
	cq_expect(device->cq, work.id, IBV_WC_SUCCESS);
	if (reads)
		check_bytes(device->memory + GUARD, seed + 1);
	processes_meet();
}

static void move_passively(const struct side *side, enum ibv_wr_opcode opcode,
			   const struct variant *variant, uint32_t seed)
{
	const struct device *device = &side->device;
	struct ibv_wc completion;

	memset(device->memory, UNUSED, size + 2 * GUARD);
	bytes_fill(device->memory + SOURCE, size, seed + 1);
	if (receives(opcode))
		pair_receive(side->pair, 77, device->memory + GUARD, size, device->mr->lkey,
			     variant->pieces);
	processes_meet();
	if (receives(opcode)) {
		cq_next(device->cq, &completion);
		check_received(&completion, opcode, seed * 5, side->pair->qp_num);
	}
	processes_meet();
	if (opcode != IBV_WR_RDMA_READ)
		check_bytes(device->memory + GUARD, seed);
}

static void move_all(struct side *side)
{
	uint32_t seed = 100;

	for (size_t i = 0; i < COUNT(opcodes) * COUNT(variants); i++, seed += 2) {
		enum ibv_wr_opcode opcode = opcodes[i / COUNT(variants)];
		const struct variant *variant = &variants[i % COUNT(variants)];

		if (variant->flags & IBV_SEND_INLINE && (size > 64 || opcode == IBV_WR_RDMA_READ))
			continue;
		if (side->self)
			move_passively(side, opcode, variant, seed);
		else
			move_actively(side, opcode, variant, seed);
		processes_meet();
	}
}

LOOP_TEST(bytes, every_operation_moves_every_byte_and_no_other, 0, COUNT(sizes))
{
	size = sizes[_i];
	pairs_run(2, 8 * MIB, &pairs_defaults, move_all);
}
END_TEST

/* ---- atomics ---- */

static uint64_t operate(const struct side *side, enum ibv_wr_opcode opcode, uint64_t operand,
			uint64_t swap)
{
	struct work work = side_work(side, opcode, 64, 8);
	struct ibv_wc completion;

	work.compare_add = operand;
	work.swap = swap;
	pair_post(side->pair, &work);
	cq_next(side->device.cq, &completion);
	must(completion.status == IBV_WC_SUCCESS);
	must(completion.opcode ==
	     (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? IBV_WC_FETCH_ADD : IBV_WC_COMP_SWAP));
	return *(uint64_t *)(uintptr_t)side->device.memory;
}

static void operate_all(struct side *side)
{
	uint64_t *word = (uint64_t *)(uintptr_t)(side->device.memory + 64);

	*word = SUM;
	processes_meet();
	if (!side->self) {
		must(operate(side, IBV_WR_ATOMIC_FETCH_AND_ADD, 3, 0) == SUM);
		must(operate(side, IBV_WR_ATOMIC_CMP_AND_SWP, SUM, 4) == SUM + 3);
		must(operate(side, IBV_WR_ATOMIC_CMP_AND_SWP, SUM + 3, SECOND) == SUM + 3);
		must(operate(side, IBV_WR_ATOMIC_FETCH_AND_ADD, (uint64_t)-1, 0) == SECOND);
	}
	processes_meet();
	if (side->self)
		must(*word == SECOND - 1 && !word[-1] && !word[1]);
}

TEST(bytes, atomic_operations_answer_the_former_value_and_change_eight_bytes)
{
	pairs_run(2, MIB, &pairs_defaults, operate_all);
}
END_TEST

#define ADDITIONS 500

static void add_from_all(struct side *side)
{
	struct work work = work_write(&side->device, &board->cards[0][side->self], 0, 8);

	work.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	work.compare_add = 1;
	for (int i = 0; side->self && i < ADDITIONS; i++) {
		pair_post(side->pairs[0], &work);
		cq_expect(side->device.cq, 0, IBV_WC_SUCCESS);
	}
	processes_meet();
	if (!side->self)
		must(*(uint64_t *)(uintptr_t)side->device.memory == 3 * ADDITIONS);
}

TEST(bytes, atomic_operations_of_several_processes_lose_none)
{
	pairs_run(4, MIB, &pairs_defaults, add_from_all);
}
END_TEST

/* ---- datagrams ---- */

static void datagram_send(const struct device *device, struct ibv_qp *pair, struct ibv_ah *address,
			  const struct card *to, uint32_t bytes, uint32_t qkey)
{
	struct ibv_sge piece = { .addr = (uintptr_t)device->memory,
				 .length = bytes,
				 .lkey = device->mr->lkey };
	struct ibv_send_wr *bad, request = {
		.wr_id = 3,
		.sg_list = &piece,
		.num_sge = 1,
		.opcode = IBV_WR_SEND_WITH_IMM,
		.imm_data = bytes ^ qkey,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.ud = { .ah = address, .remote_qpn = to->number, .remote_qkey = qkey }
	};

	must(!ibv_post_send(pair, &request, &bad));
	cq_expect(device->cq, 3, IBV_WC_SUCCESS);
}

static void datagrams(unsigned int self)
{
	const struct card *to = &board->cards[!self][0];
	struct ibv_port_attr port;
	struct ibv_wc completion;
	struct device device;
	struct ibv_ah *address;
	struct ibv_qp *pair;

	device_open(&device, MIB);
	must(!ibv_query_port(device.context, 1, &port));
	pair = device_pair(&device, IBV_QPT_UD, NULL, &pairs_defaults);
	pair_start_datagrams(pair);
	device_card(&device, pair, &board->cards[self][0]);
	processes_meet();
	address = device_address(&device, to);
	for (uint32_t i = 0; i < COUNT(sizes) && sizes[i] <= 128u << port.active_mtu; i++) {
		size = sizes[i];
		memset(device.memory, UNUSED, 2 * size + 2 * GUARD + HEADER);
		if (self)
			pair_receive(pair, i, device.memory + GUARD, size + HEADER, device.mr->lkey,
				     1);
		else
			bytes_fill(device.memory, size, i);
		processes_meet();
		if (!self) {
			datagram_send(&device, pair, address, to, size, PAIRS_QKEY + 1);
			datagram_send(&device, pair, address, to, size, PAIRS_QKEY);
		} else {
			cq_next(device.cq, &completion);
			must(completion.status == IBV_WC_SUCCESS && completion.wr_id == i);
			must(completion.byte_len == size + HEADER &&
			     completion.imm_data == (size ^ PAIRS_QKEY));
			must(completion.src_qp == to->number);
			must(completion.wc_flags & IBV_WC_GRH);
			must(bytes_all(device.memory, GUARD, UNUSED));
			must(bytes_are(device.memory + GUARD + HEADER, size, i));
			must(bytes_all(device.memory + GUARD + HEADER + size, GUARD, UNUSED));
		}
		processes_meet();
	}
	must(!ibv_destroy_ah(address));
	must(!ibv_destroy_qp(pair));
	device_close(&device);
}

TEST(bytes, datagrams_with_the_queue_key_arrive_behind_their_header)
{
	processes_run(2, datagrams);
}
END_TEST
