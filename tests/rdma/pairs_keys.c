/* SPDX-License-Identifier: BSD-3-Clause */
/* pairs_keys.c -- an access that keys, ranges or access flags forbid moves nothing and ends the
 * connection
 */
#include <string.h>

#include "pairs.h"
#include "unit/suite.h"

CASE(keys);

#define SIZE	     20000u /* several packets */
#define TARGET	     (64 * 1024u)
#define UNUSED	     0x5a
#define COUNT(array) (sizeof(array) / sizeof(array[0]))

enum flaw {
	WRONG_KEY,
	ENDED_KEY,
	OTHER_DOMAIN,
	MISSING_FLAG,	   /* of the region */
	PAIR_MISSING_FLAG, /* of the queue pair */
	BEYOND_END,	   /* by a byte */
	BEFORE_START,
	MISALIGNED,
	WRONG_LOCAL_KEY,
	BEYOND_LOCAL,
	LOCAL_READ_ONLY, /* the target of a READ */
	BAD_RECEIVE,
};

static const struct attempt {
	const char *name;
	enum flaw flaw;
	enum ibv_wr_opcode opcode;
	enum ibv_wc_status status;
	/* The other process's queue pair enters the error state, too. */
	bool remote;
	int event; /* there; -1: none */
} attempts[] = {
#define REMOTE(flaw, opcode)                                                                       \
	{                                                                                          \
#flaw " " #opcode, flaw, IBV_WR_##opcode, IBV_WC_REM_ACCESS_ERR, true,             \
			IBV_EVENT_QP_ACCESS_ERR                                                    \
	}
#define INVALID(flaw, opcode)                                                                      \
	{                                                                                          \
#flaw " " #opcode, flaw, IBV_WR_##opcode, IBV_WC_REM_INV_REQ_ERR, true,            \
			IBV_EVENT_QP_REQ_ERR                                                       \
	}
#define LOCAL(flaw, opcode)                                                                        \
	{                                                                                          \
#flaw " " #opcode, flaw, IBV_WR_##opcode, IBV_WC_LOC_PROT_ERR, false, -1           \
	}
	REMOTE(WRONG_KEY, RDMA_WRITE),
	REMOTE(WRONG_KEY, RDMA_READ),
	REMOTE(WRONG_KEY, ATOMIC_FETCH_AND_ADD),
	REMOTE(ENDED_KEY, RDMA_WRITE),
	REMOTE(ENDED_KEY, RDMA_READ),
	REMOTE(ENDED_KEY, ATOMIC_CMP_AND_SWP),
	REMOTE(OTHER_DOMAIN, RDMA_WRITE),
	REMOTE(OTHER_DOMAIN, RDMA_READ),
	REMOTE(MISSING_FLAG, RDMA_WRITE),
	REMOTE(MISSING_FLAG, RDMA_READ),
	REMOTE(MISSING_FLAG, ATOMIC_FETCH_AND_ADD),
	REMOTE(BEYOND_END, RDMA_WRITE),
	REMOTE(BEYOND_END, RDMA_READ),
	REMOTE(BEYOND_END, ATOMIC_FETCH_AND_ADD),
	REMOTE(BEFORE_START, RDMA_WRITE),
	REMOTE(BEFORE_START, RDMA_READ),
	INVALID(PAIR_MISSING_FLAG, RDMA_WRITE),
	INVALID(PAIR_MISSING_FLAG, RDMA_READ),
	INVALID(PAIR_MISSING_FLAG, ATOMIC_FETCH_AND_ADD),
	INVALID(MISALIGNED, ATOMIC_FETCH_AND_ADD),
	LOCAL(WRONG_LOCAL_KEY, SEND),
	LOCAL(WRONG_LOCAL_KEY, RDMA_WRITE),
	LOCAL(WRONG_LOCAL_KEY, RDMA_READ),
	LOCAL(BEYOND_LOCAL, SEND),
	LOCAL(BEYOND_LOCAL, RDMA_READ),
	LOCAL(LOCAL_READ_ONLY, RDMA_READ),
	{ "BAD_RECEIVE SEND", BAD_RECEIVE, IBV_WR_SEND, IBV_WC_REM_OP_ERR, true, -1 },
};

static const struct attempt *attempt; /* of the test */

static bool is_atomic(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
}

static int flag_of(enum ibv_wr_opcode opcode)
{
	if (is_atomic(opcode))
		return IBV_ACCESS_REMOTE_ATOMIC;
	return opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
}

/* The region that the access is aimed at. It begins and ends inside of the process's memory. */
static struct ibv_mr *target_register(const struct device *device, struct ibv_pd **domain)
{
	int access = ALL_ACCESS;
	struct ibv_mr *target;

	*domain = device->pd;
	if (attempt->flaw == OTHER_DOMAIN)
		must((*domain = ibv_alloc_pd(device->context)));
	if (attempt->flaw == MISSING_FLAG)
		access &= ~flag_of(attempt->opcode);
	must((target = ibv_reg_mr(*domain, device->memory + TARGET, SIZE, access)));
	return target;
}

static uint32_t target_key(const struct device *device, struct ibv_mr **target)
{
	uint32_t key = (*target)->rkey;
	struct ibv_mr *other;

	if (attempt->flaw == ENDED_KEY) {
		must(!ibv_dereg_mr(*target));
		/* The index is used again, as far as the adapter does this. */
		must((other = ibv_reg_mr(device->pd, device->memory + TARGET, SIZE, ALL_ACCESS)));
		must(other->rkey != key);
		*target = other;
	}
	return attempt->flaw == WRONG_KEY ? key ^ 0x40 : key;
}

