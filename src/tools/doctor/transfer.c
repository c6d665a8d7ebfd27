/* SPDX-License-Identifier: BSD-3-Clause */
/* transfer.c -- moves data into registered GPU memory and back, and compares it
 *
 * A successful registration does not prove that data arrives: bridges and IOMMUs may misroute it
 * silently. The adapter writes a pattern into GPU memory and reads it back, which also completes
 * the writes. The driver then reads the pattern, and writes a second pattern for the adapter to
 * read.
 */
#include "tools/doctor/transfer.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

#include "base/kernel.h"
#include "tools/doctor/host.h"
#include "tools/doctor/rc_abi.h"
#include "tools/units.h"

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

const char *transfer_run(struct ibv_pd *pd, const struct transfer *transfer, bool *tried)
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
