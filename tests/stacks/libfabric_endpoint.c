/* SPDX-License-Identifier: BSD-3-Clause */
/* libfabric_endpoint.c -- an endpoint of libfabric, its one peer, and transfers of GPU memory */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "libfabric_endpoint.h"

#define FABRIC(call)  check_fabric(call, #call)
#define COMPLETIONS   8	  /* read at once */
#define ADDRESS_BYTES 128 /* of an endpoint, at most */

static int peer = -1; /* a socket */
static CUdevice device;
static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_ep *endpoint;
static struct fid_av *addresses;
static struct fid_cq *queue;
static fi_addr_t peer_address;

static void fail(const char *call, const char *why)
{
	fprintf(stderr, "libfabric_random: %s: %s\n", call, why);
	exit(1);
}

void check_cuda(CUresult result, const char *call)
{
	const char *name = NULL;

	if (result == CUDA_SUCCESS)
		return;
	cuGetErrorName(result, &name);
	fail(call, name ? name : "unknown CUDA error");
}

static void check_fabric(ssize_t result, const char *call)
{
	if (result < 0)
		fail(call, fi_strerror((int)-result));
}

void check_system(bool right, const char *call)
{
	if (!right)
		fail(call, strerror(errno));
}

/* ---- the peer, over TCP: addresses, and the end ---- */

static void meet(bool is_server, int port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
	int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	SYSTEM(listener >= 0);
	if (!is_server) {
		peer = listener;
		SYSTEM(!connect(peer, (struct sockaddr *)&address, sizeof(address)));
		return;
	}
	SYSTEM(!setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
	SYSTEM(!bind(listener, (struct sockaddr *)&address, sizeof(address)));
	SYSTEM(!listen(listener, 1));
	peer = accept(listener, NULL, NULL);
	SYSTEM(peer >= 0);
	close(listener);
}

static void swap_addresses(void)
{
	char own[ADDRESS_BYTES] = "", other[ADDRESS_BYTES];
	size_t bytes = sizeof(own);

	FABRIC(fi_getname(&endpoint->fid, own, &bytes));
	SYSTEM(send(peer, own, sizeof(own), MSG_NOSIGNAL) == sizeof(own));
	SYSTEM(recv(peer, other, sizeof(other), MSG_WAITALL) == sizeof(other));
	if (fi_av_insert(addresses, other, 1, &peer_address, 0, NULL) != 1)
		fail("fi_av_insert", "not inserted");
}

/* ---- libfabric ---- */

static void open_endpoint(void)
{
	struct fi_info *hints = fi_allocinfo();
	struct fi_av_attr av = { .type = FI_AV_TABLE };
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_TAGGED };

	SYSTEM(hints != NULL);
	hints->fabric_attr->prov_name = strdup("verbs;ofi_rxm");
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_TAGGED | FI_HMEM;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->domain_attr->mr_mode =
		FI_MR_LOCAL | FI_MR_HMEM | FI_MR_ALLOCATED | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;
	FABRIC(fi_getinfo(FI_VERSION(2, 0), "127.0.0.1", NULL, FI_SOURCE, hints, &info));
	fi_freeinfo(hints);
	FABRIC(fi_fabric(info->fabric_attr, &fabric, NULL));
	FABRIC(fi_domain(fabric, info, &domain, NULL));
	FABRIC(fi_av_open(domain, &av, &addresses, NULL));
	FABRIC(fi_cq_open(domain, &cq, &queue, NULL));
	FABRIC(fi_endpoint(domain, info, &endpoint, NULL));
	FABRIC(fi_ep_bind(endpoint, &addresses->fid, 0));
	FABRIC(fi_ep_bind(endpoint, &queue->fid, FI_TRANSMIT | FI_RECV));
	FABRIC(fi_enable(endpoint));
}

static void progress(void)
{
	struct fi_cq_tagged_entry entries[COMPLETIONS];
	struct fi_cq_err_entry error = { 0 };
	ssize_t count = fi_cq_read(queue, entries, COMPLETIONS);

	if (count == -FI_EAGAIN)
		return;
	if (count == -FI_EAVAIL) {
		FABRIC(fi_cq_readerr(queue, &error, 0));
		fail("completion", fi_strerror(error.err));
	}
	check_fabric(count, "fi_cq_read");
	for (ssize_t i = 0; i < count; i++)
		((struct transfer *)entries[i].op_context)->done = true;
}

static void *enter(struct transfer *transfer, CUdeviceptr at, size_t bytes, uint64_t access)
{
	struct iovec range = { .iov_base = (void *)(uintptr_t)at, .iov_len = bytes };
	struct fi_mr_attr attributes = {
		.mr_iov = &range,
		.iov_count = 1,
		.access = access,
		.iface = FI_HMEM_CUDA,
		.device.cuda = device,
	};

	memset(transfer, 0, sizeof(*transfer));
	if (!(info->domain_attr->mr_mode & FI_MR_HMEM))
		return NULL;
	FABRIC(fi_mr_regattr(domain, &attributes, 0, &transfer->region));
	return fi_mr_desc(transfer->region);
}

void transfer_wait(struct transfer *transfer)
{
	while (!transfer->done)
		progress();
	if (transfer->region)
		FABRIC(fi_close(&transfer->region->fid));
}

void transfer_receive(struct transfer *transfer, CUdeviceptr at, size_t bytes, uint64_t tag)
{
	void *description = enter(transfer, at, bytes, FI_RECV);
	ssize_t result;

	while ((result = fi_trecv(endpoint, (void *)(uintptr_t)at, bytes, description, peer_address,
				  tag, 0, transfer)) == -FI_EAGAIN)
		progress();
	check_fabric(result, "fi_trecv");
}

void transfer_send(struct transfer *transfer, CUdeviceptr at, size_t bytes, uint64_t tag)
{
	void *description = enter(transfer, at, bytes, FI_SEND);
	ssize_t result;

	while ((result = fi_tsend(endpoint, (void *)(uintptr_t)at, bytes, description, peer_address,
				  tag, transfer)) == -FI_EAGAIN)
		progress();
	check_fabric(result, "fi_tsend");
}

void endpoint_open(CUdevice on, bool is_server, int port)
{
	device = on;
	meet(is_server, port);
	open_endpoint();
	swap_addresses();
}

/* Neither process closes its endpoint while the other still sends: both make progress until then.
 */
static void part(void)
{
	char byte = 0;
	ssize_t got;

	SYSTEM(send(peer, &byte, 1, MSG_NOSIGNAL) == 1);
	while ((got = recv(peer, &byte, 1, MSG_DONTWAIT)) < 0 && errno == EAGAIN)
		progress();
	SYSTEM(got == 1);
}

void endpoint_close(void)
{
	part();
	FABRIC(fi_close(&endpoint->fid));
	FABRIC(fi_close(&queue->fid));
	FABRIC(fi_close(&addresses->fid));
	FABRIC(fi_close(&domain->fid));
	FABRIC(fi_close(&fabric->fid));
	fi_freeinfo(info);
}
