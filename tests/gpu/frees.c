/* SPDX-License-Identifier: BSD-3-Clause */
/* frees.c -- GPU memory is freed, or deregistered, while another process reads or writes it
 *
 * The owner registers memory. The peer, a process of its own, moves several messages; as soon as
 * the first bytes have moved, the owner frees the memory or deregisters it, and allocates anew.
 * Then the peer tries the key once more. A deregistration, and with peerpin a free, ends the key:
 * the peer gets an access error, and no byte of the new memory changes. Without peerpin a free
 * leaves the key alive and pinned pages behind, which the simulated adapter counts (stale_memory).
 *
 * frees [ROUNDS]: of each kind (default 10)
 */
#include "statistic.h"

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory/cuda_abi.h"
#include "sim/sim_adapter.h"

#define SIZE		((size_t)8 << 20)
#define MESSAGES	4
#define FILL		0x5a
#define ACCESS		(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define PATIENCE	60 /* s */
#define must_cuda(call) must((call) == CUDA_SUCCESS)

/* Where a process can be reached, and its memory. */
struct offer {
	uint32_t number, key;
	uint64_t address;
	uint16_t lid;
	union ibv_gid gid;
};

struct outcome {
	bool cut;   /* a message of those under way failed */
	bool alive; /* the key afterwards */
};

static int other;	      /* socket of the other process */
static unsigned char *shared; /* the peer's buffer, which both processes see */
static struct ibv_context *device;
static struct ibv_pd *pd;
static struct ibv_cq *queue;
static struct ibv_qp *pair;

/* ---- both processes ---- */

static void send_bytes(const void *data, size_t size)
{
	must(write(other, data, size) == (ssize_t)size);
}

static void receive_bytes(void *data, size_t size)
{
	must(recv(other, data, size, MSG_WAITALL) == (ssize_t)size);
}

static void meet(void)
{
	char byte = 0;

	send_bytes(&byte, 1);
	receive_bytes(&byte, 1);
}

static void open_device(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);

	must(devices && devices[0]);
	device = ibv_open_device(devices[0]);
	must(device);
	pd = ibv_alloc_pd(device);
	queue = ibv_create_cq(device, 16, NULL, NULL, 0);
	must(pd && queue);
	ibv_free_device_list(devices);
}

/* Connect a new queue pair. `mr`: the memory that is offered; NULL: none. */
static struct offer connect_pair(const struct ibv_mr *mr)
{
	struct ibv_qp_init_attr made = {
		.send_cq = queue,
		.recv_cq = queue,
		.cap = { .max_send_wr = 8, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1
	};
	struct ibv_qp_attr attributes = { .qp_state = IBV_QPS_INIT,
					  .port_num = 1,
					  .qp_access_flags = ACCESS };
	struct offer mine = { 0 }, theirs;
	struct ibv_port_attr port;