/* Its local ranges are checked with each packet. */
static bool moves_parts(void)
{
	return pairs_soft_roce() && attempt->flaw == BEYOND_LOCAL;
}

static void suffer(const struct device *device, struct ibv_qp *pair)
{
	struct ibv_pd *domain;
	struct ibv_mr *target = target_register(device, &domain);
	bool bad = attempt->flaw == BAD_RECEIVE;

	memset(device->memory, UNUSED, device->size);
	board->keys[1][0] = target_key(device, &target);
	pair_receive(pair, 8, device->memory, SIZE, device->mr->lkey ^ (bad ? 0x40 : 0), 1);
	pair_receive(pair, 9, device->memory, SIZE, device->mr->lkey, 1);
	processes_meet();
	if (attempt->remote) {
		cq_expect(device->cq, 8, bad ? IBV_WC_LOC_PROT_ERR : IBV_WC_WR_FLUSH_ERR);
		cq_expect(device->cq, 9, IBV_WC_WR_FLUSH_ERR);
		must(pair_state(pair) == IBV_QPS_ERR);
	}
	if (attempt->event >= 0 && !pairs_soft_roce())
		device_expect_event(device, (enum ibv_event_type)attempt->event, pair);
	processes_meet();
	if (!attempt->remote)
		must(pair_state(pair) == IBV_QPS_RTS);
	/* A READ fails when its data arrives: those that follow may have been executed before. */
	if (attempt->opcode == IBV_WR_RDMA_READ && !attempt->remote)
		memset(device->memory, UNUSED, 8);
	must(moves_parts() || bytes_all(device->memory, device->size, UNUSED));
	must(!ibv_dereg_mr(target));
	if (domain != device->pd)
		must(!ibv_dealloc_pd(domain));
}

static void work_spoil(struct work *work, const struct device *device)
{
	switch (attempt->flaw) {
	case BEYOND_END:
		work->remote += is_atomic(work->opcode) ? SIZE : 1;
		break;
	case BEFORE_START:
		work->remote -= 1;
		break;
	case MISALIGNED:
		work->remote += 4;
		break;
	case WRONG_LOCAL_KEY:
		work->lkey ^= 0x40;
		break;
	case BEYOND_LOCAL:
		work->local = device->memory + device->size - SIZE + 1;
		break;
	default:
		break;
	}
}

/* Two requests follow in the same call. */
static void offend(struct side *side)
{
	const struct device *device = &side->device;
	struct work work =
		side_work(side, attempt->opcode, TARGET, is_atomic(attempt->opcode) ? 8 : SIZE);
	struct ibv_mr *local;

	must((local = ibv_reg_mr(device->pd, device->memory, device->size,
				 attempt->flaw == LOCAL_READ_ONLY ? 0 : ALL_ACCESS)));
	memset(device->memory, UNUSED + 1, device->size);
	processes_meet();
	work.id = 1;
	work.lkey = local->lkey;
	work.rkey = board->keys[1][0];
	work_spoil(&work, device);
	pair_post(side->pair, &work);
	/* A queue pair in the error state may refuse or flush them. */
	work = work_send(device, 2, 8);
	work.flags = 0;
	pair_post(side->pair, &work);
	work.id = 3;
	pair_post(side->pair, &work);
	cq_expect(device->cq, 1, attempt->status);
	cq_expect(device->cq, 2, IBV_WC_WR_FLUSH_ERR);
	cq_expect(device->cq, 3, IBV_WC_WR_FLUSH_ERR);
	must(pair_state(side->pair) == IBV_QPS_ERR);
	processes_meet();
	must(moves_parts() || bytes_all(device->memory, device->size, UNUSED + 1));
	must(!ibv_dereg_mr(local));
}

static void attempt_side(struct side *side)
{
	if (side->self)
		suffer(&side->device, side->pair);
	else
		offend(side);
}

static void attempt_run(unsigned int self)
{
	struct connection connection = pairs_defaults;

	if (self && attempt->flaw == PAIR_MISSING_FLAG)
		connection.access &= ~flag_of(attempt->opcode);
	pairs_side(self, 128 * 1024, &connection, attempt_side);
}

LOOP_TEST(keys, a_forbidden_access_moves_no_byte_and_ends_both_queue_pairs, 0, COUNT(attempts))
{
	attempt = &attempts[_i];
	/* Soft-RoCE refuses it at the call. */
	if (attempt->flaw == MISALIGNED && pairs_soft_roce())
		return;
	processes_run(2, attempt_run);
}
END_TEST

/* ---- earlier requests ---- */

/* A READ is under way while a later request turns out to be wrong on this side. */
static void read_then_fail(struct side *side)
{
	struct device *device = &side->device;
	struct work work = side_work(side, IBV_WR_RDMA_READ, 0, 3 * MIB);

	bytes_fill(device->memory, device->size, side->self);
	processes_meet();
	if (side->self)
		return;
	work.id = 1;
	pair_post(side->pair, &work);
	work.opcode = IBV_WR_RDMA_WRITE;
	work.id = 2;
	work.lkey ^= 0x40;
	pair_post(side->pair, &work);
	cq_expect(device->cq, 1, IBV_WC_SUCCESS);
	must(bytes_are(device->memory, 3 * MIB, 1));
	cq_expect(device->cq, 2, IBV_WC_LOC_PROT_ERR);
}

TEST(keys, a_wrong_local_key_fails_after_the_requests_before_it_are_complete)
{
	pairs_run(2, 4 * MIB, &pairs_defaults, read_then_fail);
}
END_TEST
