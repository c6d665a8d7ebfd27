/* SPDX-License-Identifier: BSD-3-Clause */
/* probe.c -- readings probe/: registrations of real GPU memory by each method; --deep: data
 * through registered memory, and costs
 *
 * One child per pair of GPU and adapter, so that a crash in one pair hides no other. Access
 * flags are those that MPI and NCCL use: an adapter may register read-only memory and refuse
 * writable memory. "data-direct" is tried only with adapters that support it.
 *
 * Readings beside those of host.h, all below probe/GPU/ADAPTER/:
 *
 *   ended               end of the pair's child; output: its output. probe/ended is the first
 *                       that is not "ok", absent if no pair was tried. If the child is lost
 *                       during a method, another child continues with the next one:
 *                       METHOD/ended, METHOD/output
 *   METHOD/begun        "1": the method was started
 *   METHOD/transfer     error EOPNOTSUPP with a reason: no transfer was possible, for example
 *                       without an active port
 *   METHOD/BYTES        "fail CALL ERRNO" may name a call before the registration:
 *                       "fail ibv_open_device EACCES",
 *                       "fail cuMemGetHandleForAddressRange CUDA_ERROR_NOT_SUPPORTED";
 *                       or the end of a lost child: "fail timeout 10 in ibv_reg_mr"
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/kernel.h"
#include "tools/doctor/calls.h"
#include "tools/doctor/host.h"
#include "tools/doctor/rc_abi.h"
#include "tools/units.h"

#define SECONDS	     10
#define PCIE_MAPPING 1ULL /* CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE */

static const struct {
	const char *name;
	size_t length;
} sizes[] = { { PROBE_SMALL, (size_t)2 << 20 }, { PROBE_LARGE, (size_t)64 << 20 } };

/* ---- state of the child ---- */

static struct {
	/* Parameters of the next child, set before the fork. */
	int gpu;
	char adapter[64];
	enum method first; /* earlier methods are done */
	/* Of the child. */
	struct ibv_pd *pd;
	const char *failure; /* the last: "ibv_reg_mr EFAULT" */
} probe_pair;

/* Calls of a measurement; the reading is their median. */
#define PROBE_TIMES 5

struct probe_memory {
	CUdeviceptr address;
	size_t length;
	int fd; /* dma-buf descriptor; -1: none */
	bool is_host;
};

static void probe_deep(struct host *host, enum method method);

static struct ibv_context *context;

/* False, as with each failed call: see probe_pair.failure. */
static bool probe_pair_failed_verbs(const char *call)
{
	probe_pair.failure = text_of("%s %s", call, host_error_name(errno ? errno : EIO));
	return false;
}

#define MADE(call, ...) cuda_made(#call, CUDA(call, __VA_ARGS__), &probe_pair.failure)

static bool probe_pair_open_gpu(void)
{
	CUcontext gpu_context;

	if (cuda_load()) {
		probe_pair.failure = "dlopen ENOENT";
		return false;
	}
	return MADE(cuInit, 0) && MADE(cuDevicePrimaryCtxRetain, &gpu_context, probe_pair.gpu) &&
	       MADE(cuCtxSetCurrent, gpu_context);
}

static bool probe_pair_open_adapter(struct ibv_device **device)
{
	if (verbs_load()) {
		probe_pair.failure = "dlopen ENOENT";
		return false;
	}
	errno = ENODEV;
	*device = verbs_find(probe_pair.adapter);
	if (!*device)
		return probe_pair_failed_verbs("ibv_get_device_list");
	errno = 0;
	context = VERBS(ibv_open_device, *device);
	if (!context)
		return probe_pair_failed_verbs("ibv_open_device");
	errno = 0;
	probe_pair.pd = VERBS(ibv_alloc_pd, context);
	return probe_pair.pd || probe_pair_failed_verbs("ibv_alloc_pd");
}

/* ---- methods ---- */

static bool probe_pair_export_as(struct probe_memory *memory, unsigned long long flags)
{
	return MADE(cuMemGetHandleForAddressRange, &memory->fd, memory->address, memory->length,
		    CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, flags);
}

static bool probe_pair_export_plain(struct probe_memory *memory)
{
	return probe_pair_export_as(memory, 0);
}

static bool probe_pair_export_direct(struct probe_memory *memory)
{
	return probe_pair_export_as(memory, PCIE_MAPPING) || probe_pair_export_as(memory, 0);
}