	pair = ibv_create_qp(pd, &made);
	must(pair && !ibv_query_port(device, 1, &port) && !ibv_query_gid(device, 1, 0, &mine.gid));
	mine.number = pair->qp_num;
	mine.lid = port.lid;
	if (mr) {
		mine.key = mr->rkey;
		mine.address = (uintptr_t)mr->addr;
	}
	send_bytes(&mine, sizeof(mine));
	receive_bytes(&theirs, sizeof(theirs));
	must(!ibv_modify_qp(pair, &attributes,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	attributes = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
					   .path_mtu = port.active_mtu,
					   .dest_qp_num = theirs.number,
					   .min_rnr_timer = 12,
					   .max_dest_rd_atomic = 8,
					   .ah_attr = { .port_num = 1, .dlid = theirs.lid } };
	must(!ibv_modify_qp(pair, &attributes,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER));
	attributes = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
					   .timeout = 18,
					   .retry_cnt = 7,
					   .rnr_retry = 7,
					   .max_rd_atomic = 8 };
	must(!ibv_modify_qp(pair, &attributes,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
	meet();
	return theirs;
}

static void disconnect(void)
{
	meet(); /* a queue pair that has ended answers nothing */
	must(!ibv_destroy_qp(pair));
}

/* ---- the peer ---- */

static void post(const struct ibv_mr *mr, const struct offer *to, bool writes, uint32_t bytes)
{
	struct ibv_sge piece = { (uintptr_t)shared, bytes, mr->lkey };
	struct ibv_send_wr work = { .sg_list = &piece,
				    .num_sge = 1,
				    .opcode = writes ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
				    .wr.rdma = { to->address, to->key } };
	struct ibv_send_wr *bad;

	must(!ibv_post_send(pair, &work, &bad));
}

/* True: all succeeded. Another error than that of a key that has ended is none that may be. */
static bool complete(int count)
{
	double end = seconds() + PATIENCE;
	struct ibv_wc done;
	bool good = true;
	int found;

	while (count) {
		found = ibv_poll_cq(queue, 1, &done);
		must(found >= 0 && seconds() < end);
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

static void serve_round(const struct ibv_mr *mr, bool writes)
{
	struct outcome outcome;
	struct offer to;

	memset(shared, 1, SIZE);
	to = connect_pair(NULL);
	for (int i = 0; i < MESSAGES; i++)
		post(mr, &to, writes, SIZE);
	outcome.cut = !complete(MESSAGES);
	meet(); /* the new memory is there, or without peerpin is now made */
	meet();
	disconnect();
	connect_pair(NULL);
	post(mr, &to, writes, SIZE);
	outcome.alive = complete(1);
	send_bytes(&outcome, sizeof(outcome));
	disconnect();
}

static int serve(void)
{
	struct ibv_mr *mr;
	bool writes;

	open_device();
	mr = ibv_reg_mr(pd, shared, SIZE, IBV_ACCESS_LOCAL_WRITE);
	must(mr);
	while (recv(other, &writes, sizeof(writes), MSG_WAITALL) == sizeof(writes))
		serve_round(mr, writes);
	must(!ibv_dereg_mr(mr) && !ibv_destroy_cq(queue) && !ibv_dealloc_pd(pd) &&
	     !ibv_close_device(device));
	return 0;
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
static void await_first_bytes(CUdeviceptr memory, bool writes)
{
	double end = seconds() + PATIENCE;
	unsigned char byte;

	do {
		must(seconds() < end);
		if (writes)
			must_cuda(cuMemcpyDtoH_v2(&byte, memory, 1));
		else
			byte = __atomic_load_n(shared, __ATOMIC_RELAXED);
	} while (byte != (writes ? 1 : 2));
}

static bool is_filled(CUdeviceptr memory)
{
	static unsigned char content[SIZE];

	must_cuda(cuMemcpyDtoH_v2(content, memory, SIZE));
	return content[0] == FILL && !memcmp(content, content + 1, SIZE - 1);
}

static struct outcome own_round(bool writes, bool frees, bool *same)
{
	CUdeviceptr memory = allocate(2), again;
	struct ibv_mr *mr = ibv_reg_mr(pd, (void *)(uintptr_t)memory, SIZE, ACCESS);
	struct outcome outcome;

	must(mr);
	send_bytes(&writes, sizeof(writes));
	connect_pair(mr);
	await_first_bytes(memory, writes);
	/* Without peerpin a free does not wait for the simulated adapter's copies: they would
	 * fault. */
	if (frees && !preloaded)
		meet();
	if (!frees)
		must(!ibv_dereg_mr(mr));
	must_cuda(cuMemFree_v2(memory));
	again = allocate(FILL);
	*same = again == memory;
	if (!frees || preloaded)
		meet();
	meet();
	disconnect();
	connect_pair(NULL);
	receive_bytes(&outcome, sizeof(outcome));
	disconnect();
	must(is_filled(again));
	if (frees)
		must(!ibv_dereg_mr(mr));
	must_cuda(cuMemFree_v2(again));
	return outcome;
}

static void own(bool writes, bool frees, int rounds)
{
	uint64_t stale = adapter("stale_memory");
	int cut = 0, alive = 0, same_address = 0;
	struct outcome outcome;
	bool same;

	for (int i = 0; i < rounds; i++) {
		outcome = own_round(writes, frees, &same);
		cut += outcome.cut;
		alive += outcome.alive;
		same_address += same;
	}
	stale = adapter("stale_memory") - stale;
	printf("# %s, %s: %d rounds, %d cut, %d at the same address, key alive in %d, stale memory "
	       "%llu\n",
	       writes ? "WRITE" : "READ", frees ? "free" : "deregistration", rounds, cut,
	       same_address, alive, (unsigned long long)stale);
	if (frees && !preloaded)
		must(alive == rounds && stale);
	else
		must(!alive && !stale && cut);
	printf("ok a %s under %s\n", frees ? "free" : "deregistration",
	       writes ? "WRITEs" : "READs");
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 10, sockets[2], status;
	CUcontext context;
	pid_t peer;

	setvbuf(stdout, NULL, _IOLBF, 0);
	must(rounds > 0 && !socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
	shared = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(shared != MAP_FAILED);
	/* Neither CUDA nor verbs was used. */
	peer = fork();
	must(peer >= 0);
	other = sockets[!peer];
	close(sockets[!!peer]);
	if (!peer)
		return serve();
	preloaded = dlsym(RTLD_DEFAULT, "peerpin_statistic") != NULL;
	must_cuda(cuInit(0));
	must_cuda(cuDevicePrimaryCtxRetain(&context, 0));
	must_cuda(cuCtxSetCurrent(context));
	open_device();
	for (int i = 0; i < 4; i++)
		own(i & 1, i < 2, rounds);
	close(other);
	must(waitpid(peer, &status, 0) == peer && status == 0);
	must(!adapter("failed_copies"));
	must(!ibv_destroy_cq(queue) && !ibv_dealloc_pd(pd) && !ibv_close_device(device));
	printf("4 passed, 0 failed, 0 skipped\n");
	return 0;
}
