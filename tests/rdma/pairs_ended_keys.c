/* SPDX-License-Identifier: BSD-3-Clause */
/* pairs_ended_keys.c -- a key that ends while transfers use it moves nothing afterwards */
#include <pthread.h>
#include <string.h>

#include "pairs.h"
#include "unit/suite.h"

CASE(ended_keys);

#define COUNT(array) (sizeof(array) / sizeof(array[0]))
#define LONG	     (3 * MIB)
#define REPEATS	     (PAIRS_SLOW ? 1 : 8)

/* Which end's registration ends, of a WRITE, a READ or a SEND. */
static const struct ending {
	enum ibv_wr_opcode opcode;
	bool local;
} endings[] = { { IBV_WR_RDMA_WRITE, false },
		{ IBV_WR_RDMA_READ, false },
		{ IBV_WR_RDMA_WRITE, true },
		{ IBV_WR_RDMA_READ, true },
		{ IBV_WR_SEND, false } };
static const struct ending *ending;

/* The memory that bytes go to is the process's own. */
static bool ending_is_target(unsigned int self)
{
	return (ending->opcode == IBV_WR_RDMA_READ) == !self;
}

static enum ibv_wc_status transfer(const struct side *side, uint32_t lkey, uint32_t seed)
{
	struct work work = side_work(side, ending->opcode, 0, LONG);
	struct ibv_wc completion;

	work.id = seed;
	work.lkey = lkey;
	work.rkey = board->keys[1][0];
	pair_post(side->pair, &work);
	cq_next(side->device.cq, &completion);
	return pairs_local_error(completion.status);
}

/* The end whose registration ends: afterwards other bytes are there, and no adapter moves them. */
static void end_registration(const struct device *device, struct ibv_mr *mr)
{
	must(!ibv_dereg_mr(mr));
	memset(device->memory, 0xee, LONG);
}

static void end_check(const struct device *device, unsigned int self, bool ended)
{
	if (ended)
		must(bytes_all(device->memory, LONG, 0xee));
	/* The other end got none of the later bytes. */
	else if (ending_is_target(self))
		must(!memchr(device->memory, 0xee, LONG));
}

static void *end_after_a_while(void *argument)
{
	void **both = argument;

	board_await(WORD_STAGE, 3);
	end_registration(both[0], both[1]);
	return NULL;
}

static void transfer_until_refused(struct side *side, struct ibv_mr *mr)
{
	enum ibv_wc_status status = IBV_WC_SUCCESS;
	void *both[] = { &side->device, mr };
	uint32_t lkey = mr->lkey; /* the other thread ends the registration */
	pthread_t thread;

	if (ending->local)
		must(!pthread_create(&thread, NULL, end_after_a_while, both));
	for (uint32_t i = 1; status == IBV_WC_SUCCESS; i++) {
		board_set(WORD_STAGE, i);
		status = transfer(side, lkey, i);
	}
	if (ending->local)
		must(!pthread_join(thread, NULL));
	must(status == (ending->local			? IBV_WC_LOC_PROT_ERR
			: ending->opcode == IBV_WR_SEND ? IBV_WC_REM_OP_ERR
							: IBV_WC_REM_ACCESS_ERR));
}

/* Bytes of 0 to 0xdd. */
static void fill_without(char *memory)
{
	for (size_t i = 0; i < LONG; i++)
		memory[i] = (char)(i % 0xdd);
}

static void end_during_transfers(struct side *side)
{
	bool ends = ending->local == !side->self;
	struct device *device = &side->device;
	struct ibv_mr *mr;

	fill_without(device->memory);
	must((mr = ibv_reg_mr(device->pd, device->memory, LONG, ALL_ACCESS)));
	board->keys[side->self][0] = mr->rkey;
	for (uint64_t i = 0; side->self && ending->opcode == IBV_WR_SEND && i < 1000; i++)
		pair_receive(side->pair, i, device->memory, LONG, mr->lkey, 1);
	processes_meet();
	if (!side->self) {
		transfer_until_refused(side, mr);
	} else if (ends) {
		board_await(WORD_STAGE, 3);
		end_registration(device, mr);
	}
	processes_meet();
	end_check(device, side->self, ends);
	if (!ends)
		must(!ibv_dereg_mr(mr));
}

LOOP_TEST(ended_keys, a_key_that_ends_during_transfers_moves_no_byte_afterwards, 0,
	  COUNT(endings) * REPEATS)
{
	ending = &endings[(size_t)_i % COUNT(endings)];
	/* Soft-RoCE does not answer such a READ at times. */
	if (pairs_soft_roce() && ending->opcode == IBV_WR_RDMA_READ)
		return;
	pairs_run(2, LONG, &pairs_defaults, end_during_transfers);
}
END_TEST