static struct ibv_mr *probe_pair_register_dma_buf(const struct probe_memory *memory, int access)
{
	errno = ENOSYS;
	if (!verbs.ibv_reg_dmabuf_mr)
		return NULL;
	return VERBS(ibv_reg_dmabuf_mr, probe_pair.pd, 0, memory->length, memory->address,
		     memory->fd, access);
}

static struct ibv_mr *probe_pair_register_direct(const struct probe_memory *memory, int access)
{
	return VERBS(mlx5dv_reg_dmabuf_mr, probe_pair.pd, 0, memory->length, memory->address,
		     memory->fd, access, MLX5DV_ACCESS_DATA_DIRECT);
}

/* Calls ibv_reg_mr_iova2 for optional access flags, as verbs.h does. */
static struct ibv_mr *probe_pair_register_address(const struct probe_memory *memory, int access)
{
	void *address = (void *)(uintptr_t)memory->address;

	if (access & IBV_ACCESS_RELAXED_ORDERING && verbs.ibv_reg_mr_iova2)
		return VERBS(ibv_reg_mr_iova2, probe_pair.pd, address, memory->length,
			     memory->address, (unsigned int)access);
	return VERBS(ibv_reg_mr, probe_pair.pd, address, memory->length, access);
}

static const struct pinning {
	const char *call;
	bool (*export)(struct probe_memory *memory); /* NULL: no export */
	struct ibv_mr *(*register_it)(const struct probe_memory *memory, int access);
} probe_pair_pinnings[METHODS] = {
	[METHOD_DMA_BUF] = { "ibv_reg_dmabuf_mr", probe_pair_export_plain,
			     probe_pair_register_dma_buf },
	[METHOD_PEER_MEMORY] = { "ibv_reg_mr", NULL, probe_pair_register_address },
	[METHOD_DATA_DIRECT] = { "mlx5dv_reg_dmabuf_mr", probe_pair_export_direct,
				 probe_pair_register_direct },
};

/* ---- one method ---- */

static int probe_pair_compare(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

/* Sorts the times. */
static uint64_t probe_pair_median(uint64_t times[PROBE_TIMES])
{
	qsort(times, PROBE_TIMES, sizeof(*times), probe_pair_compare);
	return times[PROBE_TIMES / 2] ? times[PROBE_TIMES / 2] : 1;
}

/* Median duration of the registering call in ns. 0: a call failed, see probe_pair.failure. */
static uint64_t probe_pair_time_registration(enum method method, const struct probe_memory *memory,
					     int access)
{
	const struct pinning *pinning = &probe_pair_pinnings[method];
	uint64_t times[PROBE_TIMES], start;
	struct ibv_mr *mr;

	for (int i = 0; i < PROBE_TIMES; i++) {
		errno = 0;
		start = kernel_time(CLOCK_MONOTONIC);
		mr = pinning->register_it(memory, access);
		times[i] = kernel_time(CLOCK_MONOTONIC) - start;
		if (!mr)
			return probe_pair_failed_verbs(pinning->call);
		errno = VERBS(ibv_dereg_mr, mr);
		if (errno)
			return probe_pair_failed_verbs("ibv_dereg_mr");
	}
	return probe_pair_median(times);
}

/* Name of a reading of the pair, in a buffer that the next call overwrites. */
static const char *probe_pair_name(enum method method, const char *what)
{
	return reading_name("probe/%d/%s/%s/%s", probe_pair.gpu, probe_pair.adapter,
			    method_name(method), what);
}

static void probe_pair_record(struct host *host, enum method method, const char *what,
			      uint64_t time)
{
	if (time)
		host_record(host, probe_pair_name(method, what), "ok %llu",
			    (unsigned long long)time);
	else
		host_record(host, probe_pair_name(method, what), "fail %s", probe_pair.failure);
}

/* Records probe_pair.failure for all sizes. */
static void probe_pair_record_failure(struct host *host, enum method method)
{
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		probe_pair_record(host, method, sizes[i].name, 0);
}

static void probe_pair_try_memory(struct host *host, enum method method, const char *bytes,
				  struct probe_memory *memory)
{
	const struct pinning *pinning = &probe_pair_pinnings[method];
	uint64_t time;

	if (pinning->export && !pinning->export(memory)) {
		probe_pair_record(host, method, bytes, 0);
		return;
	}
	time = probe_pair_time_registration(method, memory, PROBE_ACCESS);
	probe_pair_record(host, method, bytes, time);
	if (time)
		probe_pair_record(
			host, method, "relaxed",
			probe_pair_time_registration(method, memory,
						     PROBE_ACCESS | IBV_ACCESS_RELAXED_ORDERING));
	if (memory->fd >= 0)
		close(memory->fd);
}

/* Adapters access host memory of integrated GPUs (GPUDirect RDMA guide 12.6, 4.4). */
static bool probe_pair_allocate(struct host *host, struct probe_memory *memory)
{
	int64_t integrated = 0;
	void *address;

	host_number(host, &integrated, "cuda/%d/attribute/18", probe_pair.gpu);
	memory->is_host = integrated > 0;
	if (!memory->is_host)
		return MADE(cuMemAlloc_v2, &memory->address, memory->length);
	if (!MADE(cuMemHostAlloc, &address, memory->length, 0))
		return false;
	memory->address = (CUdeviceptr)(uintptr_t)address;
	return true;
}

static void probe_pair_free(const struct probe_memory *memory)
{
	if (memory->is_host)
		CUDA(cuMemFreeHost, (void *)(uintptr_t)memory->address);
	else
		CUDA(cuMemFree_v2, memory->address);
}

/* The record of a reading's first round stays (host_record). */
static void probe_pair_try_sizes(struct host *host, enum method method)
{
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		struct probe_memory memory = { .length = sizes[i].length, .fd = -1 };

		if (probe_pair_allocate(host, &memory)) {
			probe_pair_try_memory(host, method, sizes[i].name, &memory);
			probe_pair_free(&memory);
		} else {
			probe_pair_record(host, method, sizes[i].name, 0);
		}
	}
}

