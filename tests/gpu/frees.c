/* SPDX-License-Identifier: BSD-3-Clause */
/* frees.c -- GPU memory is freed, or deregistered, while another process reads or writes it
 *
 * The owner, process 0, registers memory. The peer, process 1, moves several messages; as soon as
 * the first bytes have moved, the owner frees the memory or deregisters it, and allocates anew.
 * Then the peer tries the key once more. A deregistration, and with peerpin a free, ends the key:
 * the peer gets an access error, and no byte of the new memory changes. Without peerpin a free
 * leaves the key alive and pinned pages behind, which the simulated adapter counts (stale_memory).
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "memory/cuda_abi.h"
#include "rdma/pairs.h"
#include "sim/sim_adapter.h"
#include "unit/suite.h"

CASE(frees, .timeout = 100);

#define SIZE		((size_t)8 << 20)
#define MESSAGES	4
#define ROUNDS		10
#define FILL		0x5a
#define PATIENCE	60 /* s */
#define must_cuda(call) must((call) == CUDA_SUCCESS)

static bool writes, frees;    /* of the test */
static unsigned char *shared; /* the peer's buffer, which both processes see */

/* ---- both processes ---- */

/* A new queue pair. `mr`: the memory that is offered; NULL: none. */
static struct ibv_qp *connect_pair(const struct device *device, unsigned int self,
				   const struct ibv_mr *mr)
{
	struct ibv_qp *pair = device_pair(device, IBV_QPT_RC, NULL, &pairs_defaults);
	struct card *card = &board->cards[self][!self];

	device_card(device, pair, card);
	if (mr) {
		card->key = mr->rkey;
		card->address = (uintptr_t)mr->addr;
	}
	processes_meet();
	pair_connect(pair, &board->cards[!self][self], &pairs_defaults);
	processes_meet();
	return pair;
}

/* A queue pair that has ended answers nothing. */
static void disconnect(struct ibv_qp *pair)
{
	processes_meet();
	must(!ibv_destroy_qp(pair));
}

/* ---- the peer ---- */

/* True: all succeeded. Another error than that of a key that has ended is none that may be. */
static bool move(const struct device *device, struct ibv_qp *pair, const struct ibv_mr *mr,
		 int count)
{
	struct work work = work_write(device, &board->cards[0][1], 0, SIZE);
	time_t end = pairs_seconds() + PATIENCE;
	struct ibv_wc done;
	bool good = true;
	int found;

	if (!writes)
		work.opcode = IBV_WR_RDMA_READ;
	work.local = shared;
	work.lkey = mr->lkey;
	for (int i = 0; i < count; i++)
		pair_post(pair, &work);
	while (count) {
		found = ibv_poll_cq(device->cq, 1, &done);
		must(found >= 0 && pairs_seconds() < end);
		if (!found)
			continue;
		must(done.status == IBV_WC_SUCCESS ||
		     (good && done.status == IBV_WC_REM_ACCESS_ERR) ||
		     (!good && done.status == IBV_WC_WR_FLUSH_ERR));
		good &= done.status == IBV_WC_SUCCESS;
		count--;
	}
	return good;
}

static void serve_round(const struct device *device, const struct ibv_mr *mr)
{
	struct ibv_qp *pair;
	bool cut;

	memset(shared, 1, SIZE);
	pair = connect_pair(device, 1, NULL);
	cut = !move(device, pair, mr, MESSAGES);
	processes_meet(); /* the new memory is there, or without peerpin is now made */
	processes_meet();
	disconnect(pair);
	pair = connect_pair(device, 1, NULL);
	board_set(WORD_STAGE, move(device, pair, mr, 1));
	board_set(WORD_DONE, cut);
	disconnect(pair);
}

/* ---- the owner ---- */

static bool preloaded;

static uint64_t adapter(const char *name)
{
	uint64_t value;

	must(!sim_adapter_statistic(name, &value));
	return value;
}

