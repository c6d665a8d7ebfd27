/* SPDX-License-Identifier: BSD-3-Clause */
/* libfabric_endpoint.h -- an endpoint of libfabric, its one peer, and transfers of GPU memory
 *
 * The provider is verbs;ofi_rxm. A failing call ends the process with status 1 and a line on
 * standard error. One thread.
 */
#ifndef PEERPIN_TESTS_STACKS_LIBFABRIC_ENDPOINT_H
#define PEERPIN_TESTS_STACKS_LIBFABRIC_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

#include <rdma/fabric.h>

void check_cuda(CUresult result, const char *call);
void check_system(bool right, const char *call);

#define CUDA(call)   check_cuda(call, #call)
#define SYSTEM(call) check_system(call, #call)

/* Wait for the peer at this port of the loopback address, or connect to it; and exchange the
 * addresses of endpoints. */
void endpoint_open(CUdevice device, bool is_server, int port);
/* After the last transfer here: waits for that of the peer. */
void endpoint_close(void);

struct transfer {
	struct fi_context2 context; /* first: the provider returns it */
	struct fid_mr *region;
	bool done;
};

/* Register [at, at + bytes) and begin a transfer; it must remain until transfer_wait(). */
void transfer_receive(struct transfer *transfer, CUdeviceptr at, size_t bytes, uint64_t tag);
void transfer_send(struct transfer *transfer, CUdeviceptr at, size_t bytes, uint64_t tag);
/* Wait for its end, and close its registration. */
void transfer_wait(struct transfer *transfer);

#endif