static size_t probe_pair_free_bytes(void)
{
	size_t free_bytes = 0, total;

	return CUDA(cuMemGetInfo_v2, &free_bytes, &total) == CUDA_SUCCESS ? free_bytes : 0;
}

/* Tries up to 4 times, because other processes may allocate meanwhile. The first round is no
 * measurement of the GPU's free memory: the driver allocates memory of its own then. */
static void probe_pair_try_method(struct host *host, enum method method)
{
	size_t before = 0, after = 0;

	host_record(host, probe_pair_name(method, "begun"), "1");
	for (int i = 0; i < 4 && (i < 2 || after < before); i++) {
		before = probe_pair_free_bytes();
		probe_pair_try_sizes(host, method);
		after = probe_pair_free_bytes();
	}
	host_record(host, probe_pair_name(method, "returned"), after < before ? "lost %zu" : "ok",
		    before - after);
	probe_deep(host, method);
}

static bool probe_pair_has_data_direct(struct ibv_device *device)
{
	char path[1024];

	return verbs.mlx5dv_is_supported && verbs.mlx5dv_reg_dmabuf_mr &&
	       verbs.mlx5dv_get_data_direct_sysfs_path && VERBS(mlx5dv_is_supported, device) &&
	       VERBS(mlx5dv_get_data_direct_sysfs_path, context, path, sizeof(path)) == 0;
}

static void probe_pair_query(struct host *host)
{
	struct ibv_device *device = NULL;

	if (!probe_pair_open_gpu() || !probe_pair_open_adapter(&device)) {
		probe_pair_record_failure(host, METHOD_DMA_BUF);
		probe_pair_record_failure(host, METHOD_PEER_MEMORY);
		return;
	}
	for (enum method method = probe_pair.first; method < METHOD_DATA_DIRECT; method++)
		probe_pair_try_method(host, method);
	if (probe_pair_has_data_direct(device))
		probe_pair_try_method(host, METHOD_DATA_DIRECT);
	VERBS(ibv_dealloc_pd, probe_pair.pd);
	VERBS(ibv_close_device, context);
	CUDA(cuDevicePrimaryCtxRelease_v2, probe_pair.gpu);
}

/* Parent only: records failure `how` of the lost child for this method. Readings already
 * recorded stay (host_record). */
static void probe_pair_lost(struct host *host, enum method method, const char *how)
{
	probe_pair.failure = how;
	probe_pair_record_failure(host, method);
}