static CUdeviceptr allocate(unsigned char fill)
{
	CUdeviceptr memory;

	must_cuda(cuMemAlloc_v2(&memory, SIZE));
	must_cuda(cuMemsetD8_v2(memory, fill, SIZE));
	must_cuda(cuCtxSynchronize());
	return memory;
}

/* Until the first bytes have moved: of a READ they are in the peer's buffer. */
static void await_first_bytes(CUdeviceptr memory)
{
	time_t end = pairs_seconds() + PATIENCE;
	unsigned char byte;

	do {
		must(pairs_seconds() < end);
		if (writes)
			must_cuda(cuMemcpyDtoH_v2(&byte, memory, 1));
		else
			byte = __atomic_load_n(shared, __ATOMIC_RELAXED);
	} while (byte != (writes ? 1 : 2));
}

static void own_round(const struct device *device, uint32_t *cut, uint32_t *alive)
{
	CUdeviceptr memory = allocate(2), again;
	struct ibv_mr *mr = ibv_reg_mr(device->pd, (void *)(uintptr_t)memory, SIZE, ALL_ACCESS);
	static unsigned char content[SIZE];
	struct ibv_mr offered;
	struct ibv_qp *pair;

	must(mr);
	offered = *mr;
	pair = connect_pair(device, 0, &offered);
	await_first_bytes(memory);
	/* Without peerpin a free does not wait for the simulated adapter's copies: they would
	 * fault. */
	if (frees && !preloaded)
		processes_meet();
	if (!frees)
		must(!ibv_dereg_mr(mr));
	must_cuda(cuMemFree_v2(memory));
	again = allocate(FILL);
	if (!frees || preloaded)
		processes_meet();
	processes_meet();
	disconnect(pair);
	pair = connect_pair(device, 0, &offered);
	disconnect(pair);
	*alive += board_get(WORD_STAGE);
	*cut += board_get(WORD_DONE);
	must_cuda(cuMemcpyDtoH_v2(content, again, SIZE));
	must(bytes_all(content, SIZE, FILL));
	if (frees)
		must(!ibv_dereg_mr(mr));
	must_cuda(cuMemFree_v2(again));
}

static void own(const struct device *device)
{
	uint64_t stale = adapter("stale_memory");
	uint32_t cut = 0, alive = 0;
	CUcontext context;

	preloaded = dlsym(RTLD_DEFAULT, "peerpin_statistic") != NULL;
	must_cuda(cuInit(0));
	must_cuda(cuDevicePrimaryCtxRetain(&context, 0));
	must_cuda(cuCtxSetCurrent(context));
	for (int i = 0; i < ROUNDS; i++)
		own_round(device, &cut, &alive);
	stale = adapter("stale_memory") - stale;
	printf("# %s, %s: %d rounds, %u cut, key alive in %u, stale memory %llu\n",
	       writes ? "WRITE" : "READ", frees ? "free" : "deregistration", ROUNDS, cut, alive,
	       (unsigned long long)stale);
	if (frees && !preloaded)
		must(alive == ROUNDS && stale);
	else
		must(!alive && !stale && cut);
	must(!adapter("failed_copies"));
}

/* ---- */

static void run(unsigned int self)
{
	struct device device;
	struct ibv_mr *mr;

	device_open(&device, MIB);
	if (!self) {
		own(&device);
	} else {
		must((mr = ibv_reg_mr(device.pd, shared, SIZE, IBV_ACCESS_LOCAL_WRITE)));
		for (int i = 0; i < ROUNDS; i++)
			serve_round(&device, mr);
		must(!ibv_dereg_mr(mr));
	}
	device_close(&device);
}

LOOP_TEST(frees, a_free_or_a_deregistration_under_transfers_ends_the_key, 0, 4)
{
	writes = _i & 1;
	frees = _i < 2;
	shared = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert(shared != MAP_FAILED);
	processes_run(2, run);
}
END_TEST

SUITE("GPU memory freed under transfers")