/* ---- transfers ----
 *
 * A successful registration does not prove that data arrives: bridges and IOMMUs may misroute it
 * silently. The adapter writes a pattern into GPU memory and reads it back, which also completes
 * the writes. The driver then reads the pattern, and writes a second pattern for the adapter to
 * read.
 */

/* Memory of a GPU: `length` bytes at `address`, registered as `mr`. */
struct transfer {
	const struct ibv_mr *mr;
	CUdeviceptr address;
	size_t length;
	CUdeviceptr from;  /* source of copies, of the same length */
	unsigned int *old; /* counts the rounds of copies with old data; NULL: no copies */
};

#define TRANSFER_ROUNDS 4

#define WAIT_NS 3000000000ull

/* The source is filled first, several times: copy and fills take longer than the adapter's read of
 * the last bytes. */
#define TRANSFER_FILLS 4
#define TRANSFER_END   ((size_t)4096)

#define LAYER_ETHERNET 2
#define STATE_ACTIVE   4

struct connection {
	struct ibv_pd *pd;
	void *cq;
	struct rc_pair *near, *far;
	struct verbs_port attributes;
	uint8_t port, gid_index;
	struct rc_gid gid;
	unsigned char *bytes; /* host memory: data to send, then data received */
	struct ibv_mr *mr;    /* of `bytes` */
};

static const char *transfer_failed(const char *call)
{
	return text_of("%s %s", call, host_error_name(errno ? errno : EIO));
}

/* ---- the connection ---- */

static const char *transfer_find_port(struct connection *connection)
{
	struct rc_gid none = { .raw = { 0 } };

	if (!verbs.ibv_query_port || !verbs.ibv_query_gid)
		return "libibverbs has no port queries";
	for (int port = 1; port < 16; port++) {
		connection->port = (uint8_t)port;
		if (VERBS(ibv_query_port, connection->pd->context, connection->port,
			  &connection->attributes))
			break;
		for (int i = 0; connection->attributes.state == STATE_ACTIVE &&
				i < connection->attributes.gid_table_length && i < 256;
		     i++) {
			connection->gid_index = (uint8_t)i;
			if (!VERBS(ibv_query_gid, connection->pd->context, connection->port, i,
				   &connection->gid) &&
			    memcmp(&connection->gid, &none, sizeof(none)) != 0)
				return NULL;
		}
	}
	return "no port is active";
}

static struct rc_pair *transfer_make_pair(struct connection *connection)
{
	struct rc_init init = {
		.send_cq = connection->cq,
		.recv_cq = connection->cq,
		.cap = { .max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.type = RC_TYPE
	};

	errno = 0;
	return VERBS(ibv_create_qp, connection->pd, &init);
}

static int transfer_modify(struct rc_pair *pair, struct rc_attributes attributes, int mask)
{
	return VERBS(ibv_modify_qp, pair, &attributes, mask);
}

static int transfer_connect_pair(struct connection *connection, struct rc_pair *pair,
				 const struct rc_pair *other)
{
	const struct verbs_port *port = &connection->attributes;
	const struct rc_attributes init = { .state = RC_INIT,
					    .port = connection->port,
					    .access = IBV_ACCESS_REMOTE_WRITE |
						      IBV_ACCESS_REMOTE_READ };
	const struct rc_attributes receive = {
		.state = RC_RTR,
		.path_mtu = port->active_mtu,
		.destination = other->number,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.address = { .gid = connection->gid,
			     .gid_index = connection->gid_index,
			     .hop_limit = 1,
			     .lid = port->lid,
			     .is_global = port->link_layer == LAYER_ETHERNET || !port->lid,
			     .port = connection->port },
	};
	const struct rc_attributes send = {
		.state = RC_RTS, .timeout = 14, .retry_count = 7, .rnr_retry = 7, .max_rd_atomic = 1
	};
	int error = transfer_modify(pair, init, RC_STATE | RC_PKEY_INDEX | RC_PORT | RC_ACCESS);

	if (!error)
		error = transfer_modify(pair, receive,
					RC_STATE | RC_AV | RC_PATH_MTU | RC_DESTINATION |
						RC_RQ_PSN | RC_MAX_DEST_RD_ATOMIC |
						RC_MIN_RNR_TIMER);
	if (!error)
		error = transfer_modify(pair, send,
					RC_STATE | RC_TIMEOUT | RC_RETRY | RC_RNR_RETRY |
						RC_SQ_PSN | RC_MAX_RD_ATOMIC);
	return error;
}

static const char *transfer_open(struct connection *connection)
{
	const char *error = transfer_find_port(connection);

	if (error)
		return error;
	if (!verbs.ibv_create_cq || !verbs.ibv_create_qp || !verbs.ibv_modify_qp ||
	    !verbs.ibv_destroy_qp || !verbs.ibv_destroy_cq)
		return "libibverbs has no queue pairs";
	errno = 0;
	connection->cq = VERBS(ibv_create_cq, connection->pd->context, 8, NULL, NULL, 0);
	if (!connection->cq)
		return transfer_failed("ibv_create_cq");
	connection->near = transfer_make_pair(connection);
	connection->far = connection->near ? transfer_make_pair(connection) : NULL;
	if (!connection->far)
		return transfer_failed("ibv_create_qp");
	errno = transfer_connect_pair(connection, connection->near, connection->far);
	if (!errno)
		errno = transfer_connect_pair(connection, connection->far, connection->near);
	return errno ? transfer_failed("ibv_modify_qp") : NULL;
}

static void transfer_close(struct connection *connection)
{
	if (connection->near)
		VERBS(ibv_destroy_qp, connection->near);
	if (connection->far)
		VERBS(ibv_destroy_qp, connection->far);
	if (connection->cq)
		VERBS(ibv_destroy_cq, connection->cq);
}

/* ---- data ---- */

/* Runs one RDMA operation. Returns NULL, or the error. */
static const char *transfer_move(struct connection *connection, int operation, void *local,
				 CUdeviceptr address, uint32_t rkey, size_t length)
{
	struct rc_context *context = (struct rc_context *)connection->pd->context;
	struct rc_piece piece = { (uintptr_t)local, (uint32_t)length, connection->mr->lkey };
	struct rc_request request = { .pieces = &piece,
				      .piece_count = 1,
				      .operation = operation,
				      .flags = RC_SIGNALED,
				      .remote_address = address,
				      .rkey = rkey },
			  *bad;
	struct rc_completion completion;
	uint64_t end = kernel_time(CLOCK_MONOTONIC) + WAIT_NS;
	int count;

	child_does("a transfer");
	errno = ((rc_post *)context->operations[RC_POST_SEND])(connection->near, &request, &bad);
	if (errno)
		return transfer_failed("ibv_post_send");
	do {
		count = ((rc_poll *)context->operations[RC_POLL_CQ])(connection->cq, 1,
								     &completion);
		/* A software adapter needs the processor. */
		sched_yield();
	} while (!count && kernel_time(CLOCK_MONOTONIC) < end);
	if (count < 0)
		return transfer_failed("ibv_poll_cq");
	if (!count)
		return "no completion came within 3 s";
	if (!completion.status)
		return NULL;
	return text_of("%s: completion status %d, vendor's %u",
		       operation == RC_WRITE ? "RDMA write" : "RDMA read", completion.status,
		       completion.vendor_error);
}

static void transfer_fill(unsigned char *bytes, size_t length, uint32_t seed)
{
	for (size_t i = 0; i < length; i++) {
		seed = seed * 1664525 + 1013904223;
		bytes[i] = (unsigned char)(seed >> 24);
	}
}

static const char *transfer_compare(const unsigned char *sent, const unsigned char *came,
				    size_t length, const char *how)
{
	size_t at = 0;

	while (at < length && sent[at] == came[at])
		at++;
	return at == length
		       ? NULL
		       : text_of("%s: another byte than was sent, %zu of %zu", how, at, length);
}

static const char *transfer_failed_copy(CUresult result)
{
	return text_of("cuMemcpy %s", cuda_result(result));
}

static const char *transfer_exchange(struct connection *connection, const struct transfer *transfer)
{
	const CUdeviceptr address = transfer->address;
	const uint32_t rkey = transfer->mr->rkey;
	const size_t length = transfer->length;
	unsigned char *sent = connection->bytes, *came = sent + length;
	const char *error;
	CUresult result;

	transfer_fill(sent, length, 1);
	error = transfer_move(connection, RC_WRITE, sent, address, rkey, length);
	if (!error)
		error = transfer_move(connection, RC_READ, came, address, rkey, length);
	if (!error)
		error = transfer_compare(sent, came, length, "written and read by the adapter");
	if (error)
		return error;
	memset(came, 0, length);
	result = CUDA(cuMemcpyDtoH_v2, came, address, length);
	if (result != CUDA_SUCCESS)
		return transfer_failed_copy(result);
	error = transfer_compare(sent, came, length, "written by the adapter, read by the driver");
	if (error)
		return error;
	transfer_fill(sent, length, 2);
	result = CUDA(cuMemcpyHtoD_v2, address, sent, length);
	if (result != CUDA_SUCCESS)
		return transfer_failed_copy(result);
	error = transfer_move(connection, RC_READ, came, address, rkey, length);
	return error ? error
		     : transfer_compare(sent, came, length,
					"written by the driver, read by the adapter");
}

/* The target then has the value of the last round. Values of two rounds differ. */
static const char *transfer_read_copies(struct connection *connection,
					const struct transfer *transfer)
{
	static unsigned char value;
	const CUdeviceptr end = transfer->address + transfer->length - TRANSFER_END;
	const char *error = NULL;
	CUresult result = CUDA_SUCCESS;

	for (int round = 0; round < TRANSFER_ROUNDS && !error; round++) {
		value++;
		for (int i = 0; i < TRANSFER_FILLS && result == CUDA_SUCCESS; i++)
			result = CUDA(cuMemsetD8_v2, transfer->from, value, transfer->length);
		if (result == CUDA_SUCCESS)
			result = CUDA(cuMemcpyDtoD_v2, transfer->address, transfer->from,
				      transfer->length);
		if (result != CUDA_SUCCESS)
			return transfer_failed_copy(result);
		error = transfer_move(connection, RC_READ, connection->bytes, end,
				      transfer->mr->rkey, TRANSFER_END);
		for (size_t i = 0; i < TRANSFER_END; i++) {
			if (connection->bytes[i] == value)
				continue;
			++*transfer->old;
			break;
		}
		CUDA(cuCtxSynchronize, );
	}
	return error;
}

/* Runs RDMA writes and reads of the memory over a loopback connection of the adapter. The driver
 * copies these bytes to and from the host as well. With `old` the driver instead copies inside the
 * GPU, and the adapter reads the end of the target as soon as the copy has returned.
 *
 * Returns NULL if every byte matches, with `old` if every call succeeds, else the error. *tried ==
 * false: no transfer was possible, and the error is the reason. */
static const char *transfer_run(struct ibv_pd *pd, const struct transfer *transfer, bool *tried)
{
	struct connection connection = { .pd = pd };
	size_t bytes = transfer->old ? TRANSFER_END : 2 * transfer->length;
	const char *error;

	*tried = false;
	connection.bytes =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (connection.bytes == MAP_FAILED)
		return transfer_failed("mmap");
	errno = 0;
	connection.mr = VERBS(ibv_reg_mr, pd, connection.bytes, bytes, IBV_ACCESS_LOCAL_WRITE);
	if (!connection.mr) {
		error = transfer_failed("ibv_reg_mr of ordinary memory");
	} else {
		error = transfer_open(&connection);
		*tried = !error;
		if (!error)
			error = transfer->old ? transfer_read_copies(&connection, transfer)
					      : transfer_exchange(&connection, transfer);
		transfer_close(&connection);
		VERBS(ibv_dereg_mr, connection.mr);
	}
	munmap(connection.bytes, bytes);
	return error;
}

/* ---- --deep ---- */

/* A size that would take longer than this, by the time of the one before, is left out. */
#define COSTS_NS 2000000000ull

static bool probe_deep_export(enum method method, struct probe_memory *memory)
{
	memory->fd = -1;
	return !probe_pair_pinnings[method].export || probe_pair_pinnings[method].export(memory);
}

static struct ibv_mr *probe_deep_register(enum method method, const struct probe_memory *memory)
{
	struct ibv_mr *mr;

	errno = 0;
	mr = probe_pair_pinnings[method].register_it(memory, PROBE_ACCESS);
	if (!mr)
		probe_pair_failed_verbs(probe_pair_pinnings[method].call);
	return mr;
}

/* The calls succeeded before, with this size: a failure is the transfer's. */
static const char *probe_deep_transfer(enum method method, struct probe_memory *memory,
				       struct transfer transfer, bool *tried)
{
	const char *error;

	*tried = true;
	if (!probe_deep_export(method, memory))
		return probe_pair.failure;
	transfer.mr = probe_deep_register(method, memory);
	transfer.address = memory->address;
	transfer.length = memory->length;
	error = probe_pair.failure;
	if (transfer.mr) {
		error = transfer_run(probe_pair.pd, &transfer, tried);
		VERBS(ibv_dereg_mr, (struct ibv_mr *)transfer.mr);
	}
	if (memory->fd >= 0)
		close(memory->fd);
	return error;
}

static void probe_deep_exchange(struct host *host, enum method method)
{
	struct probe_memory memory = { .length = sizes[0].length };
	const char *error, *name;
	bool tried;

	if (!probe_pair_allocate(host, &memory))
		return;
	error = probe_deep_transfer(method, &memory, (struct transfer){ .old = NULL }, &tried);
	name = probe_pair_name(method, "transfer");
	if (!tried)
		host_record_error(host, name, EOPNOTSUPP, "%s", error);
	else
		host_record(host, name, error ? "fail %s" : "ok", error);
	probe_pair_free(&memory);
}

/* Copies without and with SYNC_MEMOPS of the target (GPUDirect RDMA guide 12.6, 2.7). */
static void probe_deep_copy(struct host *host, enum method method)
{
	struct probe_memory to = { .length = sizes[1].length },
			    from = { .length = sizes[1].length };
	unsigned int old[2] = { 0 }, on = 1;
	const char *error;
	bool tried;

	if (!probe_pair_allocate(host, &to))
		return;
	if (!to.is_host && probe_pair_allocate(host, &from)) {
		error = probe_deep_transfer(
			method, &to, (struct transfer){ .from = from.address, .old = old }, &tried);
		if (!error && CUDA(cuPointerSetAttribute, &on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
				   to.address) == CUDA_SUCCESS)
			error = probe_deep_transfer(
				method, &to,
				(struct transfer){ .from = from.address, .old = old + 1 }, &tried);
		if (!error)
			host_record(host, probe_pair_name(method, "copies"), "ok %u %u %u", old[0],
				    old[1], TRANSFER_ROUNDS);
		probe_pair_free(&from);
	}
	probe_pair_free(&to);
}

/* ---- costs ---- */

static bool probe_deep_time(enum method method, struct probe_memory *memory, uint64_t *export,
			    uint64_t *enter, uint64_t *leave)
{
	uint64_t start = kernel_time(CLOCK_MONOTONIC), exported, registered;
	struct ibv_mr *mr;

	if (!probe_deep_export(method, memory))
		return false;
	exported = kernel_time(CLOCK_MONOTONIC);
	mr = probe_deep_register(method, memory);
	registered = kernel_time(CLOCK_MONOTONIC);
	if (mr)
		VERBS(ibv_dereg_mr, mr);
	*export = memory->fd < 0 ? 0 : exported - start;
	*enter = registered - exported;
	*leave = kernel_time(CLOCK_MONOTONIC) - registered;
	if (memory->fd >= 0)
		close(memory->fd);
	return mr;
}

static bool probe_deep_cost(struct host *host, enum method method, size_t length)
{
	struct probe_memory memory = { .length = length };
	uint64_t export[PROBE_TIMES], enter[PROBE_TIMES], leave[PROBE_TIMES];
	char name[32];
	bool done;

	done = probe_pair_allocate(host, &memory);
	if (!done)
		return false;
	for (int i = 0; i < PROBE_TIMES && done; i++)
		done = probe_deep_time(method, &memory, export + i, enter + i, leave + i);
	probe_pair_free(&memory);
	snprintf(name, sizeof(name), "cost/%zu", length);
	if (done)
		host_record(host, probe_pair_name(method, name), "ok %llu %llu %llu",
			    memory.fd < 0 ? 0ull : (unsigned long long)probe_pair_median(export),
			    (unsigned long long)probe_pair_median(enter),
			    (unsigned long long)probe_pair_median(leave));
	return done;
}

/* A quarter of the GPU's free memory, and of its free BAR1: other programs need both. */
static size_t probe_deep_room(struct host *host)
{
	const char *bar1 = host_text(host, "cuda/%d/bar1", probe_pair.gpu);
	unsigned long long total = 0, used = 0;
	size_t free_bytes = 0, all;

	if (CUDA(cuMemGetInfo_v2, &free_bytes, &all) != CUDA_SUCCESS)
		return 0;
	if (bar1 && sscanf(bar1, "%llu %llu", &total, &used) == 2 && total &&
	    total - used < free_bytes)
		free_bytes = total - used;
	return free_bytes / 4;
}

/* After the method's registrations: transfers, copies with and without SYNC_MEMOPS, and costs by
 * size. Nothing without --deep, or if the registrations failed. */
static void probe_deep(struct host *host, enum method method)
{
	static const size_t costs[] = { PROBE_COSTS, 0 };
	const char *option = host_text(host, "option/deep");
	const char *small = host_text(host, "%s", probe_pair_name(method, PROBE_SMALL));
	uint64_t start;
	size_t room;

	if (!option || strcmp(option, "on") || !small || strncmp(small, "ok", 2))
		return;
	room = probe_deep_room(host);
	probe_deep_exchange(host, method);
	if (room >= sizes[1].length)
		probe_deep_copy(host, method);
	for (size_t i = 0; costs[i] && costs[i] <= room; i++) {
		start = kernel_time(CLOCK_MONOTONIC);
		if (!probe_deep_cost(host, method, costs[i]))
			return;
		if (costs[i + 1] / costs[i] * (kernel_time(CLOCK_MONOTONIC) - start) > COSTS_NS)
			return;
	}
}

/* ---- the source ---- */

/* Last method that was started; -1: none. Not host_read: an absent name would become an ENOENT. */
static int probe_last_begun(const struct host *host)
{
	int last = -1;

	for (enum method method = probe_pair.first; method < METHODS; method++) {
		if (host_recorded(host, probe_pair_name(method, "begun")))
			last = (int)method;
	}
	return last;
}

static void probe_try_pair(struct host *host, const char **ended)
{
	const struct reading *reading;
	const char *how;
	char prefix[120];
	int lost;

	snprintf(prefix, sizeof(prefix), "probe/%d/%s/", probe_pair.gpu, probe_pair.adapter);
	for (probe_pair.first = 0; probe_pair.first < METHODS; probe_pair.first = lost + 1) {
		host_run_child(host, prefix, SECONDS, probe_pair_query);
		reading = host_read(host, "%sended", prefix);
		/* A pair skipped for lack of time has not failed. */
		if (reading->error == ETIME)
			return;
		how = reading->error ? "not started" : reading->text;
		if (!*ended || strcmp(*ended, "ok") == 0)
			*ended = how;
		if (strcmp(how, "ok") == 0)
			return;
		lost = probe_last_begun(host);
		if (lost < 0) {
			/* The child was lost while opening GPU or adapter. */
			probe_pair_lost(host, METHOD_DMA_BUF, how);
			probe_pair_lost(host, METHOD_PEER_MEMORY, how);
			return;
		}
		probe_pair_lost(host, (enum method)lost, how);
		if (lost < METHOD_DATA_DIRECT)
			snprintf(prefix, sizeof(prefix), "probe/%d/%s/%s/", probe_pair.gpu,
				 probe_pair.adapter, method_name((enum method)lost + 1));
	}
}

/* Name in line `number`, counted from 0. */
static bool probe_adapter_at(struct host *host, int64_t number, char *name, size_t size)
{
	const char *names = host_text(host, "verbs/devices");

	while (host_line(&names, name, size)) {
		if (*name && !number--)
			return true;
	}
	return false;
}

/* Tries each GPU with one adapter before any second adapter, starting at the adapter with the
 * GPU's own number: at the time limit, each GPU has had a turn. */
void probe_fill(struct host *host)
{
	const char *option = host_text(host, "option/probe"), *ended = NULL;
	int64_t count = 0, adapters = 0;

	if (option && strcmp(option, "off") == 0)
		return;
	host_number(host, &count, "cuda/count");
	while (probe_adapter_at(host, adapters, probe_pair.adapter, sizeof(probe_pair.adapter)))
		adapters++;
	for (int64_t turn = 0; turn < adapters; turn++) {
		for (probe_pair.gpu = 0; probe_pair.gpu < count; probe_pair.gpu++) {
			probe_adapter_at(host, (probe_pair.gpu + turn) % adapters,
					 probe_pair.adapter, sizeof(probe_pair.adapter));
			probe_try_pair(host, &ended);
		}
	}
	if (ended)
		host_record(host, "probe/ended", "%s", ended);
}
